"""Changes of tasks, with all consequences for other tasks. Every change goes through here.

Consequences are processed as a list: the next task of the agent, the tasks that waited for this
one, its parts. One transaction applies up to `AT_ONCE` of them. The rest follows in later turns,
for which the task is due again at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Unpack

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, emit
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.tasks.end_in_batches import Sweep
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.model.work.task import WELL, ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.notices import inbox
from hive_core.operations.tasks.deliveries import early_result
from hive_core.operations.tasks.notices import send_daemon_mail
from hive_core.operations.tasks.offers import offer_next_tasks
from hive_core.operations.tasks.steps import take_step, task_topic

STOP: Final = "task_stop"
# Consequences that one step applies at once, or several steps that `stop_tasks` takes together.
# Tasks that end together in another way take a step each, in one transaction.
AT_ONCE: Final = 32


def move_task(call: Call, task: Task, event: str, **changes: Unpack[TaskChanges]) -> Task:
    """Take one step of a task, with all consequences; return the new task.

    `changes` has `why` and the other fields that the step sets.
    """
    return _apply_consequences(call, take_step(call, task, event, **changes))


def end_task(call: Call, task: Task, event: str, result: TaskResult) -> Task:
    """End a task with its result."""
    return move_task(call, task, event, why=result.error or result.summary, result=result)


def confirm_stop(call: Call, task: Task, partial: TaskResult) -> Task:
    """End a task that was stopping, since the work on it is over. The agent's report is kept."""
    status = ResultStatus(task.stop)
    result = TaskResult(
        status, partial.summary, partial.data, task.why, partial.artifacts, partial.tokens,
        partial.cost,
    )  # fmt: skip
    return end_task(call, task, "stopped" if status is ResultStatus.STOPPED else "expired", result)


def stop_task(
    call: Call, task: Task, status: ResultStatus, why: str, grace: float | None = None
) -> Task:
    """Stop the work on a task: at once when no agent works on it; otherwise tell its agent.

    The daemon restarts the container of an agent that does not confirm within `grace` seconds
    (default: the setting). `status` is that of the result: stopped (cancelled) or timeout.
    """
    return _apply_consequences(call, _begin_stop(call, task, status, why, grace))


def stop_tasks(
    call: Call, reasons: Mapping[str, str], status: ResultStatus, grace: float | None = None
) -> None:
    """Stop several tasks, by id, each with its reason, with `AT_ONCE` consequences in total."""
    pending = PendingSteps(deque())
    for id_, why in reasons.items():
        task = call.ledger.tasks.require(id_)
        if task.open:
            pending.tasks.append(_begin_stop(call, task, status, why, grace))
    _work_off(call, pending)


def end_in_batches(call: Call, sweep: Sweep, tasks: Sequence[str]) -> None:
    """Stop the work on these tasks, by id: the first ones now, the others in later turns.

    Between two turns the daemon serves other calls. The ledger has the rest: no agent can begin
    such a task meanwhile, and a restarted daemon continues with it.
    """
    if later := tasks[AT_ONCE:]:
        call.notify(f"sweep:{call.ledger.plans.sweeps.add(sweep, later)}")
    _stop_batch(call, sweep, tasks[:AT_ONCE])


@due(at=lambda ledger: 0.0 if ledger.plans.sweeps.any else None, topics=frozenset({"sweep"}))
def continue_sweep(call: Call) -> Record[Result]:
    """End the next tasks of a sweep."""
    sweeps = call.ledger.plans.sweeps
    if (first := sweeps.first()) is None:
        return Record(Result(), audited=True)
    id_, sweep = first
    _stop_batch(call, sweep, sweeps.take(id_, AT_ONCE))
    call.notify(f"sweep:{id_}")
    return Record(Result(), audited=True)


def _stop_batch(call: Call, sweep: Sweep, tasks: Sequence[str]) -> None:
    theirs = replace(call, caller=sweep.name, uuid=sweep.party)
    # The row of a task that ended long ago, while no daemon ran, may be deleted.
    reasons = {task.id: sweep.why for task in call.ledger.tasks.get_many(tasks) if task.open}
    stop_tasks(theirs, reasons, ResultStatus(sweep.status), sweep.grace)


def _begin_stop(
    call: Call, task: Task, status: ResultStatus, why: str, grace: float | None
) -> Task:
    if task.state is TaskState.STOPPING:
        return task
    name = call.hive.name(task.assignee)
    if name is None or not task.begun:
        result = early_result(call, task, status, why)
        event = "drop" if status is ResultStatus.STOPPED else "fail"
        after = take_step(call, task, event, why=why, result=result)
        if name and task.message and not call.ledger.messages.untaken(task.assignee, task.message):
            _send_stop(call, task, name, status, why, 0.0)  # the agent has read the letter
        return after
    seconds = call.settings.tasks.grace if grace is None else grace
    after = take_step(
        call, task, "stop", why=why, stop=status.value, stop_at=call.now + seconds
    )  # fmt: skip
    _send_stop(call, task, name, status, why, seconds)
    return after


