"""Tasks are offered to their agents, as these have room for them, and taken back unbegun."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import InboxFull
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.budgets.payer_budget import exhausted_budget, funded_kinds
from hive_core.operations.notices import More, inbox, post
from hive_core.operations.tasks.letters import letter
from hive_core.operations.tasks.notices import from_daemon
from hive_core.operations.tasks.steps import log, step, topic

TASK: Final = "task"
# Wanted and not running: nothing is given to one who has nobody to take it.
_STUCK: Final = frozenset({State.FAILED, State.PARKED})
_LATER: Final = 1.0  # seconds until a full inbox is tried again


def start_next(call: Call, assignee: str) -> frozenset[str]:
    """Offer an agent what it has room for: the most urgent first, then the oldest."""
    topics = set[str]()
    name = call.hive.name(assignee)
    if name is None or not takes(call, name):
        return frozenset()
    room = call.hive.spec(name).at_once - call.ledger.tasks.count_offered(assignee)
    while room > 0 and (task := _next(call, assignee)) is not None:
        try:
            topics |= _offer(call, task, name)
        except InboxFull:
            call.ledger.tasks.update(task.id, soft_at=call.now + _LATER)
            break
        room -= 1
    return frozenset(topics)


def _next(call: Call, assignee: str) -> Task | None:
    """The first that somebody pays for: where its agent has nothing left, one with its own."""
    first = call.ledger.tasks.next_queued(assignee)
    if first is None or exhausted_budget(call, assignee) is None:
        return first
    queued = call.ledger.tasks.open_tasks(assignee) if call.ledger.budgets.funds.any else []
    return next(
        (
            each for each in queued
            if each.state is TaskState.QUEUED and not each.message
            and not call.ledger.plans.sweeps.contains(each.id)
            and exhausted_budget(call, assignee, funded_kinds(call, each.id, assignee)) is None
        ),
        None,
    )  # fmt: skip


def _offer(call: Call, task: Task, name: str) -> frozenset[str]:
    """Hand a queued task to its agent, as a message; it begins when that says so."""
    wish, attempt = task.request, task.attempt + 1
    body = letter(call, replace(task, attempt=attempt))
    more: More = {"priority": wish.priority, "thread": wish.thread}
    sent, topics = post(call, from_daemon(call, name, TASK, body, **more))
    if wish.manager and not task.attempt:
        return topics | step(call, task, "delegate", attempt=attempt, message=sent.id)[1]
    found = call.ledger.tasks.update(
        task.id, attempt=attempt, message=sent.id, soft_at=None, why=""
    )
    log(call, found, "offer")
    return topics | {topic(task.id), "events"}


def withdraw(
    call: Call, task: Task, why: str, *, tried: bool = False
) -> tuple[Task, frozenset[str]]:
    """Take back an offer that its agent has not begun: it is queued as before.

    It counts as a try where the agent may have ended by it (`tried`).
    """
    call.ledger.messages.ack(task.assignee, [task.message])
    before = TaskChanges(message="", attempt=task.attempt - (not tried), why=why)
    if task.state is TaskState.PENDING_DELEGATION:
        return step(call, task, "hand_back", **before)
    found = call.ledger.tasks.update(task.id, **before)
    log(call, found, "withdraw", why)
    return found, frozenset({topic(task.id), inbox(task.assignee), "events"})


def takes(call: Call, name: str) -> bool:
    """Whether what is given to it now is taken: it runs, comes up, or is woken by mail."""
    spec = call.hive.spec(name)
    run = call.ledger.runs.get(spec.id)
    if run is None or run.wanted is DesiredState.STOPPED:
        return False
    if run.wanted is DesiredState.RUNNING:
        return call.states.state(spec.id) not in _STUCK
    return spec.wakes
