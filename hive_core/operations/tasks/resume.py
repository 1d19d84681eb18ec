"""Continuing work that has ended, with guidance (row Q23), by the same agent in its own files.

A task has one end, so the work continues as another task. The new task has the text of the first
one, its partial result, and the guidance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.delegation import call_as
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import Conflict
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.work.task import ResultStatus, Task, TaskRequest
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import bounded_text
from hive_core.operations.lifecycle.sleep import wake_sleeper
from hive_core.operations.tasks.assign import NOTHING, create_task
from hive_core.operations.tasks.params import TaskId
from hive_core.operations.tasks.rules import ASSIGNER, TASK, assigner_facts
from hive_core.policy.rules import ANCESTOR, OPERATOR

_TEXT: Final = 8 * 1024
_STUCK: Final = frozenset({State.FAILED, State.PARKED})


class ResumeTaskParams(Mutation):
    task: TaskId = Field(description="Task that has ended without success.")
    guidance: Annotated[str, bounded_text(_TEXT)] = Field(
        min_length=1, description="Guidance: what the agent should do differently."
    )
    deadline: float | None = Field(
        None, ge=0, description="Seconds of work; default: as before; 0: no deadline."
    )


class TaskResumed(Result):
    task: str = Field(description="Id of the new task.")
    agent: str = Field(description="Name of the assignee, as before.")
    state: str = Field(description="State of the new task.")
    resumes: str = Field(description="Id of the task that it continues.")


@operation(action="assign", allow=ANCESTOR | OPERATOR | ASSIGNER, whose=TASK, facts=assigner_facts)
def resume_task(call: Call, params: ResumeTaskParams) -> Record[TaskResumed]:
    """Let the same agent continue a task that was stopped, timed out or failed.

    The daemon starts or wakes the agent when it is down; its files are unchanged. The agent gets a
    new task with the old text, the partial result, and the guidance.
    """
    task = call.ledger.tasks.require(params.task)
    if task.open or task.result is None:
        raise Conflict(f"cannot resume task {task.id}: it has not ended")
    if task.result.status is ResultStatus.SUCCESS:
        raise Conflict(f"cannot resume task {task.id}: it ended as success")
    name = call.hive.name(task.assignee)
    if name is None:
        raise Conflict(
            f"cannot resume task {task.id}: {display_name(call, task.assignee)} is destroyed"
        )
    _ensure_running(call, name, task.assignee)
    new = create_task(call, call.uuid, name, _continued_request(call, task, params))
    result = TaskResumed(task=new.id, agent=name, state=new.state.value, resumes=task.id)
    return Record(result, fields={"task": new.id, "resumes": task.id, "agent_name": name})


def _continued_request(call: Call, task: Task, params: ResumeTaskParams) -> TaskRequest:
    request, before = task.request, task.result
    summary = "" if before is None else (before.summary or before.error)[:_TEXT]
    status = "" if before is None else before.status.value
    text = (
        f"Go on with task {task.id}, which ended as {status}.\n\nGuidance: {params.guidance}\n\n"
        f"What there was of it: {summary or 'nothing'}\n\nThe task was:\n{request.description}"
    )
    deadline = request.deadline if params.deadline is None else params.deadline
    whole = call.ledger.tasks.get(request.part_of) if request.part_of else None
    is_own_part = whole is not None and whole.held and whole.assignee == call.uuid
    return replace(
        request, description=text, deadline=deadline, after=(), batch="",
        soft=None if deadline != request.deadline else request.soft,
        part_of=request.part_of if is_own_part else NOTHING, budget={},
        context="keep" if request.context else "",  # the agent keeps its memory
        artifacts=() if before is None else before.artifacts,
    )  # fmt: skip


def _ensure_running(call: Call, name: str, uuid: str) -> None:
    """Start the agent on behalf of the caller, or wake it."""
    run = call.ledger.runs.get(uuid)
    if run is not None and run.wanted is DesiredState.SLEEPING:
        wake_sleeper(call, uuid, "its work continues")
        return
    up = run is not None and run.wanted is DesiredState.RUNNING
    if up and call.states.state(uuid) not in _STUCK:
        return
    call_as(call, call.uuid, "start", {"agent": name})
