"""One step of one task: the row, the event, the clock, and the news for the assigner.

The clock of a task runs from the moment its agent begins it. It stands while the agent waits for
an answer or for a decision on a plan, and while another agent works on a part of the task that has
a clock of its own. A part that its agent has not begun, or that has no deadline, stops no clock:
else the clock of the task could stand for ever.
"""

from __future__ import annotations

from typing import Final, Unpack

from hive_core.broker.call import Call
from hive_core.broker.hooks import TaskHandedBack, emit
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.task import AWAITING, COURSE, Task, TaskState
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.tasks.notices import correct_news, notify_assigner
from hive_core.operations.tasks.spend import task_spend

# The daemon tells the assigner about these states: an end, a wait for a decision or an answer.
_NEWS_STATES: Final = frozenset({
    TaskState.DONE, TaskState.CANCELLED, TaskState.AWAITING_PLAN_APPROVAL,
    TaskState.AWAITING_MORE_INFORMATION,
})  # fmt: skip
_GIVEN_BACK: Final = frozenset({"hand_back", "retry"})
_STOPPED_CLOCK: Final = frozenset({
    TaskState.QUEUED, TaskState.STOPPING, TaskState.AWAITING_JUDGEMENT,
})  # fmt: skip


def task_topic(task: str) -> str:
    """The topic that every step of a task, and every report about it, touches."""
    return f"task:{task}"


def take_step(call: Call, task: Task, event: str, **changes: Unpack[TaskChanges]) -> Task:
    """Take one legal step of one task, without the consequences for other tasks.

    The only effect on another task is on the clock of the whole: it stands beside that of a part.
    """
    state = TaskState(COURSE.next(task.state, event))
    clock = clock_after_step(call, task, state)
    whole: TaskChanges = {
        "why": "", "assigner": current_assigner(call, task), **clock, **changes
    }  # fmt: skip
    after = call.ledger.tasks.move(task.id, event, call.now, **whole)
    log_event(call, after, event, after.why, **_end_fields(call, after))
    call.notify(task_topic(task.id), f"tasks:{after.assigner}", "events")
    if task.begun or after.begun:  # otherwise the activity of its agent does not change
        update_activity(call, after.assignee)
    if task.begun != after.begun:
        update_clock_of_whole(call, after)
    if call.uuid != after.assigner and _is_news(task, after, event):
        notify_assigner(call, after)
    else:
        correct_news(call, after.assigner, after.id, forget=call.uuid == after.assigner)
    if after.assigner != task.assigner:
        correct_news(call, task.assigner, after.id, forget=True)
    if event in _GIVEN_BACK:
        emit(call, TaskHandedBack(after.id, after.why))
    return after


def _end_fields(call: Call, task: Task) -> dict[str, object]:
    """What the event of a task's end has beside the others: its status and its spend."""
    if task.result is None:
        return {}
    return {"status": task.result.status.value, **task_spend(call, task).fields}


def _is_news(before: Task, after: Task, event: str) -> bool:
    """Whether to tell the assigner, also because an earlier message is not true now."""
    retried = event in _GIVEN_BACK or (event == "begin" and after.attempt > 1)
    return after.state in _NEWS_STATES or before.state in AWAITING or retried


def log_event(call: Call, task: Task, event: str, why: str = "", **more: object) -> None:
    """Append the event to the log; these events are the history of the task."""
    seq = call.ledger.events.append(AuditEntry(
        kind="task", caller=call.uuid, operation=event, target=task.assignee, allowed=None,
        rule="", reason=why, commit=call.hive.commit, request=call.request, now=call.now,
        fields={"task": task.id, "state": task.state.value, "assigner": task.assigner,
                "attempt": task.attempt, "caller_name": call.caller,
                "target_name": display_name(call, task.assignee), **more},
    ))  # fmt: skip
    call.ledger.tasks.add_event(task.id, seq)


def current_assigner(call: Call, task: Task) -> str:
    """The UUID of the party that decides on the task: its assigner while that is above its agent.

    Otherwise it is the nearest agent above both, or the operator: an agent cannot decide on a task
    that it can no longer see.
    """
    if task.assigner in (OPERATOR, task.assignee):
        return task.assigner
    tree, above = call.hive.topology, standing_in(call, task.assigner)
    below = standing_in(call, task.assignee)
    if above is None or below is None:
        return OPERATOR if above is None else call.hive.spec(above).id
    path = (above, *tree.lineage(above))
    destroyed = call.hive.name(task.assignee) is None
    heirs = (name for name in path
             if tree.is_ancestor(name, below) or (destroyed and name == below))  # fmt: skip
    heir = next(heirs, None)
    return OPERATOR if heir is None else call.hive.spec(heir).id


