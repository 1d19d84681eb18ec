"""K22: nothing is ever made of nothing: random trees, gifts, top-ups, spending, moves and ends."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from operations.model import OPERATOR
from operations.pots import Made, Pot, Pots, Tree, chain
from operations.world import World, world
from typing_extensions import override

from hive_core.errors import HiveError
from hive_core.model.work.budget import BudgetKind

NAMES = tuple("abcdef")
DATA = st.data()
AMOUNT = st.integers(1, 1000)


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
        self.allocate(OPERATOR, "root", BudgetKind.TOKENS, 1000)
        self.allocate(OPERATOR, "root", BudgetKind.MESSAGES, 20)

    @property
    def tree(self) -> Tree:
        return dict(self.world.hive.topology.parents)

    def pots(self, kind: BudgetKind) -> Pots:
        return self.tokens if kind is BudgetKind.TOKENS else self.messages

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

    def held(self) -> dict[tuple[str, BudgetKind], tuple[int, int, int]]:
        names = self.world.hive.names
        funds = (each for each in self.world.ledger.budgets.funds.all())
        of_tasks = {
            (each.task, each.budget.kind): (each.budget.free, each.budget.spent, each.budget.over)
            for each in funds
        }
        return of_tasks | {
            (names[each.agent], kind): (each.free, each.spent, each.over)
            for kind in (BudgetKind.TOKENS, BudgetKind.MESSAGES)
            for each in self.world.ledger.budgets.of_kind(kind)
        }

    def allocate(self, caller: str, name: str, kind: BudgetKind, amount: int) -> None:
        if self.done(caller, "allocate_budget", agent=name, kind=kind.value, amount=amount):
            if amount > 0:
                self.pots(kind).give(self.tree, caller, name, amount)
            else:
                self.pots(kind).take(self.tree, name, -amount)

    @rule(data=DATA, kind=st.sampled_from((BudgetKind.TOKENS, BudgetKind.MESSAGES)), amount=AMOUNT)
    def give(self, data: st.DataObject, kind: BudgetKind, amount: int) -> None:
        self.allocate(self.caller(data), self.agent(data, "agent"), kind, amount)

    @rule(data=DATA, kind=st.sampled_from((BudgetKind.TOKENS, BudgetKind.MESSAGES)), amount=AMOUNT)
    def take(self, data: st.DataObject, kind: BudgetKind, amount: int) -> None:
        self.allocate(self.caller(data), self.agent(data, "agent"), kind, -amount)

    @rule(data=DATA, kind=st.sampled_from((BudgetKind.TOKENS, BudgetKind.MESSAGES)))
    def close(self, data: st.DataObject, kind: BudgetKind) -> None:
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
        if self.done_moving(name, parent):
            for pots in (self.tokens, self.messages):
                pots.moved(tree, self.tree, name)

    def done_moving(self, name: str, parent: str) -> bool:
        return self.done(OPERATOR, "move", agent=name, parent=parent)

    @precondition(lambda self: len(self.tree) > len(("root", "other")))
    @rule(data=DATA, recursive=st.booleans())
    def destroy(self, data: st.DataObject, recursive: bool) -> None:  # noqa: FBT001
        caller, name, tree = self.caller(data), self.child(data), self.tree
        if not self.done(caller, "destroy", agent=name, recursive=recursive):
            return
        gone = tree.keys() - self.tree.keys()
        for each in sorted(gone, key=lambda each: -len(chain(tree, each))):
            for pots in (self.tokens, self.messages):
                if each in pots.pots:
                    pots.close(tree, each)
            for task in [key for key, pot in self.tokens.tasks.items() if pot.agent == each]:
                self.tokens.over(task)
        self.settle()

    @rule(data=DATA, amount=st.integers(0, 300))
    def assign(self, data: st.DataObject, amount: int) -> None:
        caller, name = self.caller(data), self.agent(data, "agent")
        own = self.world.ledger.tasks.offered_tasks(self.world.uuid(caller))
        whole = data.draw(st.sampled_from(["-", *(each.id for each in own)]), "whole")
        wish = {"agent": name, "description": "x", "part_of": whole}
        if amount:
            wish["budget"] = {"tokens": amount}  # type: ignore[assignment]
        if self.done(caller, "assign_task", **wish):
            (task,) = self.world.ledger.tasks.page(None, None, 1)
            made = Made(task.id, name, "" if whole == "-" else whole, amount)
            self.tokens.fund(self.tree, caller, made)

    @rule(data=DATA, amount=AMOUNT)
    def fund(self, data: st.DataObject, amount: int) -> None:
        if (found := self.task(data)) is None:
            return
        caller, giver = self.caller(data), self.world.ledger.tasks.require(found[0]).assigner
        if self.done(caller, "fund_task", task=found[0], tokens=amount):
            name = OPERATOR if giver == OPERATOR else self.world.hive.names[giver]
            self.tokens.more(self.tree, name, found[0], amount)

    def task(self, data: st.DataObject) -> tuple[str, str] | None:
        """One that is open, and whose it is."""
        found = self.world.ledger.tasks.page(None, None, 100, open_=True)
        if not found:
            return None
        task = data.draw(st.sampled_from(found), "task")
        return task.id, self.world.hive.names[task.assignee]

    @rule(data=DATA, amount=AMOUNT)
    def work(self, data: st.DataObject, amount: int) -> None:
        """Never more than the task has of its own: whose debts they are is up to who ends first."""
        if (found := self.task(data)) is None:
            return
        task, name = found
        payer = self.tokens.payer(name, task)
        pot = self.tokens.tasks.get(payer, Pot(amount))
        amount = min(amount, pot.free)
        if not amount:
            return
        assert self.done(name, "report_usage", tokens_in=amount, task=task)
        if payer:
            pot.free, pot.spent = pot.free - amount, pot.spent + amount
        else:
            self.tokens.spend(self.tree, name, amount)

    @rule(data=DATA, status=st.sampled_from(("success", "failed")))
    def finish(self, data: st.DataObject, status: str) -> None:
        if (found := self.task(data)) is not None:
            self.done(found[1], "finish_task", task=found[0], status=status, summary="x")
            self.settle()

    @rule(data=DATA)
    def cancel(self, data: st.DataObject) -> None:
        if (found := self.task(data)) is not None:
            self.done(OPERATOR, "cancel_task", task=found[0])
            self.settle()

    @rule()
    def crash(self) -> None:
        self.world.kill()

    def settle(self) -> None:
        """Tasks that have ended have nothing of their own any more."""
        for task in list(self.tokens.tasks):
            if not self.world.ledger.tasks.require(task).open:
                self.tokens.over(task)

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
            for kind in (BudgetKind.TOKENS, BudgetKind.MESSAGES)
            for name, pot in (self.pots(kind).pots | self.pots(kind).tasks).items()
        }
        assert self.held() == expected

    @invariant()
    def what_came_in_is_there_or_paid(self) -> None:
        for pots in (self.tokens, self.messages):
            every = (*pots.pots.values(), *pots.tasks.values())
            there = sum(pot.free for pot in every)
            paid = sum(pot.spent for pot in every) + pots.paid_by_the_gone
            assert there + paid == pots.came
            assert paid <= pots.came


Budgets.TestCase.settings = settings(
    max_examples=10, stateful_step_count=25, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TestBudgets = Budgets.TestCase
