"""The budget of a single task (row K34), taken from the budget of its assigner.

It pays for the use that is reported for the task and its parts. The rest is returned (refunds.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Params, Result
from hive_core.broker.timers import due
from hive_core.errors import InvalidArgument, LimitReached, NotAllowed
from hive_core.ledger.budgets.usage import TaskCapRow
from hive_core.model.agents.capability import covers
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.budget import AMOUNT_MOST, UNITS, Budget, BudgetKind, TaskFund
from hive_core.model.work.task import Task, TaskRequest, TaskState
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    ancestors,
    budget_title,
    budget_topic,
    funded_kinds,
    log_budget_event,
    self_and_ancestors,
    task_fund,
    usage_text,
)
from hive_core.operations.notices import send_notice
from hive_core.operations.tasks.caps import check_caps, request_report_at_cap
from hive_core.operations.tasks.offers import offer_next_tasks
from hive_core.operations.tasks.transitions import AT_ONCE

PARTS: Final = "parts"  # prefix of the timers of funds whose parts have to be offered
KINDS: Final = {"tokens": BudgetKind.TOKENS, "cost": BudgetKind.MONEY}


class TaskBudget(Params):
    """The budget of one task: tokens, cost, or both."""

    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST, description="Tokens, in and out.")
    cost: int | None = Field(
        None, ge=1, le=AMOUNT_MOST, description="Money, in millionths of the host's currency."
    )


class FundRow(Result):
    kind: str = Field(description="tokens, or money (in millionths of the host's currency).")
    left: int = Field(description="The amount that is not spent.")
    spent: int = Field(description="The amount that was spent, as reported.")
    owed: int = Field(description="The use beyond it.")


def budget_amounts(budget: TaskBudget | None) -> dict[str, int]:
    """The amounts of a task's budget, as the task request holds them."""
    amounts_ = {} if budget is None else budget.model_dump(exclude_none=True)
    if budget is not None and not amounts_:
        raise InvalidArgument("set `tokens`, `cost` or both", field="budget")
    return amounts_


def fund_rows(call: Call, task: str) -> list[FundRow]:
    """The budget of a task, as readers see it."""
    budgets = (fund.budget for fund in call.ledger.budgets.funds.of_task(task))
    return [
        FundRow(kind=budget.kind.value, left=budget.free, spent=budget.spent, owed=budget.over)
        for budget in budgets
    ]


def kinds_paid_by_task(call: Call, request: TaskRequest, uuid: str) -> frozenset[BudgetKind]:
    """The kinds for which a new task has a budget.

    Its own, or that of the task that it is a part of.
    """
    own = frozenset(KINDS[word] for word in request.budget)
    whole = funded_kinds(call, request.part_of, uuid)
    return own | {kind for kind in whole if call.ledger.budgets.get(uuid, kind) is None}


def create_funds(call: Call, task: Task) -> None:
    """Give a new task the budget that its request names, from the budget of its assigner."""
    if not task.request.budget:
        return
    _check_may_fund(call, task)
    for word, amount in sorted(task.request.budget.items()):
        kind = KINDS[word]
        cannot = f"cannot give a task {amount} {UNITS[kind]} of its own"
        source = draw_from_payer(call, task, (kind, amount), cannot)
        call.notify(budget_topic(source or task.assignee))
        budget = Budget(task.assignee, kind, free=amount)
        call.ledger.budgets.funds.save(TaskFund(task.id, source, budget))
        log_budget_event(
            call, budget, "reserved", f"task {task.id} has {amount} {UNITS[kind]} of its own"
        )


def _check_may_fund(call: Call, task: Task) -> None:
    name = call.hive.name(task.assigner)
    if task.assigner == OPERATOR or (name and covers(call.hive.spec(name).capabilities, BUDGET)):
        return
    raise NotAllowed(
        "cannot give a task a budget of its own: you do not hold the capability budget",
        rule=f"holds({BUDGET})",
    )


def draw_from_payer(call: Call, task: Task, wanted: tuple[BudgetKind, int], cannot: str) -> str:
    """Take an amount from the budget of the assigner; return the source, empty without a budget.

    `cannot`: the beginning of a refusal.
    """
    kind, amount = wanted
    source = _payer(call, task, kind)
    if source is None:
        return ""
    budget = source.budget if isinstance(source, TaskFund) else source
    if budget.free < amount:
        name = call.hive.name(budget.agent)
        whose = f"task {source.task}" if isinstance(source, TaskFund) else name
        raise LimitReached(
            f"{cannot}: the {budget_title(budget)} of {whose} has {budget.free} left",
            rule=BUDGET, budget=whose, of=kind.value,
        )  # fmt: skip
    left = budget.with_removed(amount)[0]
    if isinstance(source, TaskFund):
        call.ledger.budgets.funds.save(replace(source, budget=left))
        return source.task
    call.ledger.budgets.save(left)
    return budget.agent


