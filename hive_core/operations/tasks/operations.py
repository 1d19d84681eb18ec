"""Assigning, reading and cancelling tasks (rows T3, T5, T9, T11, T12)."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import LoginRule
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import Conflict, InvalidArgument
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.task import ResultStatus, Task
from hive_core.operations.fields import Agent
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.pages import Page, Paged, take_fitting
from hive_core.operations.tasks.assign import create_task
from hive_core.operations.tasks.deliveries import is_left_to_assigner
from hive_core.operations.tasks.funds import FundRow, fund_rows
from hive_core.operations.tasks.notices import party_name, task_traceparent
from hive_core.operations.tasks.params import (
    TaskCriteria,
    TaskId,
    TaskRequestParams,
    Text,
    confirmation_of_budget,
    task_request,
)
from hive_core.operations.tasks.rules import ASSIGNER, TASK, assigner_facts
from hive_core.operations.tasks.transitions import AT_ONCE, revisit, stop_tasks
from hive_core.operations.tasks.views import (
    JudgementRow,
    ResultRow,
    TaskRow,
    delivered_row,
    judgement_rows,
    row_size,
    start_hint,
    task_row,
)
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

_HISTORY: Final = 200


class AssignTaskParams(TaskRequestParams):
    agent: Agent = Field(description="Assignee: an agent below the caller.")
    description: Text = Field(description="Text of the task; at most 32 KiB.")
    title: str = Field("", max_length=200, description="Short title for lists.")


class Assigned(Result):
    task: str = Field(description="Id of the task.")
    agent: str = Field(description="Name of the assignee.")
    state: str = Field(description="queued until the assignee begins the task, or waiting.")
    hint: str = Field(
        description="Why the assignee cannot begin it now, such as that it is stopped; empty: no"
        " known reason."
    )
    traceparent: str = Field(
        description="Span of its first attempt, as W3C Trace Context writes it."
    )


class GetTaskParams(Params):
    task: TaskId = Field(description="Id of the task.")


class TaskEventRow(Result):
    seq: int = Field(description="Number of the event.")
    time: float = Field(description="Seconds since 1970.")
    event: str = Field(description="Name of the event.")
    state: str = Field(description="State of the task after it.")
    by: str = Field(description="Name of the caller at that time, `operator` or `daemon`.")
    why: str = Field(description="Reason.")


class WholeTask(Result):
    task: TaskRow = Field(description="The task.")
    description: str = Field(description="Text of the task.")
    data: dict[str, object] | None = Field(description="Input for programs.")
    artifacts: list[str] = Field(description="Ids of artifacts that it needs.")
    budget: list[FundRow] = Field(
        description="Budget of the task itself; empty without one, and after the end of the task."
    )
    hint: str = Field(description="Why the assignee cannot begin it now; empty: no known reason.")
    criteria: TaskCriteria | None = Field(description="What its result must meet; null: nothing.")
    delivered: ResultRow | None = Field(description="Result that waits for a verdict.")
    judgements: list[JudgementRow] = Field(description="Verdicts on its results, the oldest first.")
    undecided: bool = Field(
        description="Whether its result waits for the assigner, because no judge decides on it."
    )
    history: list[TaskEventRow] = Field(description="Events of the task, the oldest first.")


class ListTasksParams(Paged):
    agent: Agent | None = Field(
        None,
        description="Tasks of this agent and its descendants; default: the tasks that the caller"
        " and its descendants have or assigned.",
    )
    only: bool = Field(
        default=False,
        description="Only tasks of the agent itself, without those of its descendants.",
    )
    state: Literal[
        "queued", "waiting", "pending_delegation", "in_progress", "awaiting_plan_approval",
        "awaiting_more_information", "awaiting_judgement", "stopping", "done", "cancelled",
    ] | None = Field(None, description="Only tasks in this state.")  # fmt: skip
    open: bool = Field(default=False, description="Only tasks that have not ended.")


class TaskRows(Page):
    tasks: list[TaskRow] = Field(description="The tasks, the newest first.")


class CancelTaskParams(Mutation):
    task: TaskId = Field(description="Id of the task.")
    reason: str = Field("", max_length=1000, description="Reason shown to the assignee.")


class CancelledTask(Result):
    task: str = Field(description="Id of the task.")
    agent: str = Field(description="Name of its assignee.")
    state: str = Field(description="cancelled, or stopping while its work is being ended.")


class Cancelled(Result):
    task: str = Field(description="Id of the task.")
    state: str = Field(description="cancelled, or stopping while its work is being ended.")
    hit: list[CancelledTask] = Field(
        description="Ids of the task and of the sub-tasks that stop with it."
    )
    more: bool = Field(description="Whether more sub-tasks follow after the reply.")


@operation(
    action="assign", allow=ANCESTOR | OPERATOR, target="agent", preposition="to",
    login=LoginRule(confirm=confirmation_of_budget),
)  # fmt: skip
def assign_task(call: Call, params: AssignTaskParams) -> Record[Assigned]:
    """Assign a task to a descendant, which gets it as a message of kind `task`.

    The daemon offers the task to the agent when the agent runs and has room for it (`parallel`) and
    the task does not wait for other tasks. Tasks that wait for this are offered in the order of
    priority and age. The task is `queued`, and its clock stands, until the agent begins it. A task
    ends exactly once, also when the agent crashes or is destroyed.
    """
    call.hive.spec(params.agent)
    request = task_request(call, params, params.description)
    task = create_task(call, call.uuid, params.agent, request, params.caps)
    result = Assigned(
        task=task.id,
        agent=params.agent,
        state=task.state.value,
        hint=start_hint(call, task),
        traceparent=task_traceparent(call, task),
    )
    return Record(result, fields={"task": task.id})


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, whose=TASK)
def get_task(call: Call, params: GetTaskParams) -> WholeTask:
    """Show one task with its text, its state, its result and its history."""
    task = call.ledger.tasks.require(params.task)
    request = task.request
    return WholeTask(
        task=task_row(call, task), description=request.description,
        data=None if request.data is None else dict(request.data),
        artifacts=list(request.artifacts), budget=fund_rows(call, task.id),
        hint=start_hint(call, task),
        criteria=TaskCriteria.model_validate(request.criteria) if request.criteria else None,
        delivered=delivered_row(call, task), judgements=judgement_rows(call, task),
        undecided=is_left_to_assigner(call, task), history=_history(call, task),
    )  # fmt: skip


def _history(call: Call, task: Task) -> list[TaskEventRow]:
    """The last events of the task that the log still has."""
    numbers = call.ledger.tasks.last_events(task.id, _HISTORY)
    return [
        TaskEventRow(
            seq=event.seq, time=event.time, event=event.operation,
            state=str(event.fields.get("state", "")), why=event.reason,
            by=str(event.fields.get("caller_name", "")),
        )
        for event in call.ledger.events.some(numbers)
    ]  # fmt: skip


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_tasks(call: Call, params: ListTasksParams) -> TaskRows:
    """List the tasks of an agent and its descendants, the newest first.

    The list includes tasks that these agents assigned to agents that were destroyed since. Without
    `agent` it is the list of the caller; for the operator it has all tasks.
    """
    after = None
    if params.after is not None:
        before = call.ledger.tasks.get(params.after)
        if before is None or not _is_listed(call, before):
            raise InvalidArgument(f"no task {params.after[:64]}", field="after")
        after = before.number
    tasks = call.ledger.tasks.page(
        _assignees(call, params), after, params.most + 1,
        state=params.state, open_=params.open, assigned_too=not params.only,
    )  # fmt: skip
    rows = list(take_fitting((task_row(call, task) for task in tasks[: params.most]), row_size))
    return TaskRows(tasks=rows, next=rows[-1].id if len(rows) < len(tasks) else None)


def _is_listed(call: Call, task: Task) -> bool:
    """Whether the caller may list the task, also when its agent was destroyed since."""
    near = {standing_in(call, party) for party in (task.assignee, task.assigner)}
    return call.by_operator or not near.isdisjoint(call.hive.topology.subtree(call.caller))


def _assignees(call: Call, params: ListTasksParams) -> list[str] | None:
    """UUIDs of the assignees; None: all, including destroyed ones."""
    name = params.agent or call.caller
    if name == THE_OPERATOR:
        return None
    call.hive.spec(name)
    names = (name,) if params.only else call.hive.topology.subtree(name)
    return [call.hive.spec(below).id for below in names]


@operation(
    action="assign",
    allow=ANCESTOR | ASSIGNER | OPERATOR,
    whose=TASK,
    facts=assigner_facts,
    urgent=True,
    destructive=True,
    idempotent=True,
)
def cancel_task(call: Call, params: CancelTaskParams) -> Record[Cancelled]:
    """Cancel a task with all its sub-tasks, and end their work.

    A task that is not begun is cancelled at once. Otherwise the daemon tells the agent, which has
    some seconds to end its work; when the agent does not confirm, the daemon restarts its
    container. The reply names the first 32 tasks; the others follow within moments.
    """
    task = call.ledger.tasks.require(params.task)
    if not task.open:
        status = task.result.status.value if task.result else task.state.value
        raise Conflict(
            f"cannot cancel task {task.id} of {party_name(call, task.assignee)}: it has ended as"
            f" {status}"
        )
    tasks, unfinished = _tasks_to_cancel(call, task)
    why = params.reason or f"cancelled by {call.caller}"
    stop_tasks(call, {hit.id: why for hit in tasks}, ResultStatus.STOPPED)
    for whole in unfinished:
        revisit(call, whole)
    rows = [_cancelled_row(call, call.ledger.tasks.require(hit.id)) for hit in tasks]
    return Record(
        Cancelled(task=task.id, state=rows[0].state, hit=rows, more=bool(unfinished)),
        fields={"task": task.id, "reason": why, "hit": [row.task for row in rows]},
    )


def _tasks_to_cancel(call: Call, task: Task) -> tuple[list[Task], list[Task]]:
    """The task and its open sub-tasks, each before its parts, and the tasks with further parts."""
    tasks, unfinished = [task], list[Task]()
    for whole in tasks:
        room = AT_ONCE + 1 - len(tasks)
        parts = call.ledger.tasks.open_parts(whole.id, room + 1)
        tasks.extend(parts[:room])
        if len(parts) > room:
            unfinished.append(whole)
    return tasks, unfinished


def _cancelled_row(call: Call, task: Task) -> CancelledTask:
    return CancelledTask(
        task=task.id, agent=party_name(call, task.assignee), state=task.state.value
    )