def is_between_machines(call: Call, agent: str) -> bool:
    """Whether the agent is destroyed, or has a runtime and no machine: its last one has ended.

    Its tasks may be in progress all the same, because the daemon starts it again.
    """
    name = call.hive.name(agent)
    return name is None or (
        call.hive.spec(name).runtime is not None and not call.ledger.lives.get(agent).up
    )


# An agent begins a task that it was offered by `begin_task`, or by any call that only a begun task
# allows. Until then the task is `queued`, its clock has not started, and an end of the agent loses
# nothing.


def begin_work(call: Call, task: Task, why: str = "") -> Task:
    """Record that the agent works on an offered task; any other task stays as it is.

    The task of a new manager is `pending_delegation` until its first sub-task or report.
    """
    if not task.offered:
        return task
    clock: TaskChanges = {**clock_from_now(call, task), "why": why}
    if task.state is not TaskState.PENDING_DELEGATION:
        return take_step(call, task, "begin", **clock)
    after = call.ledger.tasks.update(task.id, **clock)
    log_event(call, after, "begin", why)
    call.notify(task_topic(task.id), "events")
    update_activity(call, task.assignee)
    update_clock_of_whole(call, after)
    return after


def end_pending_delegation(call: Call, whole: Task, why: str) -> Task:
    """Begin the task of a manager that assigned its first sub-task, or reported."""
    task = begin_work(call, whole, why)
    if task.state is not TaskState.PENDING_DELEGATION:
        return task
    return take_step(call, task, "begin", why=why)


def current_tasks(ledger: Ledger, agent: str) -> list[Task]:
    """The tasks that the agent has begun, or, without any, those that it was offered."""
    offered = ledger.tasks.offered_tasks(agent)
    return [task for task in offered if task.begun] or offered


def execution_lock(ledger: Ledger, agent: str) -> str:
    """Why the agent may not execute anything now; empty when it may.

    An offered task that needs a plan also locks the agent, unless the agent has begun another task.
    """
    return next((why for task in current_tasks(ledger, agent) if (why := task.locked)), "")


def clock_from_now(call: Call, task: Task) -> TaskChanges:
    """The clock of a task that its agent begins now, with the requested seconds."""
    request, started = task.request, task.started or call.now
    # Parts of an attempt before may be begun: the clock stands beside them from the start.
    if request.deadline and call.ledger.tasks.is_part_timed_by_other(task.id, task.assignee):
        return TaskChanges(started=started, left=request.deadline, hard_at=None, soft_at=None)
    hard_at = call.now + request.deadline if request.deadline else None
    soft_at = call.now + request.soft if request.soft else None
    return TaskChanges(
        started=started, left=None, hard_at=hard_at,
        soft_at=soft_at if hard_at is None else _soft_time(task, hard_at),
    )  # fmt: skip


def clock_after_step(call: Call, task: Task, state: TaskState) -> TaskChanges:
    """The clock of a task that enters this state."""
    if state in _STOPPED_CLOCK:
        return TaskChanges(left=None, hard_at=None, soft_at=None)
    if state in AWAITING:
        return _paused_clock(call, task)
    if state is TaskState.IN_PROGRESS:
        return _clock_beside_parts(call, task)
    return TaskChanges()


def update_clock_of_whole(call: Call, part: Task) -> None:
    """Stop or continue the clock of the task that this one is a part of."""
    whole = call.ledger.tasks.get(part.request.part_of) if part.request.part_of else None
    if whole is None or whole.state is not TaskState.IN_PROGRESS:
        return
    if clock := _clock_beside_parts(call, whole):
        call.ledger.tasks.update(whole.id, **clock)
        call.notify(task_topic(whole.id))


def _clock_beside_parts(call: Call, task: Task) -> TaskChanges:
    """The clock stands as long as another agent has a part with a clock, and continues then."""
    waits = call.ledger.tasks.is_part_timed_by_other(task.id, task.assignee)
    return _paused_clock(call, task) if waits else _resumed_clock(call, task)


def _paused_clock(call: Call, task: Task) -> TaskChanges:
    if task.hard_at is None:  # the clock stands already, or the task has no deadline
        return TaskChanges()
    return TaskChanges(left=max(0.0, task.hard_at - call.now), hard_at=None, soft_at=None)


def _resumed_clock(call: Call, task: Task) -> TaskChanges:
    if task.left is None:
        return TaskChanges()
    hard_at = call.now + task.left
    soft_at = _soft_time(task, hard_at)
    is_ahead = soft_at is not None and soft_at > call.now
    return TaskChanges(left=None, hard_at=hard_at, soft_at=soft_at if is_ahead else None)


def _soft_time(task: Task, hard_at: float) -> float | None:
    """When the daemon asks for a report on a task whose deadline is at `hard_at`."""
    request = task.request
    if not request.soft or not request.deadline:
        return None
    return hard_at - max(0.0, request.deadline - request.soft)