def _send_stop(  # noqa: PLR0913, PLR0917 - the lines of one letter
    call: Call, task: Task, name: str, status: ResultStatus, why: str, seconds: float
) -> None:
    body = f"task: {task.id}\nstatus: {status.value}\ngrace: {seconds:g} s\n\n{why}"
    send_daemon_mail(call, name, STOP, body, priority=0)


@dataclass(slots=True)
class PendingSteps:
    """Tasks whose consequences are still to be applied; `room`: how many more may follow now."""

    tasks: deque[Task]
    room: int = AT_ONCE

    def add(self, task: Task) -> None:
        self.tasks.append(task)
        self.room -= 1


def revisit(call: Call, task: Task) -> None:
    """Make the task due again at once, in another turn, since it has more consequences."""
    call.ledger.tasks.update(task.id, soft_at=call.now)
    call.notify(task_topic(task.id))


def continue_consequences(call: Call, task: Task) -> None:
    """Apply more of the consequences of a task that has ended, or is stopping."""
    task = call.ledger.tasks.update(task.id, soft_at=None)
    pending = PendingSteps(deque())
    _propagate(call, task, pending)
    _work_off(call, pending)


def _apply_consequences(call: Call, task: Task) -> Task:
    """Apply all consequences of a step; return the task after them."""
    _work_off(call, PendingSteps(deque([task])))
    return call.ledger.tasks.require(task.id) if task.open else task


def _work_off(call: Call, pending: PendingSteps) -> None:
    while pending.tasks:
        task = pending.tasks.popleft()
        if not task.open:
            _apply_end(call, task, pending)
        elif task.state is TaskState.QUEUED:
            offer_next_tasks(call, task.assignee)


def _apply_end(call: Call, task: Task, pending: PendingSteps) -> None:
    """Apply the consequences of one end; add the tasks that it ends to `pending`."""
    status = task.result.status if task.result else ResultStatus.FAILED
    # The agent must not act on a letter that it has not received yet.
    if task.message and call.ledger.messages.ack(task.assignee, [task.message]):
        call.notify(inbox(task.assignee))
    if task.request.after:
        call.ledger.tasks.needs.clear(task.id)
    _propagate(call, task, pending)
    if task.message:  # it was offered: the agent has room again
        offer_next_tasks(call, task.assignee)
    emit(call, TaskEnded(task.id, task.assignee, task.assigner, status.value))


def _propagate(call: Call, task: Task, pending: PendingSteps) -> None:
    """Process the dependents and the parts of a task, as many as there is room for now."""
    status = task.result.status if task.result else ResultStatus.FAILED
    room = pending.room
    if task.open:
        room -= _stop_parts(call, task, "is stopped", pending)
    elif status in WELL:
        room -= _unblock_dependents(call, task, pending)
    else:
        room -= _fail_dependents(call, task, status, pending)
        room -= _stop_parts(call, task, f"ended as {status.value}", pending)
    if room <= 0 and _has_more(call, task, status):
        revisit(call, task)


def _has_more(call: Call, task: Task, status: ResultStatus) -> bool:
    """Whether a dependent or a part is left to process."""
    if not task.open and call.ledger.tasks.dependents(task.id, 1):
        return True
    ends_parts = task.open or status not in WELL
    return ends_parts and bool(_parts_to_stop(call, task, 1))


def _parts_to_stop(call: Call, whole: Task, most: int) -> list[Task]:
    """Open parts of a task that are not stopping yet."""
    return call.ledger.tasks.open_parts(whole.id, most, TaskState.STOPPING)


def _unblock_dependents(call: Call, task: Task, pending: PendingSteps) -> int:
    """Queue the tasks that waited for this one alone; return how many were examined."""
    dependents = call.ledger.tasks.dependents(task.id, pending.room)
    for dependent in dependents:
        if call.ledger.tasks.needs.remove(dependent.id, task.id):
            pending.add(take_step(call, dependent, "unblock"))
    return len(dependents)


def _fail_dependents(call: Call, task: Task, status: ResultStatus, pending: PendingSteps) -> int:
    """Fail the tasks that waited for this one; return how many."""
    why = f"task {task.id}, which it waited for, ended as {status.value}"
    dependents = call.ledger.tasks.dependents(task.id, pending.room)
    for dependent in dependents:
        result = TaskResult(ResultStatus.FAILED, error=why)
        pending.add(take_step(call, dependent, "fail", why=why, result=result))
    return len(dependents)


def _stop_parts(call: Call, task: Task, what_happened: str, pending: PendingSteps) -> int:
    """Stop the open parts of a task; return how many.

    A part that stops also stops its own parts.
    """
    parts = _parts_to_stop(call, task, pending.room)
    why = f"task {task.id}, of which it is a part, {what_happened}"
    for part in parts:
        stopped = _begin_stop(call, part, ResultStatus.STOPPED, why, None)
        pending.add(stopped)
        if task.open and stopped.open and _parts_to_stop(call, stopped, 1):
            revisit(call, stopped)
    return len(parts)
