"""Deadlines of tasks: ask for a report, then stop the work, then end the container (row Q23)."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.work.task import ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.tasks.notices import send_daemon_mail
from hive_core.operations.tasks.offers import look_after_offer, offer_next_tasks
from hive_core.operations.tasks.steps import is_between_machines, log_event, task_topic
from hive_core.operations.tasks.transitions import (
    confirm_stop,
    continue_consequences,
    stop_tasks,
)

REPORT: Final = "task_report"
_AT_ONCE: Final = 20
_FORCED: Final = "forced"
# Seconds until a forced end that did not happen is requested again; longer each time.
_RETRY: Final = 30.0
_RETRY_MOST: Final = 3600.0
_DOWN: Final = frozenset({State.STOPPED, State.SLEEPING, State.FAILED, State.PARKED, State.ABSENT})


class DeadlinesApplied(Result):
    """Number of tasks that were due."""

    tasks: int


@due(at=lambda ledger: ledger.tasks.next_due(), topics=frozenset({"task"}))
def task_deadlines(call: Call) -> Record[DeadlinesApplied]:
    """Apply the due steps of some of the tasks whose time has come."""
    rows = call.ledger.tasks.overdue(call.now, _AT_ONCE)
    late = dict[str, str]()
    for row in rows:
        task = call.ledger.tasks.require(row.id)  # an earlier task may have changed it
        if _is_late(call, task):
            late[task.id] = f"its time is over: {task.request.deadline:g} s"
            continue
        _apply_due(call, task)
        if _is_ending(task):  # one task with its consequences is enough for one turn
            break
    stop_tasks(call, late, ResultStatus.TIMEOUT)
    return Record(DeadlinesApplied(tasks=len(rows)), audited=True)


def _is_late(call: Call, task: Task) -> bool:
    """Whether the deadline of the task has passed, so that its work has to be stopped."""
    over = _is_ending(task) or _has_come(call, task.stop_at)
    return not over and _has_come(call, task.hard_at)


def _apply_due(call: Call, task: Task) -> None:
    if _has_come(call, task.stop_at):
        _force_stop(call, task)
    elif not _has_come(call, task.soft_at):
        return
    elif _is_ending(task):
        continue_consequences(call, task)
    else:
        call.ledger.tasks.update(task.id, soft_at=None)
        if task.offered:
            look_after_offer(call, task)
        elif task.state is TaskState.QUEUED:  # the inbox of its agent was full
            offer_next_tasks(call, task.assignee)
        else:
            _request_report(call, task)


def _is_ending(task: Task) -> bool:
    """Whether the task has ended or is stopping, so that only its consequences are due."""
    return not task.open or task.state is TaskState.STOPPING


def _has_come(call: Call, at: float | None) -> bool:
    return at is not None and at <= call.now


def _request_report(call: Call, task: Task) -> None:
    """Ask the agent to end the task with a report."""
    name = call.hive.name(task.assignee)
    if name is None:
        return
    left = "" if task.hard_at is None else f"; {task.hard_at - call.now:g} s are left"
    log_event(call, task, "soft_deadline")
    body = f"task: {task.id}\n\nReport now what you have so far, with finish_task{left}."
    send_daemon_mail(call, name, REPORT, body)
    call.notify(task_topic(task.id), "events")


def _force_stop(call: Call, task: Task) -> None:
    """Restart the container of an agent that did not confirm the stop of a task.

    The other tasks that the agent had begun are lost with it, as at any other end of its machine.
    """
    uuid = task.assignee
    run = call.ledger.runs.get(uuid)
    down = run is None or run.wanted is not DesiredState.RUNNING
    if (down and call.states.state(uuid) in _DOWN) or is_between_machines(call, uuid):
        confirm_stop(call, task, TaskResult(ResultStatus.STOPPED))
        return
    asked_at = _first_forced_at(call, task)
    pause = _RETRY if asked_at is None else min(max(call.now - asked_at, _RETRY), _RETRY_MOST)
    call.ledger.tasks.update(task.id, stop_at=call.now + pause)
    call.notify(task_topic(task.id))
    if down:  # the machine is stopping already
        return
    reason = f"task {task.id} did not stop"
    call.ledger.runs.want(
        uuid, DesiredState.RUNNING, call.now, grace=0.0, reason=reason, fresh=True
    )
    if asked_at is None:
        log_event(call, task, _FORCED, reason)
    call.notify(f"run:{uuid}", "events")


def _first_forced_at(call: Call, task: Task) -> float | None:
    """When its end was first forced, if its last event is a forced end."""
    for seq in call.ledger.tasks.last_events(task.id, 1):
        event = call.ledger.events.get(seq)
        if event is not None and event.operation == _FORCED:
            return event.time
    return None
