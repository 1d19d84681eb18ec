"""K22: nothing is ever made of nothing: random trees, gifts, top-ups, spending, moves and ends."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from operations.model import OPERATOR
from operations.world import World, world
from typing_extensions import override

from hive_core.errors import HiveError
from hive_core.model.budget import Kind

NAMES = tuple("abcdef")
DATA = st.data()
AMOUNT = st.integers(1, 1000)
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
class Pots:
    """The simplest thing that could be budgets of one kind. `came`: from outside, on balance."""

    pots: dict[str, Pot] = field(default_factory=dict)
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
        if home is None:
            self.came -= pot.free
        else:
            self.pots[home].fill(pot.free)

    def give(self, tree: Tree, caller: str, name: str, amount: int) -> None:
        source = None if caller == OPERATOR else self.nearest(tree, caller)
        source = source or self.above(tree, name)
        if source is not None:
            self.pots[source].free -= amount
            assert self.pots[source].free >= 0, "given what was not there"
        else:
            if name not in self.pots:
                below = [each for each in self.pots if name in list(_chain(tree, each))]
                amount -= sum(self.pots[each].free for each in below)
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


def _chain(tree: Tree, name: str) -> list[str]:
    found, at = list[str](), tree[name]
    while at is not None:
        found.append(at)
        at = tree[at]
    return found


class Budgets(RuleBasedStateMachine):
    """The ledger has what the model has, after whatever was allowed; a refusal changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.world: World = self.stack.enter_context(world())
        self.tokens, self.messages = Pots(), Pots()
        self.world.call(OPERATOR, "spawn", name="other", parent="")

    @override
    def teardown(self) -> None:
        self.stack.close()

    @initialize(parents=st.lists(st.sampled_from(("root", *NAMES)), min_size=6, max_size=6))
    def grow(self, parents: list[str]) -> None:
        for name, parent in zip(NAMES, parents, strict=True):
            if parent in self.tree:
                self.world.call(OPERATOR, "spawn", name=name, parent=parent)
        self.allocate(OPERATOR, "root", Kind.TOKENS, 1000)
        self.allocate(OPERATOR, "root", Kind.MESSAGES, 20)

    @property
    def tree(self) -> Tree:
        return dict(self.world.hive.topology.parents)

    def pots(self, kind: Kind) -> Pots:
        return self.tokens if kind is Kind.TOKENS else self.messages

    def agent(self, data: st.DataObject, what: str) -> str:
        return data.draw(st.sampled_from(sorted(self.tree)), what)

    def child(self, data: st.DataObject) -> str:
        """Both roots stay."""
        return data.draw(st.sampled_from(sorted(self.tree.keys() - {"root", "other"})), "child")

    def caller(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([*sorted(self.tree), OPERATOR]), "caller")

    def done(self, caller: str, operation: str, **params: object) -> bool:
        """Whether it was allowed; what was refused has changed nothing."""
        before = self.held()
        try:
            self.world.call(caller, operation, **params)
        except HiveError:
            assert self.held() == before
            return False
        return True

    def held(self) -> dict[tuple[str, Kind], tuple[int, int, int]]:
        names = self.world.hive.names
        return {
            (names[each.agent], kind): (each.free, each.spent, each.over)
            for kind in (Kind.TOKENS, Kind.MESSAGES)
            for each in self.world.ledger.budgets.every(kind)
        }

    def allocate(self, caller: str, name: str, kind: Kind, amount: int) -> None:
        if self.done(caller, "allocate_budget", agent=name, kind=kind.value, amount=amount):
            if amount > 0:
                self.pots(kind).give(self.tree, caller, name, amount)
            else:
                self.pots(kind).take(self.tree, name, -amount)

    @rule(data=DATA, kind=st.sampled_from((Kind.TOKENS, Kind.MESSAGES)), amount=AMOUNT)
    def give(self, data: st.DataObject, kind: Kind, amount: int) -> None:
        self.allocate(self.caller(data), self.agent(data, "agent"), kind, amount)

    @rule(data=DATA, kind=st.sampled_from((Kind.TOKENS, Kind.MESSAGES)), amount=AMOUNT)
    def take(self, data: st.DataObject, kind: Kind, amount: int) -> None:
        self.allocate(self.caller(data), self.agent(data, "agent"), kind, -amount)

    @rule(data=DATA, kind=st.sampled_from((Kind.TOKENS, Kind.MESSAGES)))
    def close(self, data: st.DataObject, kind: Kind) -> None:
        caller, name, tree = self.caller(data), self.agent(data, "agent"), self.tree
        if self.done(caller, "allocate_budget", agent=name, kind=kind.value, close=True):
            self.pots(kind).close(tree, name)

    @rule(data=DATA, amount=AMOUNT)
    def report(self, data: st.DataObject, amount: int) -> None:
        name = self.agent(data, "agent")
        assert self.done(
            name, "report_usage", tokens_in=amount // 2, tokens_out=amount - amount // 2
        )
        self.tokens.spend(self.tree, name, amount)

    @rule(data=DATA)
    def send(self, data: st.DataObject) -> None:
        name = self.agent(data, "agent")
        pays = self.messages.nearest(self.tree, name)
        empty = pays is not None and not self.messages.pots[pays].free
        assert self.done(name, "send", to=name, body="note") != empty
        if not empty:
            self.messages.spend(self.tree, name, 1)

    @precondition(lambda self: len(self.tree) > len(("root", "other")))
    @rule(data=DATA)
    def move(self, data: st.DataObject) -> None:
        name, parent, tree = self.child(data), self.agent(data, "parent"), self.tree
        inside = [*(each for each in tree if name in _chain(tree, each)), name]
        if not self.done_moving(name, parent):
            return
        for pots in (self.tokens, self.messages):
            if pots.above(tree, name) == pots.above(self.tree, name):
                continue
            for each in sorted(inside, key=lambda each: -len(_chain(tree, each))):
                if each in pots.pots:
                    pots.close(tree, each)

    def done_moving(self, name: str, parent: str) -> bool:
        return self.done(OPERATOR, "move", agent=name, parent=parent)

    @precondition(lambda self: len(self.tree) > len(("root", "other")))
    @rule(data=DATA, recursive=st.booleans())
    def destroy(self, data: st.DataObject, recursive: bool) -> None:  # noqa: FBT001
        caller, name, tree = self.caller(data), self.child(data), self.tree
        if not self.done(caller, "destroy", agent=name, recursive=recursive):
            return
        gone = tree.keys() - self.tree.keys()
        for pots in (self.tokens, self.messages):
            for each in sorted(gone, key=lambda each: -len(_chain(tree, each))):
                if each in pots.pots:
                    pots.close(tree, each)

    @rule(data=DATA)
    def restore(self, data: st.DataObject) -> None:
        kept = self.world.call(OPERATOR, "list_archives")["archives"]
        assert isinstance(kept, list)
        if kept:
            self.done(OPERATOR, "restore", id=data.draw(st.sampled_from(kept), "archive")["id"])

    @invariant()
    def the_ledger_has_what_the_model_has(self) -> None:
        expected = {
            (name, kind): (pot.free, pot.spent, pot.over)
            for kind in (Kind.TOKENS, Kind.MESSAGES)
            for name, pot in self.pots(kind).pots.items()
        }
        assert self.held() == expected

    @invariant()
    def what_came_in_is_there_or_paid(self) -> None:
        for pots in (self.tokens, self.messages):
            there = sum(pot.free for pot in pots.pots.values())
            paid = sum(pot.spent for pot in pots.pots.values()) + pots.paid_by_the_gone
            assert there + paid == pots.came
            assert paid <= pots.came


Budgets.TestCase.settings = settings(
    max_examples=12, stateful_step_count=25, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TestBudgets = Budgets.TestCase
