"""The simplest thing that could be budgets: what the ledger has to have after whatever happened."""

from __future__ import annotations

from dataclasses import dataclass, field

from operations.model import OPERATOR

Tree = dict[str, str | None]


@dataclass
class Pot:
    free: int = 0
    spent: int = 0
    over: int = 0

    def fill(self, amount: int) -> None:
        owed = min(self.over, amount)
        self.over, self.spent = self.over - owed, self.spent + owed
        self.free += amount - owed


@dataclass
class TaskPot(Pot):
    """What a task has of its own; `source` is an agent, another task, or nobody.

    `later`: what others gave besides, the first of them first.
    """

    agent: str = ""
    source: str = ""
    later: dict[str, int] = field(default_factory=dict)

    def give(self, source: str, amount: int) -> None:
        if source != self.source:
            self.later[source] = self.later.get(source, 0) + amount

    def inherit(self, source: str, heir: str) -> None:
        if self.source == source:
            self.source = heir
        if source in self.later:
            self.give(heir, self.later.pop(source))
        self.later.pop(self.source, None)


@dataclass
class Pots:
    """The simplest thing that could be budgets of one kind. `came`: from outside, on balance."""

    pots: dict[str, Pot] = field(default_factory=dict)
    tasks: dict[str, TaskPot] = field(default_factory=dict)
    wholes: dict[str, str] = field(default_factory=dict)
    came: int = 0
    paid_by_the_gone: int = 0

    def above(self, tree: Tree, name: str) -> str | None:
        at = tree[name]
        while at is not None and at not in self.pots:
            at = tree[at]
        return at

    def nearest(self, tree: Tree, name: str) -> str | None:
        return name if name in self.pots else self.above(tree, name)

    def spend(self, tree: Tree, name: str, amount: int) -> None:
        pays = self.nearest(tree, name)
        if pays is not None:
            pot = self.pots[pays]
            paid = min(pot.free, amount)
            pot.free, pot.spent, pot.over = (
                pot.free - paid,
                pot.spent + paid,
                pot.over + amount - paid,
            )

    def close(self, tree: Tree, name: str) -> None:
        home = self.above(tree, name)
        pot = self.pots.pop(name)
        self.paid_by_the_gone += pot.spent
        self._inherit(name, home or "")
        if home is None:
            self.came -= pot.free
        else:
            self.pots[home].fill(pot.free)

    def _inherit(self, source: str, heir: str) -> None:
        for each in self.tasks.values():
            each.inherit(source, heir)

    def payer(self, name: str, task: str) -> str:
        """The task whose own pays for what this agent does for `task`; none: empty."""
        if task in self.tasks or name in self.pots:
            return task if task in self.tasks else ""
        while task and task not in self.tasks:
            task = self.wholes.get(task, "")
        return task

    def fund(self, tree: Tree, caller: str, made: Made) -> None:
        """A new task of `caller`'s gets something of its own."""
        self.wholes[made.task] = made.whole
        if made.amount:
            source = self._taken(tree, caller, made)
            self.tasks[made.task] = TaskPot(made.amount, agent=made.agent, source=source)

    def _taken(self, tree: Tree, caller: str, made: Made) -> str:
        source = "" if caller == OPERATOR else self.payer(caller, made.whole)
        if not source and caller != OPERATOR:
            source = self.nearest(tree, caller) or ""
        source = source or self.above(tree, made.agent) or ""
        pot = self.tasks.get(source) or self.pots.get(source)
        if pot is None:
            self.came += made.amount
        else:
            pot.free -= made.amount
            assert pot.free >= 0, "given what was not there"
        return source

    def more(self, tree: Tree, giver: str, task: str, amount: int) -> None:
        """Out of what its giver has."""
        pot = self.tasks[task]
        source = self._taken(tree, giver, Made(task, pot.agent, self.wholes[task], amount))
        pot.give(source, amount)
        pot.fill(amount)

    def over(self, task: str) -> None:
        """It has ended: the rest goes back, what came last first."""
        pot = self.tasks.pop(task)
        self.paid_by_the_gone += pot.spent
        parts = [self.tasks[each] for each in sorted(self.tasks) if self.tasks[each].source == task]
        still = [
            self._still(each) for each in sorted(self.tasks) if self.tasks[each].source == task
        ]
        back = dict[str, int]()
        for source, amount in reversed(pot.later.items()):
            back[source] = min(amount, pot.free - sum(back.values()))
            rest = amount - back[source]
            for at, part in enumerate(parts):
                share = min(rest, still[at])
                rest, still[at] = rest - share, still[at] - share
                if share:
                    part.give(source, share)
        self._inherit(task, pot.source)
        back[pot.source] = pot.free - sum(back.values())
        for source, amount in back.items():
            self._return(source, amount)

    def _return(self, source: str, amount: int) -> None:
        home = self.tasks.get(source) or self.pots.get(source)
        if home is None:
            self.came -= amount
        else:
            home.fill(amount)

    def _still(self, task: str) -> int:
        parts = [each for each, pot in self.tasks.items() if pot.source == task]
        return self.tasks[task].free + sum(map(self._still, parts))

    def moved(self, before: Tree, after: Tree, name: str) -> None:
        """What hangs below another pot now gives back; what came from nobody is over there."""
        inside = [*(each for each in before if name in chain(before, each)), name]
        new = self.above(after, name)
        if self.above(before, name) == new:
            return
        for each in sorted(inside, key=lambda each: -len(chain(before, each))):
            if each in self.pots:
                self.close(before, each)
        while new is not None and (outside := self._from_nobody(inside)):
            for task in outside:
                self.over(task)

    def _from_nobody(self, agents: list[str]) -> list[str]:
        found = self.tasks.items()
        return [task for task, pot in found if not pot.source and pot.agent in agents]

    def give(self, tree: Tree, caller: str, name: str, amount: int) -> None:
        source = None if caller == OPERATOR else self.nearest(tree, caller)
        source = source or self.above(tree, name)
        if source is not None:
            self.pots[source].free -= amount
            assert self.pots[source].free >= 0, "given what was not there"
        else:
            if name not in self.pots:
                below = [each for each in self.pots if name in list(chain(tree, each))]
                amount -= sum(self.pots[each].free for each in below)
                for task in self.tasks.values():
                    if not task.source and name in (task.agent, *chain(tree, task.agent)):
                        amount -= max(0, task.free - sum(task.later.values()))
                        task.inherit("", name)
                assert amount >= 0, "less than those below have"
            self.came += amount
        self.pots.setdefault(name, Pot()).fill(amount)

    def take(self, tree: Tree, name: str, amount: int) -> None:
        home, pot = self.above(tree, name), self.pots[name]
        taken = min(pot.free, amount)
        pot.free -= taken
        if home is None:
            self.came -= taken
        elif taken:
            self.pots[home].fill(taken)


@dataclass(frozen=True)
class Made:
    task: str
    agent: str
    whole: str
    amount: int


def chain(tree: Tree, name: str) -> list[str]:
    found, at = list[str](), tree[name]
    while at is not None:
        found.append(at)
        at = tree[at]
    return found
