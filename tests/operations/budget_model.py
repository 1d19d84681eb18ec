"""The simplest model of budgets: what the ledger must hold after any sequence of calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from fixtures.hive_model import OPERATOR

Tree = dict[str, str | None]


@dataclass
class ModelBudget:
    free: int = 0
    spent: int = 0
    over: int = 0

    def fill(self, amount: int) -> None:
        owed = min(self.over, amount)
        self.over, self.spent = self.over - owed, self.spent + owed
        self.free += amount - owed


@dataclass
class ModelFund(ModelBudget):
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
class BudgetModel:
    """The simplest model of budgets of one kind. `came`: the balance of what came from outside."""

    budgets: dict[str, ModelBudget] = field(default_factory=dict)
    tasks: dict[str, ModelFund] = field(default_factory=dict)
    wholes: dict[str, str] = field(default_factory=dict)
    came: int = 0
    paid_by_the_gone: int = 0

    def above(self, tree: Tree, name: str) -> str | None:
        at = tree[name]
        while at is not None and at not in self.budgets:
            at = tree[at]
        return at

    def nearest(self, tree: Tree, name: str) -> str | None:
        return name if name in self.budgets else self.above(tree, name)

    def spend(self, tree: Tree, name: str, amount: int) -> None:
        pays = self.nearest(tree, name)
        if pays is not None:
            budget = self.budgets[pays]
            paid = min(budget.free, amount)
            budget.free, budget.spent, budget.over = (
                budget.free - paid,
                budget.spent + paid,
                budget.over + amount - paid,
            )

    def close(self, tree: Tree, name: str) -> None:
        home = self.above(tree, name)
        budget = self.budgets.pop(name)
        self.paid_by_the_gone += budget.spent
        self._inherit(name, home or "")
        if home is None:
            self.came -= budget.free
        else:
            self.budgets[home].fill(budget.free)

    def _inherit(self, source: str, heir: str) -> None:
        for task in self.tasks.values():
            task.inherit(source, heir)

    def payer(self, name: str, task: str) -> str:
        """The task whose own pays for what this agent does for `task`; none: empty."""
        if task in self.tasks or name in self.budgets:
            return task if task in self.tasks else ""
        while task and task not in self.tasks:
            task = self.wholes.get(task, "")
        return task

    def fund(self, tree: Tree, caller: str, made: FundedTask) -> None:
        """A new task of `caller` gets a budget."""
        self.wholes[made.task] = made.whole
        if made.amount:
            source = self._take_source(tree, caller, made)
            self.tasks[made.task] = ModelFund(made.amount, agent=made.agent, source=source)

    def _take_source(self, tree: Tree, caller: str, made: FundedTask) -> str:
        source = "" if caller == OPERATOR else self.payer(caller, made.whole)
        if not source and caller != OPERATOR:
            source = self.nearest(tree, caller) or ""
        source = source or self.above(tree, made.agent) or ""
        budget = self.tasks.get(source) or self.budgets.get(source)
        if budget is None:
            self.came += made.amount
        else:
            budget.free -= made.amount
            assert budget.free >= 0, "given what was not there"
        return source

    def more(self, tree: Tree, giver: str, task: str, amount: int) -> None:
        """Out of what its giver has."""
        budget = self.tasks[task]
        source = self._take_source(
            tree, giver, FundedTask(task, budget.agent, self.wholes[task], amount)
        )
        budget.give(source, amount)
        budget.fill(amount)

    def over(self, task: str) -> None:
        """It has ended: the rest goes back, what came last first."""
        budget = self.tasks.pop(task)
        self.paid_by_the_gone += budget.spent
        parts = [self.tasks[item] for item in sorted(self.tasks) if self.tasks[item].source == task]
        still = [
            self._still(item) for item in sorted(self.tasks) if self.tasks[item].source == task
        ]
        back = dict[str, int]()
        for source, amount in reversed(budget.later.items()):
            back[source] = min(amount, budget.free - sum(back.values()))
            rest = amount - back[source]
            for at, part in enumerate(parts):
                share = min(rest, still[at])
                rest, still[at] = rest - share, still[at] - share
                if share:
                    part.give(source, share)
        self._inherit(task, budget.source)
        back[budget.source] = budget.free - sum(back.values())
        for source, amount in back.items():
            self._return(source, amount)

    def _return(self, source: str, amount: int) -> None:
        home = self.tasks.get(source) or self.budgets.get(source)
        if home is None:
            self.came -= amount
        else:
            home.fill(amount)

    def _still(self, task: str) -> int:
        parts = [key for key, budget in self.tasks.items() if budget.source == task]
        return self.tasks[task].free + sum(map(self._still, parts))

    def move(self, before: Tree, after: Tree, name: str) -> None:
        """What hangs below another budget now gives back; what came from nobody is over there."""
        inside = [*(item for item in before if name in chain(before, item)), name]
        new = self.above(after, name)
        if self.above(before, name) == new:
            return
        for item in sorted(inside, key=lambda item: -len(chain(before, item))):
            if item in self.budgets:
                self.close(before, item)
        while new is not None and (outside := self._from_nobody(inside)):
            for task in outside:
                self.over(task)

    def _from_nobody(self, agents: list[str]) -> list[str]:
        items = self.tasks.items()
        return [task for task, budget in items if not budget.source and budget.agent in agents]

    def give(self, tree: Tree, caller: str, name: str, amount: int) -> None:
        source = None if caller == OPERATOR else self.nearest(tree, caller)
        source = source or self.above(tree, name)
        if source is not None:
            self.budgets[source].free -= amount
            assert self.budgets[source].free >= 0, "given what was not there"
        else:
            if name not in self.budgets:
                below = [budget for budget in self.budgets if name in list(chain(tree, budget))]
                amount -= sum(self.budgets[item].free for item in below)
                for task in self.tasks.values():
                    if not task.source and name in (task.agent, *chain(tree, task.agent)):
                        amount -= max(0, task.free - sum(task.later.values()))
                        task.inherit("", name)
                assert amount >= 0, "less than those below have"
            self.came += amount
        self.budgets.setdefault(name, ModelBudget()).fill(amount)

    def take(self, tree: Tree, name: str, amount: int) -> None:
        home, budget = self.above(tree, name), self.budgets[name]
        taken = min(budget.free, amount)
        budget.free -= taken
        if home is None:
            self.came -= taken
        elif taken:
            self.budgets[home].fill(taken)


@dataclass(frozen=True)
class FundedTask:
    task: str
    agent: str
    whole: str
    amount: int


def chain(tree: Tree, name: str) -> list[str]:
    result, at = list[str](), tree[name]
    while at is not None:
        result.append(at)
        at = tree[at]
    return result
