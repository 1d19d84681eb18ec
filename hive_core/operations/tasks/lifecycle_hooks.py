"""Effects on tasks when a machine starts or ends, or an agent is destroyed (row T13).

A task that the agent had begun is lost with its machine: it fails, or is retried if its assigner
allowed retries. The session of an agent with a runtime goes on from its log: its task stays in
progress while the daemon itself starts the agent again (row K10, a restart, a move, a deploy). A
task that it had not begun waits, like its mail, while the agent may be started again. Such a task
fails when the agent crashes and stays down, or when its letter becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.delegation import call_as
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, MessageGivenUp, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.errors import HiveError
from hive_core.ledger.tasks.end_in_batches import Handover, Sweep
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.task import ResultStatus, Task, TaskResult, TaskState
from hive_core.operations.plans.prompts import withdraw_prompt_of_task
from hive_core.operations.tasks.deliveries import renew_request
from hive_core.operations.tasks.notices import correct_news, notify_assigner
from hive_core.operations.tasks.offers import (
    TASK,
    can_take_tasks,
    offer_next_tasks,
    withdraw_offer,
)
from hive_core.operations.tasks.steps import (
    current_assigner,
    is_between_machines,
    log_event,
    task_topic,
)
from hive_core.operations.tasks.transitions import (
    AT_ONCE,
    confirm_stop,
    end_in_batches,
    end_task,
    move_task,
)

HEIRS: Final = "heirs"


@on(AgentStarted)
def offer_tasks_at_start(call: Call, event: AgentStarted) -> None:
    """Offer the agent of a machine that is up the tasks that it has room for."""
    offer_next_tasks(call, event.uuid)


@on(AgentEnded)
def settle_tasks_at_machine_end(call: Call, event: AgentEnded) -> None:
    """End, retry or keep each task of an agent whose machine has ended."""
    why = f"{event.name} {'was ended' if event.asked else 'ended'}: {event.reason}"
    tasks, stays_down = call.ledger.tasks, not (event.asked or event.returns)
    offered, waiting = tasks.offered_tasks(event.uuid), list[Task]()
    if stays_down:
        waiting = [
            task for task in tasks.open_tasks(event.uuid)
            if not (task.begun or task.is_delivered)
        ]  # fmt: skip
    # A restart that revokes access does not count as an attempt.
    nonce = int(str(event.fields.get("nonce", 0)))
    revoked = call.ledger.revocations.is_restart_requested(event.uuid, nonce)
    resumes = event.returns and call.hive.spec(event.name).runtime is not None
    goes_on = revoked or resumes
    lost = [*waiting, *(task for task in offered if task.begun and not goes_on)]
    refusal = _restart_for_retry(call, event.name, lost) if stays_down else ""
    # Queued tasks end first: otherwise they would be offered when another one ends.
    _fail_waiting(call, waiting, why, refusal)
    lost_ids = {task.id for task in lost}
    for task in _still_open(call, offered):
        if task.state is TaskState.STOPPING:
            confirm_stop(call, task, TaskResult(ResultStatus.STOPPED))
        elif task.id in lost_ids:
            _retry_or_fail(call, task, why, refusal)
        elif task.begun and resumes:
            log_event(call, task, "interrupt", why)
        elif task.begun:
            call.ledger.messages.ack(task.assignee, [task.message])
            move_task(call, task, "hand_back", why=why, message="", attempt=task.attempt - 1)
        elif task.offered and not _is_letter_kept(call, task, event):
            withdraw_offer(call, task, why)
    offer_next_tasks(call, event.uuid)


def end_interrupted_tasks(call: Call, agent: str, why: str) -> None:
    """End, or queue again, the tasks of an agent that is down and will not be started again.

    They stayed in progress when its machine ended, because the daemon would have started it again.
    """
    name = call.hive.name(agent)
    if name is None or not is_between_machines(call, agent):
        return  # the end of its machine is still to come, or has ended its tasks
    for task in _still_open(call, call.ledger.tasks.begun_tasks(agent)):
        if task.state is TaskState.STOPPING:
            confirm_stop(call, task, TaskResult(ResultStatus.STOPPED))
        else:
            _retry_or_fail(call, task, f"{name} was ended: {why}", "")


@on(MessageGivenUp)
def fail_task_of_dead_letter(call: Call, event: MessageGivenUp) -> None:
    """Fail, or retry, a task whose letter is a dead letter, unless its agent has begun it."""
    letter = event.message
    if letter.sender != DAEMON or letter.kind != TASK:
        return
    for task in call.ledger.tasks.offered_tasks(letter.recipient):
        if task.offered and task.message == letter.id:
            _retry_or_fail(
                call, task, f"{letter.recipient_name} did not accept it: {letter.dead_why}", ""
            )
            offer_next_tasks(call, task.assignee)
            return


@on(AgentDestroyed)
def end_tasks_of_destroyed_agent(call: Call, event: AgentDestroyed) -> None:
    """End the tasks of a destroyed agent; reassign the tasks that it assigned to its parent."""
    why = f"{event.name} was destroyed"
    sweep = Sweep(call.uuid, call.caller, ResultStatus.FAILED, why)
    # Most of them may end later: a destroyed agent cannot begin them.
    waiting = call.ledger.plans.sweeps.open_tasks([event.uuid]).waiting
    end_in_batches(call, sweep, waiting)
    for task in _still_open(call, call.ledger.tasks.begun_tasks(event.uuid)):
        if task.state is TaskState.STOPPING:
            confirm_stop(call, task, TaskResult(ResultStatus.STOPPED))
        else:
            end_task(call, task, "fail", TaskResult(ResultStatus.FAILED, error=why))
    _reassign_to_heir(call, event)


def reassign_tasks(call: Call, hive: Hive, agent: str) -> None:
    """Find a new assigner for the tasks below a moved agent whose assigner is not above it now."""
    after = replace(call, hive=hive)
    why = f"{agent} was moved: its task is yours now"
    for name in hive.topology.subtree(agent):
        for task in call.ledger.tasks.open_tasks(hive.spec(name).id):
            assigner = current_assigner(after, task)
            if assigner != task.assigner:
                _reassign_task(after, task, assigner, why)


def _reassign_task(call: Call, task: Task, assigner: str, why: str) -> None:
    reassigned = call.ledger.tasks.update(task.id, assigner=assigner, why=why)
    log_event(call, reassigned, "inherit", why)
    notify_assigner(call, reassigned)
    correct_news(call, task.assigner, task.id, forget=True)
    withdraw_prompt_of_task(call, task.id)
    renew_request(call, reassigned)
    call.notify(task_topic(task.id), "events")


def _still_open(call: Call, tasks: list[Task]) -> Iterator[Task]:
    """The tasks that are still open, each read when its turn comes.

    The end of one may end another.
    """
    for task in tasks:
        current = call.ledger.tasks.require(task.id)
        if current.open:
            yield current


def _is_letter_kept(call: Call, task: Task, event: AgentEnded) -> bool:
    """Whether the letter of the task is still unread: the next start of the agent finds it then."""
    if not (event.returns or can_take_tasks(call, event.name)):
        return False
    return call.ledger.messages.untaken(task.assignee, task.message)


def _has_retry(task: Task) -> bool:
    """Whether its assigner allowed retries, and one is left."""
    return task.request.requeue >= max(task.attempt, 1)


def _retry_or_fail(call: Call, task: Task, why: str, refusal: str) -> None:
    if refusal or not _has_retry(task):
        error = f"{why}; {refusal}" if refusal and _has_retry(task) else why
        end_task(call, task, "fail", TaskResult(ResultStatus.FAILED, error=error))
        return
    reason = f"{why}; try {task.attempt + 1} of {task.request.requeue + 1}"
    if task.offered:
        withdraw_offer(call, task, reason, tried=True)
    else:
        # Its first sub-task may have begun it before the agent read the letter.
        call.ledger.messages.ack(task.assignee, [task.message])
        move_task(call, task, "hand_back", why=reason, message="")


def _fail_waiting(call: Call, waiting: list[Task], why: str, refusal: str) -> None:
    """Fail the tasks that the agent had not begun, except those that are retried."""
    without_retry = [task.id for task in waiting if not _has_retry(task)]
    not_restarted = [task.id for task in waiting if refusal and _has_retry(task)]
    for error, ids in ((why, without_retry), (f"{why}; {refusal}", not_restarted)):
        sweep = Sweep(call.uuid, call.caller, ResultStatus.FAILED, error)
        end_in_batches(call, sweep, ids)


def _restart_for_retry(call: Call, name: str, lost: list[Task]) -> str:
    """Start the agent again on behalf of the assigner, for a retry; return why it cannot, or ""."""
    task = next((task for task in lost if _has_retry(task) and task.open), None)
    if task is None:
        return ""
    try:
        call_as(call, current_assigner(call, task), "restart", {"agent": name})
    except HiveError as error:
        return f"it cannot be started again: {error.reason}"
    return ""


def _reassign_to_heir(call: Call, event: AgentDestroyed) -> None:
    """Make the parent of a destroyed agent the assigner of the tasks that it had assigned."""
    parent = call.hive.topology.parent(event.name)
    heir = OPERATOR if parent is None else call.hive.spec(parent).id
    why = f"{event.name} was destroyed: its task is yours now"
    ids = call.ledger.tasks.reassign_all(event.uuid, heir, why)
    handover, later = Handover(call.uuid, call.caller, why), ids[AT_ONCE:]
    call.ledger.plans.sweeps.add_handovers(handover, later)
    if later:
        call.notify(HEIRS)
    for id_ in ids[:AT_ONCE]:
        _announce_handover(call, id_, handover)


@due(
    at=lambda ledger: 0.0 if ledger.plans.sweeps.has_handovers else None, topics=frozenset({HEIRS})
)
def announce_handovers(call: Call) -> Record[Result]:
    """Tell heirs about more of the tasks that are theirs now, with an event for each."""
    for id_, handover in call.ledger.plans.sweeps.take_handovers(AT_ONCE):
        _announce_handover(call, id_, handover)
    call.notify(HEIRS)
    return Record(Result(), audited=True)


def _announce_handover(call: Call, id_: str, handover: Handover) -> None:
    task = call.ledger.tasks.get(id_)
    if task is None or not task.open:
        return
    theirs = replace(call, caller=handover.name, uuid=handover.party)
    log_event(theirs, task, "inherit", handover.why)
    notify_assigner(theirs, task)
    renew_request(theirs, task)
    theirs.notify(task_topic(task.id), "events")
