"""An agent begins a task that it was offered: it says so, or does something that only that allows.

Until then the task is `queued`, its clock has not started, and nothing is lost with it.
"""

from __future__ import annotations

from hive_core.broker.call import Call
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.operations.tasks.clock import clock_beside_parts, clock_from_now
from hive_core.operations.tasks.steps import log, step, topic


def begin(call: Call, task: Task, why: str = "") -> tuple[Task, frozenset[str]]:
    """Record that the agent works on it; one that it has begun, or was not offered, stays as it is.

    A new manager goes on as `pending_delegation`: that ends with its first sub-task or report.
    """
    if not task.offered:
        return task, frozenset()
    clock: TaskChanges = {**clock_from_now(call, task), "why": why}
    if task.state is not TaskState.PENDING_DELEGATION:
        return step(call, task, "begin", **clock)
    found = call.ledger.tasks.update(task.id, **clock)
    log(call, found, "begin", why)
    return found, frozenset({topic(task.id), "events"}) | update_activity(call, task.assignee)


def delegated(call: Call, whole: Task, why: str) -> tuple[Task, frozenset[str]]:
    """A new manager gave its first sub-task, or reported: it is past delegating."""
    task, topics = begin(call, whole, why)
    if task.state is not TaskState.PENDING_DELEGATION:
        return task, topics
    task, more = step(call, task, "begin", why=why)
    return task, topics | more


def waits_for_parts(call: Call, part_of: str) -> frozenset[str]:
    """A part was given or has ended: the clock of the whole stands, or goes on."""
    whole = call.ledger.tasks.get(part_of) if part_of else None
    if whole is None or whole.state is not TaskState.IN_PROGRESS:
        return frozenset()
    clock = clock_beside_parts(call, whole)
    if not clock:
        return frozenset()
    call.ledger.tasks.update(whole.id, **clock)
    return frozenset({topic(whole.id)})


def at_hand(ledger: Ledger, agent: str) -> list[Task]:
    """What it has begun; where that is nothing, what it was offered."""
    held = ledger.tasks.offered_tasks(agent)
    return [task for task in held if task.begun] or held


def lock_of(ledger: Ledger, agent: str) -> str:
    """Why the agent may not execute anything; empty when it may.

    Of what it was only offered it may execute nothing either; that counts as long as it has begun
    nothing else that it could be at.
    """
    return next((why for task in at_hand(ledger, agent) if (why := task.locked)), "")
