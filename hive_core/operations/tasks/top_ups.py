"""Adding to the budget of a task (row K34), out of the budget of its assigner."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import FRESH
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import Conflict, InvalidArgument
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.budget import AMOUNT_MOST, UNITS, TaskFund
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.budgets.payer_budget import BUDGET, budget_topic
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.tasks.funds import (
    KINDS,
    FundRow,
    draw_from_payer,
    fund_rows,
    refill_fund,
)
from hive_core.operations.tasks.offers import offer_next_tasks
from hive_core.operations.tasks.params import TaskId
from hive_core.operations.tasks.rules import can_see_task
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, holds

_WORDS: Final = {kind: word for word, kind in KINDS.items()}


class FundTaskParams(Mutation):
    task: TaskId = Field(description="Task that has a budget of its own.")
    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST, description="Number of tokens to add.")
    cost: int | None = Field(
        None, ge=1, le=AMOUNT_MOST,
        description="Money to add, in millionths of the host's currency.",
    )  # fmt: skip


class TaskFunded(Result):
    task: str = Field(description="Id of the task.")
    giver: str = Field(description="Name of the assigner, whose budget pays.")
    budget: list[FundRow] = Field(description="Budget of the task now.")


def _assigner(call: Call, params: Params) -> str | None:
    """The assigner, whose budget pays.

    The assigner and the agents above it may add to the task's budget.
    """
    task = call.ledger.tasks.get(str(getattr(params, "task", "")))
    if task is None or not can_see_task(call, task):
        return None
    return standing_in(call, task.assigner) or THE_OPERATOR


@operation(
    action="assign", allow=OPERATOR | (SELF | ANCESTOR) & holds(BUDGET),
    whose=Whose("task", "task", _assigner), login=FRESH,
)  # fmt: skip
def fund_task(call: Call, params: FundTaskParams) -> Record[TaskFunded]:
    """Add to the budget of a task; a task that had used it up continues.

    The budget that pays for the assigner is charged, also when an agent above the assigner calls.
    When the task ends, the rest is returned to its sources, the last one first.
    """
    task = _open_task(call, params.task)
    requested = {word: getattr(params, word) for word in KINDS}
    amounts = {word: amount for word, amount in requested.items() if amount is not None}
    if not amounts:
        raise InvalidArgument("set `tokens`, `cost` or both", field="tokens")
    for word, amount in amounts.items():
        _top_up(call, task, _fund_of_kind(call, task, word), amount)
    giver = _assigner(call, params) or THE_OPERATOR
    result = TaskFunded(task=task.id, giver=giver, budget=fund_rows(call, task.id))
    offer_next_tasks(call, task.assignee)
    return Record(result, fields={"task": task.id, **amounts})


def _open_task(call: Call, id_: str) -> Task:
    task = call.ledger.tasks.require(id_)
    if task.open and task.state is not TaskState.STOPPING:
        return task
    how = "is being stopped" if task.open else "has ended"
    raise Conflict(f"cannot fund task {task.id}: it {how}")


def _fund_of_kind(call: Call, task: Task, word: str) -> TaskFund:
    fund = call.ledger.budgets.funds.get(task.id, KINDS[word])
    if fund is None:
        raise Conflict(
            f"cannot fund task {task.id}: it has no {UNITS[KINDS[word]]} of its own; the budget of"
            " its agent pays"
        )
    return fund


def _top_up(call: Call, task: Task, fund: TaskFund, amount: int) -> None:
    kind = fund.budget.kind
    if fund.budget.total + amount > AMOUNT_MOST:
        raise InvalidArgument(f"a budget is at most {AMOUNT_MOST}", field=_WORDS[kind])
    cannot = f"cannot fund task {task.id} with {amount} {UNITS[kind]} more"
    source = draw_from_payer(call, task, (kind, amount), cannot)
    if fund.source and not source:  # otherwise the end of the task would return more than was taken
        raise Conflict(f"{cannot}: its budget came from a budget, and no budget would pay for this")
    call.ledger.budgets.funds.top_up(fund, source, amount)
    refill_fund(call, fund, amount)
    call.notify(budget_topic(source or task.assignee))
