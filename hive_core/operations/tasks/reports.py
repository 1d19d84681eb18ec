"""What the assignee says of its task, and how it hears that it has to stop (rows Q22, T9, K16)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached
from hive_core.model.work.task import WELL, ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.budgets.spending import record_final_report
from hive_core.operations.fields import WAIT_MOST, also, bounded_text
from hive_core.operations.tasks.begin import at_hand, begin, delegated
from hive_core.operations.tasks.lifecycle_hooks import confirmed
from hive_core.operations.tasks.operations import TASK, of_task
from hive_core.operations.tasks.params import Data, TaskId
from hive_core.operations.tasks.steps import log, topic
from hive_core.operations.tasks.transitions import end
from hive_core.operations.tasks.views import ResultRow, result
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

SUMMARY_MOST = 16 * 1024
_TOKENS = 10**12


class ReportParams(Mutation):
    task: TaskId | None = Field(
        None, validation_alias=also("task", "task_id"),
        description="The task of the caller's; absent: the only one that it works on."
        " Also `task_id`.",
    )  # fmt: skip


class ReportProgressParams(ReportParams):
    text: str = Field(max_length=1000, description="What it is at.")
    percent: int | None = Field(None, ge=0, le=100, description="How far it is.")


class Reported(Result):
    task: str = Field(description="The task.")
    state: str = Field(description="How far it is; stopping: end the work now.")


class BeginTaskParams(Mutation):
    task: TaskId = Field(
        validation_alias=also("task", "task_id"),
        description="A task that the caller was offered. Also `task_id`.",
    )


class Begun(Result):
    task: str = Field(description="The task.")
    state: str = Field(description="How far it is; stopping: do not begin.")
    attempt: int = Field(description="How often it was offered to its agent.")
    deadline: float | None = Field(
        description="When its work is stopped, in seconds since 1970; null while that is open."
    )


class FinishTaskParams(ReportParams):
    status: Literal["success", "partial", "failed", "timeout", "stopped"] = Field(
        description="How it came out."
    )
    summary: Annotated[str, bounded_text(SUMMARY_MOST)] = Field(
        description="What came out, for people and models; at most 16 KiB."
    )
    data: Data | None = Field(None, description="The same for programs.")
    artifacts: list[Annotated[str, Field(max_length=200)]] = Field(
        [], max_length=64, description="What it left in the store, by id."
    )
    tokens: int | None = Field(
        None, ge=0, le=_TOKENS, description="Spent, and not told by report_usage before."
    )
    cost: int | None = Field(
        None, ge=0, le=_TOKENS,
        description="Millionths of the currency, spent and not told by report_usage before.",
    )  # fmt: skip


class Finished(Result):
    task: str = Field(description="The task.")
    state: str = Field(description="done; cancelled when it was being stopped.")
    result: ResultRow = Field(description="The record, as the assigner finds it.")
    open: int = Field(description="Tasks of the same assigner that have not ended.")


class WatchTaskParams(Params):
    task: TaskId = Field(description="The task.")
    after: str | None = Field(
        None, max_length=64, description="`next` of the answer before: only news is wanted."
    )
    wait: float = Field(0.0, ge=0, le=WAIT_MOST, description="Seconds to wait for news at most.")


class Watched(Result):
    task: str = Field(description="The task.")
    state: str = Field(description="How far it is.")
    attempt: int = Field(description="How often it was given to its agent.")
    why: str = Field(description="Why it is so.")
    percent: int | None = Field(description="What the agent says of its progress.")
    progress: str = Field(description="What the agent says of its progress.")
    stop_by: float | None = Field(description="When its container is ended; null: not to stop.")
    next: str | None = Field(description="`after` for news; null when it has ended.")


def _of_reported(call: Call, params: ReportParams) -> str | None:
    """Whose the task is; without one it can only be the caller's own."""
    return call.caller if params.task is None else of_task(call, params)


_REPORTED: Final = Whose("task", "task", _of_reported)


@operation(action="work", allow=SELF, whose=TASK, urgent=True)
def begin_task(call: Call, params: BeginTaskParams) -> Record[Begun]:
    """Say that the caller works on a task now: its clock starts with this, and not before.

    Said again, it changes nothing. A report, a plan, a question about the task and a sub-task of it
    begin it as well. What was taken back meanwhile is a `Conflict`: it is not to be done.
    """
    task, topics = begin(call, _mine(call, params.task, "begin"))
    found = Begun(task=task.id, state=task.state.value, attempt=task.attempt, deadline=task.hard_at)
    return Record(found, topics, {"task": task.id})


