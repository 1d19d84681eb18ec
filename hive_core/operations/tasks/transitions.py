"""The one way a task changes, with all that follows: who is next, who waited for it, whose part.

What follows is a list that is worked off, however long a chain of tasks is: so much of it at once.
When more hangs on a task, it is looked at again, in a turn of its own, until nothing is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Unpack

from hive_core.broker.call import Call
from hive_core.broker.hooks import TaskEnded, happened
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.model.work.task import WELL, ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.tasks.begin import waits_for_parts
from hive_core.operations.tasks.notices import daemon_mail
from hive_core.operations.tasks.offers import start_next
from hive_core.operations.tasks.steps import step, topic

STOP: Final = "task_stop"
# Tasks that are taken along at once: with one step, or with several that `stop_all` takes together.
# Tasks that end together in another way take a step each, in one transaction.
AT_ONCE: Final = 32

__all__ = ["AT_ONCE", "STOP", "again", "end", "move", "passed_on", "stop", "stop_all", "topic"]


def move(
    call: Call, task: Task, event: str, **kept: Unpack[TaskChanges]
) -> tuple[Task, frozenset[str]]:
    """Take a task a step further; the task as it is now, and the topics to touch.

    `why` and whatever else the step leaves behind stand in `kept`.
    """
    found, topics = step(call, task, event, **kept)
    return _now(call, found, topics)


def end(call: Call, task: Task, event: str, result: TaskResult) -> tuple[Task, frozenset[str]]:
    """Its one end, with its one result."""
    return move(call, task, event, why=result.error or result.summary, result=result)


def stop(
    call: Call, task: Task, status: ResultStatus, why: str, grace: float | None = None
) -> tuple[Task, frozenset[str]]:
    """End the work on a task: at once where nothing of it runs, else its agent is told.

    Who does not confirm within `grace` seconds (the settings' when absent) has its container
    ended. `status` is what the result says: stopped (cancelled) or timeout.
    """
    found, topics = _stopped(call, task, status, why, grace)
    return _now(call, found, topics)


def stop_all(
    call: Call, whys: Mapping[str, str], status: ResultStatus, grace: float | None = None
) -> frozenset[str]:
    """The same for several, by id, each with its reason; no more follows than from one."""
    work = Work(deque())
    for id_, why in whys.items():
        task = call.ledger.tasks.require(id_)
        if task.open:
            found, topics = _stopped(call, task, status, why, grace)
            work.tasks.append(found)
            work.topics |= topics
    return _worked_off(call, work)


def _now(call: Call, task: Task, topics: frozenset[str]) -> tuple[Task, frozenset[str]]:
    """With all that follows; an end is the last that there is to know of a task."""
    topics |= _followed(call, task)
    return call.ledger.tasks.require(task.id) if task.open else task, topics


def _stopped(
    call: Call, task: Task, status: ResultStatus, why: str, grace: float | None
) -> tuple[Task, frozenset[str]]:
    if task.state is TaskState.STOPPING:
        return task, frozenset()
    name = call.hive.name(task.assignee)
    if name is None or not task.begun:
        result = TaskResult(status, error=why)
        event = "drop" if status is ResultStatus.STOPPED else "fail"
        found, topics = step(call, task, event, why=why, result=result)
        return found, topics | (_taken_back(call, task, name, status, why) if name else frozenset())
    seconds = call.settings.tasks.grace if grace is None else grace
    found, topics = step(
        call, task, "stop", why=why, stop=status.value, stop_at=call.now + seconds
    )  # fmt: skip
    body = f"task: {task.id}\nstatus: {status.value}\ngrace: {seconds:g} s\n\n{why}"
    return found, topics | daemon_mail(call, name, STOP, body, priority=0)[1]


def _taken_back(
    call: Call, task: Task, name: str, status: ResultStatus, why: str
) -> frozenset[str]:
    """An agent that has read of a task and not begun it is told that it is not to."""
    if not task.message or call.ledger.messages.untaken(task.assignee, task.message):
        return frozenset()
    body = f"task: {task.id}\nstatus: {status.value}\ngrace: 0 s\n\n{why}"
    return daemon_mail(call, name, STOP, body, priority=0)[1]


@dataclass(slots=True)
class Work:
    """Tasks that took a step, whose consequences are to come; so many more may follow now."""

    tasks: deque[Task]
    room: int = AT_ONCE
    topics: set[str] = field(default_factory=set)

    def add(self, found: tuple[Task, frozenset[str]]) -> None:
        self.tasks.append(found[0])
        self.topics |= found[1]
        self.room -= 1


def again(call: Call, task: Task) -> frozenset[str]:
    """Look at it once more, at once but in another turn: more hangs on it."""
    call.ledger.tasks.update(task.id, soft_at=call.now)
    return frozenset({topic(task.id)})


def passed_on(call: Call, task: Task) -> frozenset[str]:
    """More of what hangs on one that has ended, or is being stopped, follows it."""
    found = call.ledger.tasks.update(task.id, soft_at=None)
    work = Work(deque())
    _pass_on(call, found, work)
    return _worked_off(call, work)


def _followed(call: Call, first: Task) -> frozenset[str]:
    """All that follows from a step; what ends by it has its own consequences."""
    return _worked_off(call, Work(deque([first])))


def _worked_off(call: Call, work: Work) -> frozenset[str]:
    while work.tasks:
        task = work.tasks.popleft()
        if not task.open:
            work.topics |= _ended(call, task, work)
        elif task.state is TaskState.QUEUED:
            work.topics |= start_next(call, task.assignee)
    return frozenset(work.topics)


def _ended(call: Call, task: Task, work: Work) -> frozenset[str]:
    """What follows from one end; more of them go to the end of `work`."""
    tasks = call.ledger.tasks
    status = task.result.status if task.result else ResultStatus.FAILED
    topics = {*_withdrawn(call, task), *waits_for_parts(call, task.request.part_of)}
    if task.request.after:
        tasks.needs.clear(task.id)
    _pass_on(call, task, work)
    if task.message:  # it was given: there is room again
        topics |= start_next(call, task.assignee)
    return frozenset(topics) | happened(
        call, TaskEnded(task.id, task.assignee, task.assigner, status.value)
    )


def _pass_on(call: Call, task: Task, work: Work) -> None:
    """To those that waited for it, and to its parts, as far as there is room for them now."""
    status = task.result.status if task.result else ResultStatus.FAILED
    left = work.room
    if task.open:
        left -= _stop_parts(call, task, "is stopped", work)
    elif status in WELL:
        left -= _unblock(call, task, work)
    else:
        left -= _fail(call, task, status, work)
        left -= _stop_parts(call, task, f"came out as {status.value}", work)
    if left <= 0 and _hanging(call, task, status):
        work.topics |= again(call, task)


def _hanging(call: Call, task: Task, status: ResultStatus) -> bool:
    """Whether there is more to take along."""
    waiting = not task.open and bool(call.ledger.tasks.dependents(task.id, 1))
    ends = task.open or status not in WELL
    return waiting or (ends and bool(_to_stop(call, task, 1)))


def _to_stop(call: Call, whole: Task, most: int) -> list[Task]:
    """Open parts of it whose work is not being ended yet."""
    return call.ledger.tasks.open_parts(whole.id, most, TaskState.STOPPING)


def _unblock(call: Call, task: Task, work: Work) -> int:
    """Whoever waited for it and for nothing else is begun."""
    found = call.ledger.tasks.dependents(task.id, work.room)
    for each in found:
        if call.ledger.tasks.needs.remove(each.id, task.id):
            work.add(step(call, each, "unblock"))
    return len(found)


def _fail(call: Call, task: Task, status: ResultStatus, work: Work) -> int:
    """Whoever waited for it cannot be done."""
    why = f"task {task.id}, which it waited for, came out as {status.value}"
    found = call.ledger.tasks.dependents(task.id, work.room)
    for each in found:
        result = TaskResult(ResultStatus.FAILED, error=why)
        work.add(step(call, each, "fail", why=why, result=result))
    return len(found)


def _stop_parts(call: Call, task: Task, what: str, work: Work) -> int:
    """Its open parts are for nothing; with one that is called off go the parts of its parts."""
    found = _to_stop(call, task, work.room)
    why = f"task {task.id}, of which it is a part, {what}"
    for each in found:
        part, topics = _stopped(call, each, ResultStatus.STOPPED, why, None)
        work.add((part, topics))
        if task.open and part.open and _to_stop(call, part, 1):
            work.topics |= again(call, part)
    return len(found)


def _withdrawn(call: Call, task: Task) -> frozenset[str]:
    """What stands in a letter that was not taken is not to be done any more."""
    if task.message and call.ledger.messages.ack(task.assignee, [task.message]):
        return frozenset({f"inbox:{task.assignee}"})
    return frozenset()
