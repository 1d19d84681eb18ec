"""The clock of a task: it runs from when its agent begins, and stands while that waits for others.

Others are who has to answer, who has to decide on a plan, and other agents that do parts of it:
each part has a clock of its own.
"""

from __future__ import annotations

from hive_core.broker.call import Call
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.model.work.task import AWAITING, Task, TaskState


def clock_from_now(call: Call, task: Task) -> TaskChanges:
    """Its agent begins: from now on it has as long as was asked for."""
    wish = task.request
    ends = call.now + wish.deadline if wish.deadline else None
    asks = call.now + wish.soft if wish.soft else None
    return TaskChanges(
        started=task.started or call.now, left=None, hard_at=ends,
        soft_at=asks if ends is None else _soft(task, ends),
    )  # fmt: skip


def clock_after_step(call: Call, task: Task, state: TaskState) -> TaskChanges:
    """Its clock as it is when the task has come to this state."""
    if state in (TaskState.QUEUED, TaskState.STOPPING):
        return TaskChanges(left=None, hard_at=None, soft_at=None)
    if state in AWAITING:
        return _paused(call, task)
    if state is TaskState.IN_PROGRESS:
        return clock_beside_parts(call, task)
    return TaskChanges()


def clock_beside_parts(call: Call, task: Task) -> TaskChanges:
    """It stands as long as another agent has an open part of it, and goes on afterwards."""
    waits = call.ledger.tasks.has_parts_of_others(task.id, task.assignee)
    return _paused(call, task) if waits else _resumed(call, task)


def _paused(call: Call, task: Task) -> TaskChanges:
    if task.hard_at is None:  # it stands already, or has no end
        return TaskChanges()
    return TaskChanges(left=max(0.0, task.hard_at - call.now), hard_at=None, soft_at=None)


def _resumed(call: Call, task: Task) -> TaskChanges:
    if task.left is None:
        return TaskChanges()
    ends = call.now + task.left
    asks = _soft(task, ends)
    later = asks if asks is not None and asks > call.now else None
    return TaskChanges(left=None, hard_at=ends, soft_at=later)


def _soft(task: Task, ends: float) -> float | None:
    """When the agent is asked for a report, of a task whose time ends then."""
    wish = task.request
    if not wish.soft or not wish.deadline:
        return None
    return ends - max(0.0, wish.deadline - wish.soft)
