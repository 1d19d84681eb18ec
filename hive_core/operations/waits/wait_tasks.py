"""Waiting for tasks with an open call, for scripts: bounded in time, and not stored."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.operations.fields import WAIT_MOST
from hive_core.operations.tasks.rules import visible_task
from hive_core.operations.tasks.steps import task_topic
from hive_core.policy.rules import SELF

MOST: Final = 64
Id = Annotated[str, Field(max_length=64)]


class WaitTasksParams(Params):
    tasks: list[Id] = Field(min_length=1, max_length=MOST, description="Ids of the tasks.")
    until: Literal["any", "all"] = Field("all", description="Wait for one of them, or for all.")
    wait: float = Field(
        WAIT_MOST, ge=0, le=WAIT_MOST, description="Maximum time to wait, in seconds."
    )


class TaskEnd(Result):
    task: str = Field(description="Id of the task.")
    state: str = Field(description="State of the task.")
    status: str = Field(description="Status of its result; empty until it has ended.")
    summary: str = Field(description="Summary of its result; empty until it has ended.")


class TaskEnds(Result):
    tasks: list[TaskEnd] = Field(description="The tasks, in the order of the call.")
    done: bool = Field(description="Whether the condition is met; false: `wait` has passed.")


@operation(action="work", allow=SELF)
def wait_tasks(call: Call, params: WaitTasksParams) -> TaskEnds | Wait[TaskEnds]:
    """Wait until tasks have ended, or until `wait` has passed. For scripts; agents use `wait_for`.

    Each task belongs to the caller or a descendant, or the caller assigned it to an agent that it
    sees.
    """
    ends = [task_end(call, id_) for id_ in params.tasks]
    ended = [bool(end.status) for end in ends]
    done = any(ended) if params.until == "any" else all(ended)
    result = TaskEnds(tasks=ends, done=done)
    if done or params.wait <= 0:
        return result
    topics = frozenset(task_topic(id_) for id_ in params.tasks)
    return Wait(topics, call.now + params.wait, result)


def task_end(call: Call, id_: str) -> TaskEnd:
    """The state of a task that the caller may see."""
    task = visible_task(call, id_)
    result = task.result
    if task.open or result is None:
        return TaskEnd(task=id_, state=task.state, status="", summary="")
    return TaskEnd(task=id_, state=task.state, status=result.status, summary=result.summary)