def _payer(call: Call, task: Task, kind: BudgetKind) -> TaskFund | Budget | None:
    budgets = call.ledger.budgets
    nearest: Budget | None = None
    if task.assigner != OPERATOR:
        whole = task_fund(call, task.request.part_of, task.assigner, kind)
        if whole is not None:
            return whole
        nearest = budgets.nearest(self_and_ancestors(call.hive, task.assigner), kind)
    return nearest or budgets.nearest(ancestors(call.hive, task.assignee), kind)


def charge_fund(call: Call, fund: TaskFund, amount: int, *, last: bool = False) -> None:
    """Charge a task's budget. When nothing is left, ask the agent for a report."""
    fund = replace(fund, budget=fund.budget.with_charge(amount))
    call.ledger.budgets.funds.save(fund)
    if not last:
        _warn_if_low(call, fund)


def _warn_if_low(call: Call, fund: TaskFund) -> None:
    """Tell the agent and the assigner once when the budget runs low, and when it is empty."""
    budget, usage = fund.budget, call.ledger.budgets.usage
    subject = f"the {budget_title(budget)} of task {fund.task} of {call.hive.name(budget.agent)}"
    if budget.empty:
        capped = usage.task_caps(fund.task)
        if capped is not None and capped.reached:
            return
        if capped is None:
            usage.set_caps(fund.task, budget.agent, {})
            capped = TaskCapRow(fund.task, budget.agent, {}, "", None)
        text = f"{subject} is used up: {usage_text(call, budget)}"
        log_budget_event(call, budget, "used_up", text, fund.task)
        request_report_at_cap(
            call, capped, f"its {budget_title(budget)}, {usage_text(call, budget)}"
        )
        _tell_assigner(call, fund, text)
        return
    if budget.warned or not budget.is_near_end(call.settings.budgets.warn):
        return
    call.ledger.budgets.funds.save(replace(fund, budget=replace(budget, warned=True)))
    text = f"{subject} runs low: {usage_text(call, budget)}"
    log_budget_event(call, budget, "low", text, fund.task)
    if name := call.hive.name(budget.agent):
        send_notice(call, call.hive, name, BUDGET, text)
    _tell_assigner(call, fund, text)


def _tell_assigner(call: Call, fund: TaskFund, text: str) -> None:
    task = call.ledger.tasks.get(fund.task)
    assigner = task.assigner if task is not None else OPERATOR
    name = OPERATOR if assigner == OPERATOR else call.hive.name(assigner)
    if name is not None and assigner != fund.budget.agent:
        send_notice(call, call.hive, name, BUDGET, text)


def refill_fund(call: Call, fund: TaskFund, amount: int) -> None:
    """Add to a task's budget, as a top-up or a return from a part.

    Resume work that waited for it.
    """
    budgets, was_empty = call.ledger.budgets, fund.budget.empty
    budget = fund.budget.with_added(amount)
    warned = budget.warned and budget.is_near_end(call.settings.budgets.warn)
    fund = replace(fund, budget=replace(budget, warned=warned))
    budgets.funds.save(fund)
    call.ledger.models.look_again(fund.task, call.now)
    call.notify(budget_topic(budget.agent))
    if budget.empty:
        return
    if was_empty:
        _offer_parts(call, fund)
    capped = budgets.usage.task_caps(fund.task)
    if capped is None or not capped.reached:
        return
    if any(other.budget.empty for other in budgets.funds.of_task(fund.task)):
        return
    budgets.usage.mark_reached_cap(fund.task, "", None)
    if check_caps(call, fund.task):  # the task has reached one of its caps too
        return
    if name := call.hive.name(budget.agent):
        text = f"the {budget_title(budget)} of task {fund.task} has {budget.free} again: continue"
        send_notice(call, call.hive, name, BUDGET, text)
    call.notify(budget_topic(budget.agent))


def _offer_parts(call: Call, fund: TaskFund) -> None:
    """Offer the queued parts that the fund pays for again.

    To `AT_ONCE` agents now, to others later.
    """
    funds = call.ledger.budgets.funds
    queued = funds.open_parts(fund.task, (TaskState.QUEUED,))
    agents = list(dict.fromkeys(uuid for _, uuid in queued))
    if later := agents[AT_ONCE:]:
        funds.add_waking(later)
        call.notify(f"{PARTS}:{fund.task}")
    for uuid in agents[:AT_ONCE]:
        offer_next_tasks(call, uuid)


@due(at=lambda ledger: 0.0 if ledger.budgets.funds.has_waking else None, topics=frozenset({PARTS}))
def offer_funded_parts(call: Call) -> Record[Result]:
    """Offer tasks to more agents whose queued parts the fund pays for again."""
    for uuid in call.ledger.budgets.funds.take_waking(AT_ONCE):
        offer_next_tasks(call, uuid)
    call.notify(f"{PARTS}:")
    return Record(Result(), audited=True)
