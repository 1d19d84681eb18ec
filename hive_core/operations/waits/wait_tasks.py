"""Waiting for tasks with a call that is held open, for scripts: bounded, and nothing is kept."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import NotFound
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.task import Task
from hive_core.operations.fields import WAIT_MOST
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.tasks.steps import topic
from hive_core.policy.relationship import ABOVE, ITSELF, is_visible, relationship
from hive_core.policy.rules import SELF

MOST: Final = 64
Id = Annotated[str, Field(max_length=64)]


class WaitTasksParams(Params):
    tasks: list[Id] = Field(min_length=1, max_length=MOST, description="The tasks.")
    until: Literal["any", "all"] = Field("all", description="One of them, or each of them.")
    wait: float = Field(WAIT_MOST, ge=0, le=WAIT_MOST, description="Seconds to wait at most.")


class TaskEnd(Result):
    task: str = Field(description="The task.")
    state: str = Field(description="Its state.")
    status: str = Field(description="How it ended; empty while it has not.")
    summary: str = Field(description="What its result says; empty while it has not ended.")


class TaskEnds(Result):
    tasks: list[TaskEnd] = Field(description="In the order in which they were named.")
    done: bool = Field(description="Whether what was waited for is there.")


@operation(action="work", allow=SELF)
def wait_tasks(call: Call, params: WaitTasksParams) -> TaskEnds | Wait[TaskEnds]:
    """Answer when tasks have ended, or when `wait` has passed: for scripts that hold a call open.

    The tasks are the caller's own, of a descendant, or given by it to an agent that it sees.
    """
    ends = [end_of(call, each) for each in params.tasks]
    ended = [bool(each.status) for each in ends]
    done = any(ended) if params.until == "any" else all(ended)
    found = TaskEnds(tasks=ends, done=done)
    if done or params.wait <= 0:
        return found
    return Wait(frozenset(topic(each) for each in params.tasks), call.now + params.wait, found)


def seen_task(call: Call, id_: str) -> Task:
    """A task of the caller's or of a descendant, or given by it to an agent that it sees."""
    task = call.ledger.tasks.get(id_)
    if task is None or not sees_task(call, task):
        raise NotFound(f"no task {id_}")
    return task


def sees_task(call: Call, task: Task) -> bool:
    """As every operation on a task judges it: by its agent, or the nearest above one that is gone.

    Who gave it and was parted from its agent since does not see what became of it.
    """
    if call.by_operator or call.uuid == task.assignee:
        return True
    holder = standing_in(call, task.assignee) or THE_OPERATOR
    if call.uuid == task.assigner:
        return is_visible(call.hive, call.caller, holder)
    return relationship(call.hive, call.caller, holder) in (ITSELF, *ABOVE)


def end_of(call: Call, id_: str) -> TaskEnd:
    task = seen_task(call, id_)
    result = task.result
    if task.open or result is None:
        return TaskEnd(task=id_, state=task.state, status="", summary="")
    return TaskEnd(task=id_, state=task.state, status=result.status, summary=result.summary)
