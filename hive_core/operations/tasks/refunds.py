"""At the end of a task the rest of its budget is returned to its sources (row K34).

This is part of the transaction that ends the task, so it happens exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from hive_core.broker.call import Call
from hive_core.broker.hooks import TaskEnded, on
from hive_core.model.agents.hive import Hive
from hive_core.model.work.budget import UNITS, Budget, BudgetKind, TaskFund
from hive_core.model.work.task import ACTIVE
from hive_core.operations.budgets.payer_budget import (
    budget_topic,
    funded_kinds,
    log_budget_event,
    release_holds,
    self_and_ancestors,
)
from hive_core.operations.budgets.shortages import refill
from hive_core.operations.tasks.funds import refill_fund


@on(TaskEnded)
def _close_funds(call: Call, event: TaskEnded) -> None:
    funds = call.ledger.budgets.funds
    for fund in funds.of_task(event.id) if funds.any else ():
        close_fund(call, fund)


def close_fund(call: Call, fund: TaskFund) -> None:
    """Close a task's budget and return the rest, to the last source first."""
    fund = replace(fund, budget=release_holds(call, fund.task, fund.budget))
    budget = fund.budget
    call.ledger.models.look_again(fund.task, call.now)
    shares, left = _refund_shares(call, fund), budget.free
    call.ledger.budgets.funds.drop(fund)
    if budget.over:
        log_budget_event(
            call, budget, "owed", f"{budget.over} were used beyond it, and no budget pays for them"
        )
    call.notify(budget_topic(budget.agent))
    _restart_stop_times(call, fund)
    if not budget.free:
        return
    text = f"task {fund.task} did not use {budget.free} {UNITS[budget.kind]}"
    log_budget_event(call, budget, "returned", text)
    for source, amount in shares:
        _refund(call, source, budget.kind, amount)
        left -= amount
    _refund(call, fund.source, budget.kind, left)


def _refund_shares(call: Call, fund: TaskFund) -> list[tuple[str, int]]:
    """The parts of the rest that came from other sources than the first.

    When their share is larger than the rest, parts of the task hold the difference. The rows of
    those parts name these sources, and the end of each part returns it to them.
    """
    funds, left, shares = call.ledger.budgets.funds, fund.budget.free, list[tuple[str, int]]()
    top_ups = funds.top_ups(fund)
    parts = funds.from_source(fund.task, fund.budget.kind) if top_ups else []
    remaining = deque((part, _remaining_amount(call, part)) for part in parts)
    for source, amount in top_ups:
        share = min(left, amount)
        shares.append((source, share))
        left, rest = left - share, amount - share
        while rest and remaining:
            part, available = remaining.popleft()
            if part_share := min(rest, available):
                funds.top_up(part, source, part_share)
            rest -= part_share
            if available > part_share:
                remaining.appendleft((part, available - part_share))
    return shares


def _remaining_amount(call: Call, fund: TaskFund) -> int:
    """The rest of the fund and of the funds of parts that came from it."""
    funds, pending, total = call.ledger.budgets.funds, [fund], 0
    while pending:
        next_fund = pending.pop()
        total += next_fund.budget.free + next_fund.budget.held
        pending += funds.from_source(next_fund.task, next_fund.budget.kind)
    return total


def _refund(call: Call, source: str, kind: BudgetKind, amount: int) -> None:
    if not amount:
        return
    budgets = call.ledger.budgets
    whole = budgets.funds.get(source, kind)
    if whole is not None:
        refill_fund(call, whole, amount)
    elif home := budgets.get(source, kind):
        refill(call, home, amount)


def _restart_stop_times(call: Call, fund: TaskFund) -> None:
    """Set new stop times for empty budgets that now pay for parts which this fund had paid for."""
    budgets, kind = call.ledger.budgets, fund.budget.kind
    stop = call.settings.budgets.stop
    suspended = {
        shortage.agent: shortage for shortage in budgets.shortages()
        if shortage.kind is kind and not shortage.tier and shortage.stop_at is None
    }  # fmt: skip
    parts = budgets.funds.open_parts(fund.task, ACTIVE) if stop and suspended else []
    for part, uuid in parts:
        if suspended and kind not in funded_kinds(call, part, uuid):
            payer = budgets.nearest(self_and_ancestors(call.hive, uuid), kind)
            shortage = suspended.pop(payer.agent, None) if payer else None
            if shortage is not None:
                budgets.save_shortage(replace(shortage, stop_at=call.now + stop))
                call.notify(budget_topic(shortage.agent))


def reassign_funds(call: Call, budget: Budget, heir: str) -> None:
    """Make another budget the source of the funds that came from a closed budget."""
    if not budget.tier:
        call.ledger.budgets.funds.replace_source(budget.agent, budget.kind, heir)


def unsourced_funds(
    call: Call, hive: Hive, names: Iterable[str], kind: BudgetKind
) -> list[TaskFund]:
    """Funds of tasks of these agents that came from no budget."""
    inside = {hive.spec(name).id for name in names}
    funds = call.ledger.budgets.funds.from_source("", kind)
    return [fund for fund in funds if fund.budget.agent in inside]


def unsourced_amount(call: Call, fund: TaskFund) -> int:
    """The part of the rest of a fund that came from no budget."""
    top_ups = sum(amount for _, amount in call.ledger.budgets.funds.top_ups(fund))
    return max(0, fund.budget.free + fund.budget.held - top_ups)
