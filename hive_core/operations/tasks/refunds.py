"""What is left of what a task had of its own goes back to where it came from (row K34).

In the transaction of the task's one end, so whatever dies: once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from hive_core.broker.call import Call
from hive_core.broker.hooks import TaskEnded, when
from hive_core.model.agents.hive import Hive
from hive_core.model.work.budget import UNITS, Budget, BudgetKind, TaskFund
from hive_core.model.work.task import ACTIVE
from hive_core.operations.budgets.payer_budget import (
    budget_topic,
    funded_kinds,
    log_budget_event,
    self_and_ancestors,
)
from hive_core.operations.budgets.shortages import refill
from hive_core.operations.tasks.funds import more


@when(TaskEnded)
def _over(call: Call, what: TaskEnded) -> frozenset[str]:
    topics = frozenset[str]()
    for each in call.ledger.budgets.funds.of_task(what.id) if call.ledger.budgets.funds.any else ():
        topics |= closed(call, each)
    return topics


def closed(call: Call, held: TaskFund) -> frozenset[str]:
    """It pays no more; what is left goes back to where it came from, what came last first."""
    budgets, purse = call.ledger.budgets, held.budget
    shares, left = _shares(call, held), purse.free
    budgets.funds.drop(held)
    if purse.over:
        log_budget_event(
            call, purse, "owed", f"{purse.over} were used beyond it, and nobody pays for them"
        )
    touched = frozenset({budget_topic(purse.agent)}) | _spared_no_more(call, held)
    if not purse.free:
        return touched
    log_budget_event(
        call, purse, "returned", f"task {held.task} did not use {purse.free} {UNITS[purse.kind]}"
    )
    for source, amount in shares:
        touched |= _returned(call, source, purse.kind, amount)
        left -= amount
    return touched | _returned(call, held.source, purse.kind, left)


def _shares(call: Call, held: TaskFund) -> list[tuple[str, int]]:
    """What of the rest came from others than the first source.

    Of what its parts still have so much is theirs too, and goes back to them when those end.
    """
    funds, left, found = call.ledger.budgets.funds, held.budget.free, list[tuple[str, int]]()
    top_ups = funds.top_ups(held)
    parts = funds.from_source(held.task, held.budget.kind) if top_ups else []
    given = deque((each, _still(call, each)) for each in parts)
    for source, amount in top_ups:
        found.append((source, min(left, amount)))
        left, rest = left - found[-1][1], amount - found[-1][1]
        while rest and given:
            part, there = given.popleft()
            if share := min(rest, there):
                funds.top_up(part, source, share)
            rest -= share
            if there > share:
                given.appendleft((part, there - share))
    return found


def _still(call: Call, held: TaskFund) -> int:
    """What it has, and what parts have that came out of it."""
    funds, waiting, found = call.ledger.budgets.funds, [held], 0
    while waiting:
        each = waiting.pop()
        found += each.budget.free
        waiting += funds.from_source(each.task, each.budget.kind)
    return found


def _returned(call: Call, source: str, kind: BudgetKind, amount: int) -> frozenset[str]:
    budgets = call.ledger.budgets
    whole = budgets.funds.get(source, kind) if amount else None
    if whole is not None:
        return more(call, whole, amount)
    home = budgets.get(source, kind) if amount else None
    if home:
        refill(call, home, amount)
    return frozenset()


def _spared_no_more(call: Call, held: TaskFund) -> frozenset[str]:
    """Parts that it paid for may be left to empty purses, whose time was over: it runs again."""
    budgets, kind, topics = call.ledger.budgets, held.budget.kind, frozenset[str]()
    stop = call.settings.budgets.stop
    over = {
        each.agent: each for each in budgets.shortages()
        if each.kind is kind and not each.tier and each.stop_at is None
    }  # fmt: skip
    spared = budgets.funds.open_parts(held.task, ACTIVE) if stop and over else []
    for part, uuid in spared:
        if over and kind not in funded_kinds(call, part, uuid):
            pays = budgets.nearest(self_and_ancestors(call.hive, uuid), kind)
            missed = over.pop(pays.agent, None) if pays else None
            if missed is not None:
                budgets.save_shortage(replace(missed, stop_at=call.now + stop))
                topics |= {budget_topic(missed.agent)}
    return topics


def inherited(call: Call, purse: Budget, heir: str) -> None:
    """A purse is closed: what tasks got out of it goes to another one."""
    if not purse.tier:
        call.ledger.budgets.funds.replace_source(purse.agent, purse.kind, heir)


def from_nobody(call: Call, hive: Hive, names: Iterable[str], kind: BudgetKind) -> list[TaskFund]:
    """Funds that came from outside, of tasks of these agents."""
    inside = {hive.spec(name).id for name in names}
    found = call.ledger.budgets.funds.from_source("", kind)
    return [each for each in found if each.budget.agent in inside]


def outside(call: Call, held: TaskFund) -> int:
    """What is left of it and came from no purse, of one whose first source is nobody."""
    others = sum(amount for _, amount in call.ledger.budgets.funds.top_ups(held))
    return max(0, held.budget.free - others)
