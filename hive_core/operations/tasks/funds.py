"""What one task is given of its own (row K34): moved out of the purse of who gives the task.

It pays for what is reported for the task and its parts. What is left goes back (task_refunds.py).
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
from hive_core.operations.notices import tell
from hive_core.operations.tasks.caps import at_bound, note_caps
from hive_core.operations.tasks.offers import start_next
from hive_core.operations.tasks.transitions import AT_ONCE

PARTS: Final = "parts"  # topics: of whose parts more can begin
WORDS: Final = {"tokens": BudgetKind.TOKENS, "cost": BudgetKind.MONEY}


class TaskBudget(Params):
    """What one task has of its own; at least one of them."""

    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST, description="Tokens, in and out.")
    cost: int | None = Field(
        None, ge=1, le=AMOUNT_MOST, description="Money, in millionths of the host's currency."
    )


class FundRow(Result):
    kind: str = Field(description="tokens, or money (in millionths of the host's currency).")
    left: int = Field(description="What is not spent.")
    spent: int = Field(description="What was spent of it, as reported.")
    owed: int = Field(description="What was used beyond it.")


def words_of(budget: TaskBudget | None) -> dict[str, int]:
    """As it stands in the wish."""
    found = {} if budget is None else budget.model_dump(exclude_none=True)
    if budget is not None and not found:
        raise InvalidArgument("say tokens, or cost, or both", field="budget")
    return found


def rows_of(call: Call, task: str) -> list[FundRow]:
    """What a task has of its own, as readers see it."""
    purses = (each.budget for each in call.ledger.budgets.funds.of_task(task))
    return [
        FundRow(kind=each.kind.value, left=each.free, spent=each.spent, owed=each.over)
        for each in purses
    ]


def own_kinds(call: Call, wish: TaskRequest, uuid: str) -> frozenset[BudgetKind]:
    """Of what a task to be has something of its own, or of that of the whole that it is part of."""
    own = frozenset(WORDS[word] for word in wish.budget)
    whole = funded_kinds(call, wish.part_of, uuid)
    return own | {kind for kind in whole if call.ledger.budgets.get(uuid, kind) is None}


def fund(call: Call, task: Task) -> frozenset[str]:
    """Give a new task what its wish says, out of what its assigner has."""
    topics = frozenset[str]()
    if not task.request.budget:
        return topics
    _check_may(call, task)
    for word, amount in sorted(task.request.budget.items()):
        kind = WORDS[word]
        what = f"cannot give a task {amount} {UNITS[kind]} of its own"
        source = taken(call, task, (kind, amount), what)
        topics |= {budget_topic(source or task.assignee)}
        purse = Budget(task.assignee, kind, free=amount)
        call.ledger.budgets.funds.save(TaskFund(task.id, source, purse))
        log_budget_event(
            call, purse, "reserved", f"task {task.id} has {amount} {UNITS[kind]} of its own"
        )
    return topics


def _check_may(call: Call, task: Task) -> None:
    name = call.hive.name(task.assigner)
    if task.assigner == OPERATOR or (name and covers(call.hive.spec(name).capabilities, BUDGET)):
        return
    raise NotAllowed(
        "cannot give a task a budget of its own: you do not hold the capability budget",
        rule=f"holds({BUDGET})",
    )


def taken(call: Call, task: Task, wanted: tuple[BudgetKind, int], what: str) -> str:
    """Out of what its assigner works with; where nobody has a purse, from outside.

    `what` is what a refusal begins with.
    """
    kind, amount = wanted
    source = _source(call, task, kind)
    if source is None:
        return ""
    held = source.budget if isinstance(source, TaskFund) else source
    if held.free < amount:
        whose = (
            f"task {source.task}" if isinstance(source, TaskFund) else call.hive.name(held.agent)
        )
        raise LimitReached(
            f"{what}: of the {budget_title(held)} of {whose} are {held.free} left",
            rule=BUDGET, budget=whose, of=kind.value,
        )  # fmt: skip
    left = held.with_removed(amount)[0]
    if isinstance(source, TaskFund):
        call.ledger.budgets.funds.save(replace(source, budget=left))
        return source.task
    call.ledger.budgets.save(left)
    return held.agent


def _source(call: Call, task: Task, kind: BudgetKind) -> TaskFund | Budget | None:
    budgets, found = call.ledger.budgets, None
    if task.assigner != OPERATOR:
        whole = task_fund(call, task.request.part_of, task.assigner, kind)
        if whole is not None:
            return whole
        found = budgets.nearest(self_and_ancestors(call.hive, task.assigner), kind)
    return found or budgets.nearest(ancestors(call.hive, task.assignee), kind)


def spend(call: Call, held: TaskFund, amount: int, *, last: bool = False) -> frozenset[str]:
    """So much was used for it. When nothing is left the task has to come to its end."""
    held = replace(held, budget=held.budget.with_charge(amount))
    call.ledger.budgets.funds.save(held)
    return frozenset() if last else _low(call, held)


def _low(call: Call, held: TaskFund) -> frozenset[str]:
    """Its agent and its assigner are told once when it runs low, and when it is empty."""
    purse, usage = held.budget, call.ledger.budgets.usage
    what = f"the {budget_title(purse)} of task {held.task} of {call.hive.name(purse.agent)}"
    if purse.empty:
        known = usage.task_caps(held.task)
        if known is not None and known.reached:
            return frozenset()
        if known is None:
            usage.set_caps(held.task, purse.agent, {})
        found = known or TaskCapRow(held.task, purse.agent, {}, "", None)
        log_budget_event(call, purse, "used_up", f"{what} is used up: {usage_text(call, purse)}")
        topics = at_bound(call, found, f"its {budget_title(purse)}, {usage_text(call, purse)}")
        return topics | _tell_assigner(call, held, f"{what} is used up: {usage_text(call, purse)}")
    if purse.warned or not purse.is_near_end(call.settings.budgets.warn):
        return frozenset()
    call.ledger.budgets.funds.save(replace(held, budget=replace(purse, warned=True)))
    text = f"{what} runs low: {usage_text(call, purse)}"
    log_budget_event(call, purse, "low", text)
    name = call.hive.name(purse.agent)
    told = tell(call, call.hive, name, BUDGET, text) if name else frozenset[str]()
    return told | _tell_assigner(call, held, text)


def _tell_assigner(call: Call, held: TaskFund, text: str) -> frozenset[str]:
    task = call.ledger.tasks.get(held.task)
    giver = task.assigner if task is not None else OPERATOR
    name = OPERATOR if giver == OPERATOR else call.hive.name(giver)
    if name is None or giver == held.budget.agent:
        return frozenset()
    return tell(call, call.hive, name, BUDGET, text)


def more(call: Call, before: TaskFund, amount: int) -> frozenset[str]:
    """There is more in it, given or given back by a part: what had nothing left goes on."""
    purse, budgets = before.budget.with_added(amount), call.ledger.budgets
    warned = purse.warned and purse.is_near_end(call.settings.budgets.warn)
    held = replace(before, budget=replace(purse, warned=warned))
    budgets.funds.save(held)
    if purse.empty:
        return frozenset()
    topics = _parts_begun(call, held) if before.budget.empty else frozenset[str]()
    known = budgets.usage.task_caps(held.task)
    if known is None or not known.reached or any(each.budget.empty for each in _own(call, held)):
        return topics
    budgets.usage.mark_reached(held.task, "", None)
    if met := note_caps(call, held.task):  # one of its caps it has met as well
        return topics | met
    name = call.hive.name(purse.agent)
    text = f"the {budget_title(purse)} of task {held.task} has {purse.free} again: go on"
    topics |= tell(call, call.hive, name, BUDGET, text) if name else frozenset()
    return topics | {budget_topic(purse.agent)}


def _own(call: Call, held: TaskFund) -> list[TaskFund]:
    return call.ledger.budgets.funds.of_task(held.task)


def _parts_begun(call: Call, held: TaskFund) -> frozenset[str]:
    """Queued parts that it pays for again: some of their agents now, the others in later turns."""
    funds = call.ledger.budgets.funds
    queued = funds.open_parts(held.task, (TaskState.QUEUED,))
    who = list(dict.fromkeys(uuid for _, uuid in queued))
    funds.add_waking(who[AT_ONCE:])
    topics = frozenset({f"{PARTS}:{held.task}"} if who[AT_ONCE:] else ())
    return topics.union(*(start_next(call, uuid) for uuid in who[:AT_ONCE]))


@due(at=lambda ledger: 0.0 if ledger.budgets.funds.has_waking else None, topics=frozenset({PARTS}))
def parts_of_funded_tasks_begin(call: Call) -> Record[Result]:
    """More agents of whose queued parts somebody pays again."""
    found = call.ledger.budgets.funds.take_waking(AT_ONCE)
    topics = frozenset({f"{PARTS}:"}).union(*(start_next(call, uuid) for uuid in found))
    return Record(Result(), topics, audited=True)