@operation(action="work", allow=SELF, whose=_REPORTED)
def report_progress(call: Call, params: ReportProgressParams) -> Record[Reported]:
    """Say how far a task is. Its assigner finds it in the task; nobody gets a message of it."""
    task = _mine(call, params.task, "report of")
    after = call.ledger.reports.take(task.id, call.now)
    if after > 0:
        reason = f"cannot report of task {task.id}: too often, try again in {after:.2f} s"
        raise LimitReached(reason, retry_after=after)
    _, topics = delegated(call, task, "its first report")
    found = call.ledger.tasks.update(task.id, percent=params.percent, progress=params.text)
    log(call, found, "progress", params.text, percent=params.percent)
    return Record(
        Reported(task=task.id, state=found.state.value),
        topics | {topic(task.id), "events"}, {"task": task.id},
    )  # fmt: skip


@operation(action="work", allow=SELF, whose=_REPORTED, aliases=("report_to_parent",), urgent=True)
def finish_task(call: Call, params: FinishTaskParams) -> Record[Finished]:
    """Give the one report of a task, which ends it. Its assigner is told.

    A second report is refused with the first one. Of a task that is being stopped the report says
    that its work is over; what came out until then is kept.
    """
    task = _mine(call, params.task, "finish")
    if task.locked and params.status in WELL:
        raise Conflict(f"cannot finish task {task.id} as {params.status}: {task.locked}")
    task, begun = begin(call, task, "its report")
    said = TaskResult(
        ResultStatus(params.status), params.summary, params.data, artifacts=tuple(params.artifacts),
        tokens=params.tokens, cost=params.cost,
    )  # fmt: skip
    record_final_report(call, task.assignee, task.id, params.tokens or 0, params.cost or 0)
    if task.state is TaskState.STOPPING:
        found, topics = confirmed(call, task, said)
    else:
        found, topics = end(call, task, "finish", said)
    row = result(call, found)
    if row is None:
        raise Conflict(f"task {task.id} has no result")
    count = call.ledger.tasks.count_open("assigner", found.assigner)
    return Record(
        Finished(task=found.id, state=found.state.value, result=row, open=count),
        begun | topics,
        {"task": found.id, "status": row.status, **_spent(params)},
    )  # fmt: skip


def _spent(params: FinishTaskParams) -> dict[str, int]:
    """The spend stands in the event (row Q43)."""
    found = {"tokens": params.tokens, "cost": params.cost}
    return {name: amount for name, amount in found.items() if amount}


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, whose=TASK, streams=True)
def watch_task(call: Call, params: WatchTaskParams) -> Watched | Wait[Watched]:
    """Tell how far a task is; with `wait` or `more`, whenever that changes, to its end."""
    task = call.ledger.tasks.require(params.task)
    mark = str(task.version)
    found = Watched(
        task=task.id, state=task.state.value, attempt=task.attempt, why=task.why,
        percent=task.percent, progress=task.progress, stop_by=task.stop_at,
        next=mark if task.open else None,
    )  # fmt: skip
    if not task.open or params.after != mark or (params.wait <= 0 and not call.more):
        return found
    deadline = None if call.more else call.now + params.wait
    return Wait(frozenset({topic(task.id)}), deadline, found)


def _only(call: Call, verb: str) -> Task:
    """The one task that the caller works on, when it does not say which."""
    found = at_hand(call.ledger, call.uuid)
    if not found:
        raise Conflict(f"cannot {verb} a task: you work on none")
    if len(found) > 1:
        raise InvalidArgument(f"say which task: you work on {len(found)}", field="task")
    return found[0]


def _mine(call: Call, id_: str | None, verb: str) -> Task:
    """A task that the caller works on: Conflict with the first result when it has ended."""
    task = _only(call, verb) if id_ is None else call.ledger.tasks.require(id_)
    if not task.open:
        first = result(call, task)
        status = first.status if first else task.state.value
        reason = f"cannot {verb} task {task.id}: it has ended as {status}"
        raise Conflict(reason, result=first.model_dump() if first else None)
    if not task.held or (task.offered and call.ledger.plans.sweeps.contains(task.id)):
        reason = f"it is {task.state.value}, and not offered to you"
        raise Conflict(f"cannot {verb} task {task.id}: {reason}")
    return task
