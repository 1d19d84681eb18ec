"""More for a task that has something of its own (row K34), out of the purse of who gave it."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import Conflict, InvalidArgument
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.budget import AMOUNT_MOST, UNITS, TaskFund
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.budgets.payer_budget import BUDGET, budget_topic
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.tasks.funds import WORDS, FundRow, more, rows_of, taken
from hive_core.operations.tasks.offers import start_next
from hive_core.operations.tasks.params import TaskId
from hive_core.operations.waits.wait_tasks import sees_task
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, holds


class FundTaskParams(Mutation):
    task: TaskId = Field(description="The task; it has something of its own.")
    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST, description="So many tokens more.")
    cost: int | None = Field(
        None, ge=1, le=AMOUNT_MOST,
        description="So much money more, in millionths of the host's currency.",
    )  # fmt: skip


class TaskFunded(Result):
    task: str = Field(description="The task.")
    giver: str = Field(description="Who gave the task, and pays for this.")
    budget: list[FundRow] = Field(description="What it has of its own now.")


def _giver(call: Call, params: Params) -> str | None:
    """It is for who gave the task, and who is above that one, to give more: it is their purse."""
    task = call.ledger.tasks.get(str(getattr(params, "task", "")))
    if task is None or not sees_task(call, task):
        return None
    return standing_in(call, task.assigner) or THE_OPERATOR


@operation(
    action="assign", allow=OPERATOR | (SELF | ANCESTOR) & holds(BUDGET),
    whose=Whose("task", "task", _giver)
)  # fmt: skip
def fund_task(call: Call, params: FundTaskParams) -> Record[TaskFunded]:
    """Give a task more of what it has of its own; a task that had used it up goes on.

    It comes out of what who gave the task has, or draws on, whoever of those above it asks. What
    is left at the end goes back to where it came from, what came last first.
    """
    task, topics = _open(call, params.task), frozenset[str]()
    asked = {word: getattr(params, word) for word in WORDS}
    amounts = {word: amount for word, amount in asked.items() if amount is not None}
    if not amounts:
        raise InvalidArgument("say tokens, or cost, or both", field="tokens")
    for word, amount in amounts.items():
        topics |= _funded(call, task, _held(call, task, word), amount)
    giver = _giver(call, params) or THE_OPERATOR
    found = TaskFunded(task=task.id, giver=giver, budget=rows_of(call, task.id))
    return Record(found, topics | start_next(call, task.assignee), {"task": task.id, **amounts})


def _open(call: Call, id_: str) -> Task:
    task = call.ledger.tasks.require(id_)
    if task.open and task.state is not TaskState.STOPPING:
        return task
    how = "is being stopped" if task.open else "has ended"
    raise Conflict(f"cannot fund task {task.id}: it {how}")


def _held(call: Call, task: Task, word: str) -> TaskFund:
    found = call.ledger.budgets.funds.get(task.id, WORDS[word])
    if found is None:
        raise Conflict(
            f"cannot fund task {task.id}: it was given no {UNITS[WORDS[word]]} of its own, and is"
            " paid as all that its agent does"
        )
    return found


def _funded(call: Call, task: Task, held: TaskFund, amount: int) -> frozenset[str]:
    kind = held.budget.kind
    if held.budget.total + amount > AMOUNT_MOST:
        raise InvalidArgument(f"no budget is above {AMOUNT_MOST}", field=_WORD[kind])
    what = f"cannot fund task {task.id} with {amount} {UNITS[kind]} more"
    source = taken(call, task, (kind, amount), what)
    if held.source and not source:  # else more would be left than anybody was given
        raise Conflict(f"{what}: what it has came out of a budget, and this would come out of none")
    call.ledger.budgets.funds.top_up(held, source, amount)
    return more(call, held, amount) | {budget_topic(source or task.assignee)}


_WORD: Final = {kind: word for word, kind in WORDS.items()}
