"""Time runs out: a report is asked for, work is stopped, what does not stop is ended (row Q23)."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.work.task import ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.tasks.lifecycle_hooks import confirmed
from hive_core.operations.tasks.notices import daemon_mail
from hive_core.operations.tasks.offers import start_next
from hive_core.operations.tasks.steps import log, topic
from hive_core.operations.tasks.transitions import passed_on, stop_all

REPORT: Final = "task_report"
_AT_ONCE: Final = 20
_FORCED: Final = "forced"
_AGAIN: Final = 30.0  # seconds until an end that did not come is asked for once more; then longer
_AGAIN_MOST: Final = 3600.0
_DOWN: Final = frozenset({State.STOPPED, State.SLEEPING, State.FAILED, State.PARKED, State.ABSENT})


class Looked(Result):
    """Of how many tasks the time had come."""

    tasks: int


@due(at=lambda ledger: ledger.tasks.next_due(), topics=frozenset({"task"}))
def task_deadlines(call: Call) -> Record[Looked]:
    """Some of the tasks whose time has come."""
    found = call.ledger.tasks.overdue(call.now, _AT_ONCE)
    topics, late = frozenset[str](), dict[str, str]()
    for each in found:
        task = call.ledger.tasks.require(each.id)
        if _late(call, task):
            late[task.id] = f"its time is over: {task.request.deadline:g} s"
            continue
        topics |= _come(call, task)
        if _passes_on(task):  # that was a turn's work
            break
    topics |= stop_all(call, late, ResultStatus.TIMEOUT)
    return Record(Looked(tasks=len(found)), topics, audited=True)


def _late(call: Call, task: Task) -> bool:
    """Whether its work is to be stopped now."""
    over = _passes_on(task) or _past(call, task.stop_at)
    return not over and _past(call, task.hard_at)


def _come(call: Call, task: Task) -> frozenset[str]:
    """What is due of one task now; another one of the same moment may have ended it."""
    if _past(call, task.stop_at):
        return _forced(call, task)
    if _passes_on(task):
        return passed_on(call, task) if _past(call, task.soft_at) else frozenset()
    return _soft(call, task) if _past(call, task.soft_at) else frozenset()


def _passes_on(task: Task) -> bool:
    """It is over, or soon: what is due is to take along what hangs on it."""
    return not task.open or task.state is TaskState.STOPPING


def _past(call: Call, at: float | None) -> bool:
    return at is not None and at <= call.now


def _soft(call: Call, task: Task) -> frozenset[str]:
    call.ledger.tasks.update(task.id, soft_at=None)
    if task.state is TaskState.QUEUED:  # there was no room in the inbox
        return start_next(call, task.assignee)
    return _asked(call, task)


def _asked(call: Call, task: Task) -> frozenset[str]:
    """The agent is told to come to an end by itself."""
    name = call.hive.name(task.assignee)
    if name is None:
        return frozenset()
    left = "" if task.hard_at is None else f"; {task.hard_at - call.now:g} s are left"
    log(call, task, "soft_deadline")
    body = f"task: {task.id}\n\nReport now what there is, with finish_task{left}."
    return daemon_mail(call, name, REPORT, body)[1] | {topic(task.id), "events"}


def _forced(call: Call, task: Task) -> frozenset[str]:
    """Nobody said that the work is over: its container is ended, and started afresh.

    What else the agent had begun is lost with it, as by any other end of its machine.
    """
    uuid = task.assignee
    run = call.ledger.runs.get(uuid)
    down = run is None or run.wanted is not DesiredState.RUNNING
    if call.hive.name(uuid) is None or (down and call.states.state(uuid) in _DOWN):
        return confirmed(call, task, TaskResult(ResultStatus.STOPPED))[1]
    asked = _asked_before(call, task)
    pause = _AGAIN if asked is None else min(max(call.now - asked, _AGAIN), _AGAIN_MOST)
    call.ledger.tasks.update(task.id, stop_at=call.now + pause)
    if down:  # it is on its way down already
        return frozenset({topic(task.id)})
    reason = f"task {task.id} did not stop"
    call.ledger.runs.want(
        uuid, DesiredState.RUNNING, call.now, grace=0.0, reason=reason, fresh=True
    )
    if asked is None:
        log(call, task, _FORCED, reason)
    return frozenset({topic(task.id), f"run:{uuid}", "events"})


def _asked_before(call: Call, task: Task) -> float | None:
    """When its end was asked for first, if nothing has happened to it since."""
    for seq in call.ledger.tasks.last_events(task.id, 1):
        event = call.ledger.events.get(seq)
        if event is not None and event.operation == _FORCED:
            return event.time
    return None
