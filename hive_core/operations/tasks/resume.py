"""Work that was ended goes on, with a word on how (row Q23): by the same agent, in its own files.

A task has one end, so this is another task. It has the text of the first one, what there was of a
result, and the guidance.
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
from hive_core.operations.tasks.assign import NOTHING, assign
from hive_core.operations.tasks.operations import ASSIGNER, TASK, given_by_caller
from hive_core.operations.tasks.params import TaskId
from hive_core.policy.rules import ANCESTOR, OPERATOR

_TEXT: Final = 8 * 1024
_STUCK: Final = frozenset({State.FAILED, State.PARKED})


class ResumeTaskParams(Mutation):
    task: TaskId = Field(description="The task that has ended, and not as a success.")
    guidance: Annotated[str, bounded_text(_TEXT)] = Field(
        min_length=1, description="What is to be done otherwise."
    )
    deadline: float | None = Field(
        None, ge=0, description="Seconds of work; as it was when absent; 0: without an end."
    )


class TaskResumed(Result):
    task: str = Field(description="The new task.")
    agent: str = Field(description="Whose it is, as before.")
    state: str = Field(description="How far it is.")
    resumes: str = Field(description="The task that it goes on with.")


@operation(action="assign", allow=ANCESTOR | OPERATOR | ASSIGNER, whose=TASK, facts=given_by_caller)
def resume_task(call: Call, params: ResumeTaskParams) -> Record[TaskResumed]:
    """Have the same agent go on with a task that was stopped, timed out or failed.

    Its machine is started, or woken, when it is down; its files are as it left them. It gets the
    text, what there was of a result, and the guidance as a new task.
    """
    task = call.ledger.tasks.require(params.task)
    if task.open or task.result is None:
        raise Conflict(f"cannot resume task {task.id}: it has not ended")
    if task.result.status is ResultStatus.SUCCESS:
        raise Conflict(f"cannot resume task {task.id}: it ended as success")
    name = call.hive.name(task.assignee)
    if name is None:
        raise Conflict(f"cannot resume task {task.id}: {display_name(call, task.assignee)} is gone")
    topics = _up(call, name, task.assignee)
    made, more = assign(call, call.uuid, name, _wish(call, task, params))
    found = TaskResumed(task=made.id, agent=name, state=made.state.value, resumes=task.id)
    return Record(found, topics | more, {"task": made.id, "resumes": task.id, "agent_name": name})


def _wish(call: Call, task: Task, params: ResumeTaskParams) -> TaskRequest:
    before = task.result
    said = "" if before is None else (before.summary or before.error)[:_TEXT]
    ended = "" if before is None else before.status.value
    text = (
        f"Go on with task {task.id}, which ended as {ended}.\n\nGuidance: {params.guidance}\n\n"
        f"What there was of it: {said or 'nothing'}\n\nThe task was:\n{task.request.description}"
    )
    deadline = task.request.deadline if params.deadline is None else params.deadline
    whole = call.ledger.tasks.get(task.request.part_of) if task.request.part_of else None
    mine = whole is not None and whole.held and whole.assignee == call.uuid
    return replace(
        task.request, description=text, deadline=deadline, after=(), batch="",
        soft=None if deadline != task.request.deadline else task.request.soft,
        part_of=task.request.part_of if mine else NOTHING, budget={},
        context="keep" if task.request.context else "",  # it goes on with what it remembers
        artifacts=() if before is None else before.artifacts,
    )  # fmt: skip


def _up(call: Call, name: str, uuid: str) -> frozenset[str]:
    """It has to run for this: started by who asks, or woken."""
    run = call.ledger.runs.get(uuid)
    if run is not None and run.wanted is DesiredState.SLEEPING:
        wake_sleeper(call, uuid, "its work goes on")
        return frozenset()
    up = run is not None and run.wanted is DesiredState.RUNNING
    if up and call.states.state(uuid) not in _STUCK:
        return frozenset()
    started = call_as(call, call.uuid, "start", {"agent": name})
    return started.wakes if isinstance(started, Record) else frozenset()
