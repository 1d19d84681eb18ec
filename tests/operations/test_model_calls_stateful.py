"""Any order of calls of models, gifts, reports, moves, ends and restarts: nothing is held twice."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from fixtures.world import Reply, World, world
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from hive_core.errors import HiveError, LimitReached, NotFound
from hive_core.ledger.models.storage import ESTIMATED
from hive_core.model.work.budget import Budget, BudgetKind

OPERATOR, MODEL = "operator", "model"
NAMES = ("root", "a", "b", "c", "d")
NAME = st.sampled_from(NAMES)
TOKENS = BudgetKind.TOKENS
SECONDS = st.sampled_from([0.5, 5.0, 45.0, 61.0, 700.0, 4000.0])


@dataclass
class OpenCall:
    """What the model of the test knows of a call that is not settled.

    `payer`: the agent whose budget holds `amount` for it, as long as that budget is there.
    """

    agent: str
    expected: int
    begun: float
    payer: str = ""
    amount: int = 0


def amounts(budget: Budget) -> tuple[str, int, int, int, int]:
    return budget.agent, budget.free, budget.held, budget.spent, budget.over


class ModelCalls(RuleBasedStateMachine):
    """`whole`: what is free, held or spent in all budgets. Only gifts and closes change it."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.world: World = self.stack.enter_context(world(None, "root/a", "root/b", "a/c", "c/d"))
        self.open: dict[str, OpenCall] = {}
        self.settled: dict[str, Reply] = {}
        self.whole = 0

    @override
    def teardown(self) -> None:
        self.stack.close()

    @initialize()
    def fill(self) -> None:
        self.give("root", 2000)

    def proxy(self, operation: str, **params: object) -> Reply:
        return self.world.ask_as(MODEL, operation, params).result()

    def budgets(self) -> list[Budget]:
        return self.world.ledger.budgets.of_kind(TOKENS)

    def total(self, field: str) -> int:
        return sum(getattr(budget, field) for budget in self.budgets())

    def sum(self) -> int:
        return self.total("free") + self.total("held") + self.total("spent")

    def allocate(self, name: str, **how: object) -> None:
        """The operator gives, takes back or closes; a refusal changes nothing."""
        before = self.budgets()
        try:
            self.world.call(OPERATOR, "allocate_budget", agent=name, kind="tokens", **how)
        except HiveError:
            assert self.budgets() == before
        self.change_payers()

    def change_payers(self) -> None:
        self.whole = self.sum()
        present = {budget.agent for budget in self.budgets()}
        for call in self.open.values():
            if call.payer not in present:
                call.payer, call.amount = "", 0

    def nearest(self, name: str) -> str:
        """The agent whose budget pays for this one now; empty: none has one."""
        hive, present = self.world.broker.hive, {budget.agent for budget in self.budgets()}
        lineage = (name, *hive.topology.lineage(name))
        return next((id_ for id_ in map(self.world.uuid, lineage) if id_ in present), "")

    @rule(name=NAME, amount=st.integers(1, 800))
    def give(self, name: str, amount: int) -> None:
        before = self.sum()
        self.allocate(name, amount=amount)
        assert 0 <= self.sum() - before <= amount

    @rule(name=NAME, amount=st.integers(1, 400))
    def take_back(self, name: str, amount: int) -> None:
        held, spent = self.total("held"), self.total("spent")
        self.allocate(name, amount=-amount)
        assert (self.total("held"), self.total("spent") >= spent) == (held, True)

    @rule(name=NAME)
    def close(self, name: str) -> None:
        self.allocate(name, close=True)

    @rule(name=NAME, bytes_=st.integers(0, 2000), out=st.integers(0, 6000))
    def reserve(self, name: str, bytes_: int, out: int) -> None:
        free, before = self.total("free"), {row.agent: row.held for row in self.budgets()}
        params = {
            "agent": self.world.uuid(name), "alias": "hive-small", "wire": "chat", "bytes": bytes_,
            "out_most": out,
        }  # fmt: skip
        try:
            reply = self.proxy("reserve_model", **params)
        except LimitReached:
            assert self.total("free") == free
            return
        expected = -(-bytes_ // 4) + min(out, 4096)
        assert reply["held_tokens"] == expected
        assert free - self.total("free") <= expected
        call = OpenCall(name, expected, self.world.clock.now())
        for row in self.budgets():
            if row.held > before[row.agent]:
                assert not call.payer
                call.payer, call.amount = row.agent, row.held - before[row.agent]
        assert call.payer in ("", self.nearest(name))
        self.open[str(reply["reservation"])] = call

    def open_call(self, data: st.DataObject) -> str | None:
        """One that is not settled; an hour after its estimate the daemon does not know it."""
        id_: str = data.draw(st.sampled_from(sorted(self.open)))
        stored = self.world.ledger.models.get(id_)
        if stored is not None:
            return id_
        assert self.open.pop(id_).begun < self.world.clock.now() - 3600
        with pytest.raises(NotFound):
            self.proxy("settle_model", reservation=id_, status="done")
        return None

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(0, 5000))
    def note(self, data: st.DataObject, tokens: int) -> None:
        if id_ := self.open_call(data):
            self.proxy("note_model", reservation=id_, tokens_out=tokens)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens_in=st.integers(0, 800), tokens_out=st.integers(0, 5000))
    def settle(self, data: st.DataObject, tokens_in: int, tokens_out: int) -> None:
        id_ = self.open_call(data)
        if id_ is None:
            return
        call, before = self.open.pop(id_), self.budgets()
        stored = self.world.ledger.models.get(id_)
        assert stored is not None
        payer, withdrawn = call.payer or self.nearest(call.agent), 0
        if stored.status == ESTIMATED:  # what paid the estimate pays, and has that back before
            payer, withdrawn = self.payer_of_estimate(call.agent, stored.charged["paid"])
        self.settled[id_] = self.proxy(
            "settle_model", reservation=id_, status="done", tokens_in=tokens_in,
            tokens_out=tokens_out,
        )  # fmt: skip
        held = 0 if stored.status == ESTIMATED else call.amount
        for row, after in zip(before, self.budgets(), strict=True):
            if row.agent == payer:
                released = row.with_refund(withdrawn).with_release(held)
                row = released.with_charge(tokens_in + tokens_out)  # noqa: PLW2901 - as it is now
            assert amounts(after) == amounts(row)

    def payer_of_estimate(self, name: str, paid: list[list[object]]) -> tuple[str, int]:
        """The agent whose budget paid an estimate and how much; without it the nearest, nothing."""
        present = {budget.agent for budget in self.budgets()}
        for holder, kind, _, amount in paid:
            if kind == TOKENS and holder in present:
                return str(holder), int(str(amount))
        return self.nearest(name), 0

    @precondition(lambda self: self.settled)
    @rule(data=st.data())
    def settle_again(self, data: st.DataObject) -> None:
        """A repetition changes nothing."""
        id_ = data.draw(st.sampled_from(sorted(self.settled)))
        if self.world.ledger.models.get(id_) is None:  # settled more than an hour ago
            del self.settled[id_]
            return
        before = self.budgets()
        reply = self.proxy("settle_model", reservation=id_, status="done", tokens_in=7)
        assert reply == self.settled[id_]
        assert self.budgets() == before

    @rule(name=NAME, tokens=st.integers(1, 500))
    def report(self, name: str, tokens: int) -> None:
        self.world.call(name, "report_usage", tokens_in=tokens)

    @rule(name=st.sampled_from(NAMES[1:]), parent=NAME)
    def move(self, name: str, parent: str) -> None:
        try:
            self.world.call(OPERATOR, "move", agent=name, parent=parent)
        except HiveError:
            return
        self.change_payers()

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(seconds=SECONDS, killed=st.booleans())
    def restart(self, seconds: float, *, killed: bool) -> None:
        (self.world.kill if killed else self.world.restart)(off=seconds)
        self.world.advance(0)

    @invariant()
    def each_budget_holds_what_open_calls_hold(self) -> None:
        held = defaultdict[str, int](int)
        for hold in self.world.ledger.models.holds():
            if hold.kind is TOKENS:
                held[hold.holder] += hold.amount
        for budget in self.world.ledger.budgets.of_kind(TOKENS):
            assert budget.held == held.pop(budget.agent, 0)
        assert not held

    @invariant()
    def no_call_holds_more_than_it_was_expected_to_use(self) -> None:
        held = sum(hold.amount for hold in self.world.ledger.models.holds())
        assert held <= sum(call.expected for call in self.open.values())

    @invariant()
    def calls_and_reports_only_turn_what_is_free_into_held_and_spent(self) -> None:
        """So what is held and spent is never more than was given; what is used beyond is owed."""
        assert self.sum() == self.whole
        for budget in self.budgets():
            assert min(budget.free, budget.held, budget.spent, budget.over) >= 0
            assert not (budget.free and budget.over)

    @invariant()
    def nothing_is_held_longer_than_the_bound(self) -> None:
        now = self.world.clock.now()
        for call in self.world.ledger.models.open_calls():
            assert call.due is not None
            assert call.due <= min(now + 60, call.begun + 3600)
            assert call.due > now - 1


TestModelCalls = ModelCalls.TestCase
TestModelCalls.settings = settings(
    max_examples=8, stateful_step_count=25, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
