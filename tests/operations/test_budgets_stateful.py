"""K22: nothing is ever made of nothing: random trees, gifts, top-ups, spending, moves and ends."""

from __future__ import annotations

from contextlib import ExitStack

from fixtures.hive_model import OPERATOR
from fixtures.world import World, world
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from operations.budget_model import BudgetModel, FundedTask, ModelBudget, Tree, chain
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
        self.tokens, self.messages = BudgetModel(), BudgetModel()
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

    def model(self, kind: BudgetKind) -> BudgetModel:
        return self.tokens if kind is BudgetKind.TOKENS else self.messages

    def agent(self, data: st.DataObject, subject: str) -> str:
        return data.draw(st.sampled_from(sorted(self.tree)), subject)

    def child(self, data: st.DataObject) -> str:
        """Both roots stay."""
        return data.draw(st.sampled_from(sorted(self.tree.keys() - {"root", "other"})), "child")

    def caller(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([*sorted(self.tree), OPERATOR]), "caller")

    def is_allowed(self, caller: str, operation: str, **params: object) -> bool:
        """Whether it was allowed; what was refused has changed nothing."""
        before = self.amounts()
        try:
            self.world.call(caller, operation, **params)
        except HiveError:
            assert self.amounts() == before
            return False
        return True

    def amounts(self) -> dict[tuple[str, BudgetKind], tuple[int, int, int]]:
        names = self.world.hive.names
        funds = (item for item in self.world.ledger.budgets.funds.all())
        of_tasks = {
            (fund.task, fund.budget.kind): (fund.budget.free, fund.budget.spent, fund.budget.over)
            for fund in funds
        }
        return of_tasks | {
            (names[item.agent], kind): (item.free, item.spent, item.over)
            for kind in (BudgetKind.TOKENS, BudgetKind.MESSAGES)
            for item in self.world.ledger.budgets.of_kind(kind)
        }

    def allocate(self, caller: str, name: str, kind: BudgetKind, amount: int) -> None:
        if self.is_allowed(caller, "allocate_budget", agent=name, kind=kind.value, amount=amount):
            if amount > 0:
                self.model(kind).give(self.tree, caller, name, amount)
            else:
                self.model(kind).take(self.tree, name, -amount)

    @rule(data=DATA, kind=st.sampled_from((BudgetKind.TOKENS, BudgetKind.MESSAGES)), amount=AMOUNT)
    def give(self, data: st.DataObject, kind: BudgetKind, amount: int) -> None:
        self.allocate(self.caller(data), self.agent(data, "agent"), kind, amount)

    @rule(data=DATA, kind=st.sampled_from((BudgetKind.TOKENS, BudgetKind.MESSAGES)), amount=AMOUNT)
    def take(self, data: st.DataObject, kind: BudgetKind, amount: int) -> None:
        self.allocate(self.caller(data), self.agent(data, "agent"), kind, -amount)

    @rule(data=DATA, kind=st.sampled_from((BudgetKind.TOKENS, BudgetKind.MESSAGES)))
    def close(self, data: st.DataObject, kind: BudgetKind) -> None:
        caller, name, tree = self.caller(data), self.agent(data, "agent"), self.tree
        if self.is_allowed(caller, "allocate_budget", agent=name, kind=kind.value, close=True):
            self.model(kind).close(tree, name)

    @rule(data=DATA, amount=AMOUNT)
    def report(self, data: st.DataObject, amount: int) -> None:
        name = self.agent(data, "agent")
        assert self.is_allowed(
            name, "report_usage", tokens_in=amount // 2, tokens_out=amount - amount // 2
        )
        self.tokens.spend(self.tree, name, amount)

    @rule(data=DATA)
    def send(self, data: st.DataObject) -> None:
        name = self.agent(data, "agent")
        pays = self.messages.nearest(self.tree, name)
        empty = pays is not None and not self.messages.budgets[pays].free
        assert self.is_allowed(name, "send", to=name, body="note") != empty
        if not empty:
            self.messages.spend(self.tree, name, 1)

    @precondition(lambda self: len(self.tree) > len(("root", "other")))
    @rule(data=DATA)
    def move(self, data: st.DataObject) -> None:
        name, parent, tree = self.child(data), self.agent(data, "parent"), self.tree
        if self.done_moving(name, parent):
            for model in (self.tokens, self.messages):
                model.move(tree, self.tree, name)

    def done_moving(self, name: str, parent: str) -> bool:
        return self.is_allowed(OPERATOR, "move", agent=name, parent=parent)

    @precondition(lambda self: len(self.tree) > len(("root", "other")))
    @rule(data=DATA, recursive=st.booleans())
    def destroy(self, data: st.DataObject, recursive: bool) -> None:  # noqa: FBT001
        caller, name, tree = self.caller(data), self.child(data), self.tree
        if not self.is_allowed(caller, "destroy", agent=name, recursive=recursive):
            return
        gone = tree.keys() - self.tree.keys()
        for item in sorted(gone, key=lambda item: -len(chain(tree, item))):
            for model in (self.tokens, self.messages):
                if item in model.budgets:
                    model.close(tree, item)
            for task in [key for key, budget in self.tokens.tasks.items() if budget.agent == item]:
                self.tokens.over(task)
        self.settle()

    @rule(data=DATA, amount=st.integers(0, 300))
    def assign(self, data: st.DataObject, amount: int) -> None:
        caller, name = self.caller(data), self.agent(data, "agent")
        own = self.world.ledger.tasks.offered_tasks(self.world.uuid(caller))
        whole = data.draw(st.sampled_from(["-", *(item.id for item in own)]), "whole")
        wish = {"agent": name, "description": "x", "part_of": whole}
        if amount:
            wish["budget"] = {"tokens": amount}  # type: ignore[assignment]
        if self.is_allowed(caller, "assign_task", **wish):
            (task,) = self.world.ledger.tasks.page(None, None, 1)
            made = FundedTask(task.id, name, "" if whole == "-" else whole, amount)
            self.tokens.fund(self.tree, caller, made)

    @rule(data=DATA, amount=AMOUNT)
    def fund(self, data: st.DataObject, amount: int) -> None:
        if (task := self.task(data)) is None:
            return
        caller, giver = self.caller(data), self.world.ledger.tasks.require(task[0]).assigner
        if self.is_allowed(caller, "fund_task", task=task[0], tokens=amount):
            name = OPERATOR if giver == OPERATOR else self.world.hive.names[giver]
            self.tokens.more(self.tree, name, task[0], amount)

    def task(self, data: st.DataObject) -> tuple[str, str] | None:
        """One that is open, and whose it is."""
        page = self.world.ledger.tasks.page(None, None, 100, open_=True)
        if not page:
            return None
        task = data.draw(st.sampled_from(page), "task")
        return task.id, self.world.hive.names[task.assignee]

    @rule(data=DATA, amount=AMOUNT)
    def work(self, data: st.DataObject, amount: int) -> None:
        """Never more than the fund of the task: the order of ends decides who owes the rest."""
        if (result := self.task(data)) is None:
            return
        task, name = result
        payer = self.tokens.payer(name, task)
        budget = self.tokens.tasks.get(payer, ModelBudget(amount))
        amount = min(amount, budget.free)
        if not amount:
            return
        assert self.is_allowed(name, "report_usage", tokens_in=amount, task=task)
        if payer:
            budget.free, budget.spent = budget.free - amount, budget.spent + amount
        else:
            self.tokens.spend(self.tree, name, amount)

    @rule(data=DATA, status=st.sampled_from(("success", "failed")))
    def finish(self, data: st.DataObject, status: str) -> None:
        if (task := self.task(data)) is not None:
            self.is_allowed(task[1], "finish_task", task=task[0], status=status, summary="x")
            self.settle()

    @rule(data=DATA)
    def cancel(self, data: st.DataObject) -> None:
        if (task := self.task(data)) is not None:
            self.is_allowed(OPERATOR, "cancel_task", task=task[0])
            self.settle()

    @rule()
    def crash(self) -> None:
        self.world.kill()

    def settle(self) -> None:
        """Tasks that have ended hold no budget."""
        for task in list(self.tokens.tasks):
            if not self.world.ledger.tasks.require(task).open:
                self.tokens.over(task)

    @rule(data=DATA)
    def restore(self, data: st.DataObject) -> None:
        archives = self.world.call(OPERATOR, "list_archives")["archives"]
        assert isinstance(archives, list)
        if archives:
            self.is_allowed(
                OPERATOR, "restore", id=data.draw(st.sampled_from(archives), "archive")["id"]
            )

    @invariant()
    def the_ledger_has_what_the_model_has(self) -> None:
        expected = {
            (name, kind): (budget.free, budget.spent, budget.over)
            for kind in (BudgetKind.TOKENS, BudgetKind.MESSAGES)
            for name, budget in (self.model(kind).budgets | self.model(kind).tasks).items()
        }
        assert self.amounts() == expected

    @invariant()
    def what_came_in_is_there_or_paid(self) -> None:
        for model in (self.tokens, self.messages):
            every = (*model.budgets.values(), *model.tasks.values())
            there = sum(budget.free for budget in every)
            paid = sum(budget.spent for budget in every) + model.paid_by_the_gone
            assert there + paid == model.came
            assert paid <= model.came


Budgets.TestCase.settings = settings(
    max_examples=10, stateful_step_count=25, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TestBudgets = Budgets.TestCase
