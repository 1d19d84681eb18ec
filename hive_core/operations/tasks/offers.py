"""Offering tasks to agents that have room for them, and withdrawing offers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.quarantine import quarantine_holder
from hive_core.errors import InboxFull
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.budgets.payer_budget import exhausted_budget, funded_kinds
from hive_core.operations.notices import More, deliver, inbox
from hive_core.operations.tasks.notices import daemon_letter, notify_assigner, task_letter
from hive_core.operations.tasks.steps import log_event, take_step, task_topic

TASK: Final = "task"
# An agent that should run and does not gets no offer, since it could not receive it.
_STUCK: Final = frozenset({State.FAILED, State.PARKED})
UNBEGUN: Final = "unbegun"  # the event: its agent does not begin it
_RETRY_SECONDS: Final = 1.0  # until a full inbox is tried again


def offer_next_tasks(call: Call, assignee: str) -> None:
    """Offer an agent the tasks that it has room for: the most urgent first, then the oldest."""
    name = call.hive.name(assignee)
    if name is None or not can_take_tasks(call, name):
        return
    room = call.hive.spec(name).at_once - call.ledger.tasks.count_offered_tasks(assignee)
    while room > 0 and (task := _next_task(call, assignee)) is not None:
        try:
            _offer(call, task, name)
        except InboxFull:
            call.ledger.tasks.update(task.id, soft_at=call.now + _RETRY_SECONDS)
            break
        room -= 1


def _next_task(call: Call, assignee: str) -> Task | None:
    """The first task that a budget pays for: the agent's budget, or that of the task itself."""
    first = call.ledger.tasks.next_queued_task(assignee)
    if first is None or exhausted_budget(call, assignee) is None:
        return first
    queued = call.ledger.tasks.open_tasks(assignee) if call.ledger.budgets.funds.any else []
    return next(
        (
            task for task in queued
            if task.state is TaskState.QUEUED and not task.message
            and not call.ledger.plans.sweeps.contains(task.id)
            and exhausted_budget(call, assignee, funded_kinds(call, task.id, assignee)) is None
        ),
        None,
    )  # fmt: skip


def _offer(call: Call, task: Task, name: str) -> None:
    """Send a queued task to its agent as a message; the agent begins it with `begin_task`."""
    request, attempt = task.request, task.attempt + 1
    body = task_letter(call, replace(task, attempt=attempt))
    more: More = {
        "priority": request.priority, "thread": request.thread, "hops": request.hops,
    }  # fmt: skip
    message = deliver(call, daemon_letter(call, name, TASK, body, **more))
    if request.manager and not task.attempt:
        take_step(
            call, task, "delegate", attempt=attempt, message=message.id, soft_at=_look_at(call)
        )
        return
    offered = call.ledger.tasks.update(
        task.id, attempt=attempt, message=message.id, soft_at=_look_at(call), why=""
    )
    log_event(call, offered, "offer")
    call.notify(task_topic(task.id), "events")


def _look_at(call: Call) -> float | None:
    """When the daemon looks whether the agent has begun the task; None: never."""
    within = call.settings.tasks.begin_within
    return call.now + within if within else None


def look_after_offer(call: Call, task: Task) -> None:
    """Tell the assigner, once, that the agent runs and neither reads nor works on another task.

    The task stays offered. An agent that is busy, or does not run, is looked at again later.
    """
    name = call.hive.name(task.assignee)
    if name is None:
        return
    since = call.now - call.settings.tasks.begin_within
    busy = bool(call.ledger.tasks.begun_tasks(task.assignee))
    runs = call.states.state(task.assignee) in (State.RUNNING, State.DEGRADED)
    if busy or not runs or call.ledger.messages.last_read(task.assignee) > since:
        call.ledger.tasks.update(task.id, soft_at=_look_at(call))
        call.notify(task_topic(task.id))
        return
    why = f"{name} has not begun it for {call.settings.tasks.begin_within:g} s and reads no mail"
    unbegun = call.ledger.tasks.update(task.id, soft_at=None, why=why)
    log_event(call, unbegun, UNBEGUN, why)
    notify_assigner(call, unbegun)
    call.notify(task_topic(task.id), "events")


def withdraw_offer(call: Call, task: Task, why: str, *, tried: bool = False) -> Task:
    """Withdraw an offer that the agent has not begun: the task is queued again.

    `tried`: count the offer as an attempt, because the task may have ended the agent.
    """
    call.ledger.messages.ack(task.assignee, [task.message])
    before = TaskChanges(message="", attempt=task.attempt - (not tried), why=why)
    if task.state is TaskState.PENDING_DELEGATION:
        return take_step(call, task, "hand_back", **before)
    withdrawn = call.ledger.tasks.update(task.id, **before)
    log_event(call, withdrawn, "withdraw", why)
    call.notify(task_topic(task.id), inbox(task.assignee), "events")
    return withdrawn


def can_take_tasks(call: Call, name: str) -> bool:
    """Whether the agent can receive tasks: it is free, and runs, is starting, or wakes for mail."""
    spec = call.hive.spec(name)
    if quarantine_holder(call, spec.id):
        return False
    run = call.ledger.runs.get(spec.id)
    if run is None or run.wanted is DesiredState.STOPPED:
        return False
    if run.wanted is DesiredState.RUNNING:
        return call.states.state(spec.id) not in _STUCK
    return spec.wakes
