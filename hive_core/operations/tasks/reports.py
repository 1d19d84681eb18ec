"""Reports of the assignee about its task, and how it learns that it has to stop.

Rows Q22, T9 and K16.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached
from hive_core.model.work.task import WELL, ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.budgets.spending import record_final_report
from hive_core.operations.fields import WAIT_MOST, also, bounded_text
from hive_core.operations.tasks.judgements import deliver_result
from hive_core.operations.tasks.params import Data, TaskId
from hive_core.operations.tasks.rules import TASK, task_target
from hive_core.operations.tasks.steps import (
    begin_work,
    current_tasks,
    end_pending_delegation,
    log_event,
    task_topic,
)
from hive_core.operations.tasks.transitions import confirm_stop, end_task
from hive_core.operations.tasks.views import ResultRow, result_row
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

SUMMARY_MOST = 16 * 1024
_AMOUNT_MOST = 10**12


class TaskReportParams(Mutation):
    task: TaskId | None = Field(
        None, validation_alias=also("task", "task_id"),
        description="Task of the caller; default: the only one that it works on. Also `task_id`.",
    )  # fmt: skip


class ReportProgressParams(TaskReportParams):
    text: str = Field(max_length=1000, description="Current activity of the agent, in words.")
    percent: int | None = Field(None, ge=0, le=100, description="Progress in percent.")


class ProgressReported(Result):
    task: str = Field(description="Id of the task.")
    state: str = Field(description="State of the task; stopping: end the work now.")


class BeginTaskParams(Mutation):
    task: TaskId = Field(
        validation_alias=also("task", "task_id"),
        description="Task that the caller was offered. Also `task_id`.",
    )


class TaskBegun(Result):
    task: str = Field(description="Id of the task.")
    state: str = Field(description="State of the task; stopping: do not begin.")
    attempt: int = Field(description="How often the task was offered to its agent.")
    deadline: float | None = Field(
        description="When its work is stopped, in seconds since 1970; null: no deadline runs."
    )


class FinishTaskParams(TaskReportParams):
    status: Literal["success", "partial", "failed", "timeout", "stopped"] = Field(
        description="Outcome of the task."
    )
    summary: Annotated[str, bounded_text(SUMMARY_MOST)] = Field(
        description="Result for people and models; at most 16 KiB."
    )
    data: Data | None = Field(None, description="Result for programs.")
    artifacts: list[Annotated[str, Field(max_length=200)]] = Field(
        [], max_length=64, description="Ids of artifacts that it stored."
    )
    tokens: int | None = Field(
        None, ge=0, le=_AMOUNT_MOST,
        description="Tokens spent, without those that report_usage has reported already.",
    )  # fmt: skip
    cost: int | None = Field(
        None, ge=0, le=_AMOUNT_MOST,
        description="Cost in millionths of the currency, without that which report_usage has"
        " reported already.",
    )  # fmt: skip


class Finished(Result):
    task: str = Field(description="Id of the task.")
    state: str = Field(
        description="done; cancelled when the task was being stopped; awaiting_judgement, or queued"
        " when it was given back at once, where it has criteria."
    )
    result: ResultRow | None = Field(
        description="Result, as the assigner sees it; null: it has to meet criteria first."
    )
    open: int = Field(description="Number of open tasks of the same assigner.")


class WatchTaskParams(Params):
    task: TaskId = Field(description="Id of the task.")
    after: str | None = Field(
        None, max_length=64, description="`next` of the previous reply: reply when it has changed."
    )
    wait: float = Field(0.0, ge=0, le=WAIT_MOST, description="Seconds to wait for a change.")


class WatchedTask(Result):
    task: str = Field(description="Id of the task.")
    state: str = Field(description="State of the task.")
    attempt: int = Field(description="How often the task was given to its agent.")
    why: str = Field(description="Reason for the state.")
    percent: int | None = Field(description="Progress in percent, reported by the agent.")
    progress: str = Field(description="Progress in words, reported by the agent.")
    stop_by: float | None = Field(
        description="When its container is ended; null: the task is not stopping."
    )
    next: str | None = Field(description="`after` for the next call; null: the task has ended.")


def _report_target(call: Call, params: TaskReportParams) -> str | None:
    """The agent that the call is authorized for; without a task it is the caller."""
    return call.caller if params.task is None else task_target(call, params)


_REPORTED_TASK: Final = Whose("task", "task", _report_target)


@operation(action="work", allow=SELF, whose=TASK, urgent=True)
def begin_task(call: Call, params: BeginTaskParams) -> Record[TaskBegun]:
    """Begin a task that the caller was offered. The clock of the task starts now.

    A second call changes nothing. A report, a plan, a question about the task or a sub-task of it
    also begins it. `Conflict` means that the task was withdrawn: do not work on it.
    """
    task = begin_work(call, _own_task(call, params.task, "begin"))
    result = TaskBegun(
        task=task.id, state=task.state.value, attempt=task.attempt, deadline=task.hard_at
    )
    return Record(result, fields={"task": task.id})


@operation(action="work", allow=SELF, whose=_REPORTED_TASK)
def report_progress(call: Call, params: ReportProgressParams) -> Record[ProgressReported]:
    """Report the progress of a task. The assigner sees it in the task; no message is sent."""
    task = _own_task(call, params.task, "report of")
    after = call.ledger.reports.take(task.id, call.now)
    if after > 0:
        reason = f"cannot report on task {task.id}: too often, try again in {after:.2f} s"
        raise LimitReached(reason, retry_after=after)
    end_pending_delegation(call, task, "its first report")
    task = call.ledger.tasks.update(task.id, percent=params.percent, progress=params.text)
    log_event(call, task, "progress", params.text, percent=params.percent)
    call.notify(task_topic(task.id), "events")
    return Record(ProgressReported(task=task.id, state=task.state.value), fields={"task": task.id})


@operation(
    action="work", allow=SELF, whose=_REPORTED_TASK, aliases=("report_to_parent",), urgent=True
)
def finish_task(call: Call, params: FinishTaskParams) -> Record[Finished]:
    """Report the result of a task, which ends the task. The daemon tells the assigner.

    A second report is refused with the first one in the error. For a task that is being stopped,
    the report confirms the stop, and its contents are kept as the result. A task with criteria
    ends when its result meets them; otherwise the agent gets it again, with the feedback.
    """
    task = _own_task(call, params.task, "finish")
    if task.locked and params.status in WELL:
        raise Conflict(f"cannot finish task {task.id} as {params.status}: {task.locked}")
    task = begin_work(call, task, "its report")
    report = TaskResult(
        ResultStatus(params.status), params.summary, params.data, artifacts=tuple(params.artifacts),
        tokens=params.tokens, cost=params.cost,
    )  # fmt: skip
    record_final_report(call, task.assignee, task.id, params.tokens or 0, params.cost or 0)
    if task.state is TaskState.STOPPING:
        task = confirm_stop(call, task, report)
    elif report.status in WELL and task.request.criteria:
        task = deliver_result(call, task, report)
    else:
        task = end_task(call, task, "finish", report)
    row = result_row(call, task)
    count = call.ledger.tasks.count_open("assigner", task.assigner)
    return Record(
        Finished(task=task.id, state=task.state.value, result=row, open=count),
        fields={"task": task.id, "status": params.status, **_spend_fields(params)},
    )


def _spend_fields(params: FinishTaskParams) -> dict[str, int]:
    """The use that the event records (row Q43)."""
    amounts = {"tokens": params.tokens, "cost": params.cost}
    return {name: amount for name, amount in amounts.items() if amount}


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, whose=TASK, streams=True)
def watch_task(call: Call, params: WatchTaskParams) -> WatchedTask | Wait[WatchedTask]:
    """Show the state of a task; with `wait` or `more`, reply whenever it changes, until its end."""
    task = call.ledger.tasks.require(params.task)
    version = str(task.version)
    result = WatchedTask(
        task=task.id, state=task.state.value, attempt=task.attempt, why=task.why,
        percent=task.percent, progress=task.progress, stop_by=task.stop_at,
        next=version if task.open else None,
    )  # fmt: skip
    if not task.open or params.after != version or (params.wait <= 0 and not call.more):
        return result
    deadline = None if call.more else call.now + params.wait
    return Wait(frozenset({task_topic(task.id)}), deadline, result)


def _only_task(call: Call, verb: str) -> Task:
    """The only task that the caller works on, for a call that names none."""
    tasks = current_tasks(call.ledger, call.uuid)
    if not tasks:
        raise Conflict(f"cannot {verb} a task: you do not work on a task")
    if len(tasks) > 1:
        raise InvalidArgument(f"name the task: you work on {len(tasks)}", field="task")
    return tasks[0]


def _own_task(call: Call, id_: str | None, verb: str) -> Task:
    """A task that the caller works on; Conflict with the first result when it has ended."""
    task = _only_task(call, verb) if id_ is None else call.ledger.tasks.require(id_)
    if not task.open:
        first = result_row(call, task)
        status = first.status if first else task.state.value
        reason = f"cannot {verb} task {task.id}: it has ended as {status}"
        raise Conflict(reason, result=first.model_dump() if first else None)
    if not task.held or (task.offered and call.ledger.plans.sweeps.contains(task.id)):
        reason = f"it is {task.state.value}, and not offered to you"
        raise Conflict(f"cannot {verb} task {task.id}: {reason}")
    return task
