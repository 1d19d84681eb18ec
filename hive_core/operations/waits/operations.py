"""Waiting for tasks, agents or any message, without an open call (row T4).

A wait is a row in the ledger. The message that ends it carries its id: the message that the agent
waits for, or a notice of the daemon. So a wait survives restarts of the agent and of the daemon.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, MessageArrived, TaskEnded, on
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.broker.timers import due
from hive_core.errors import InboxFull, InvalidArgument, LimitReached, NotFound
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.wire.record import DAEMON, Message, Relation
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.planning import ParkedWait, WaitCondition
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Agent
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.operations.notices import deliver, inbox
from hive_core.operations.tasks.notices import TASKS
from hive_core.operations.tasks.rules import can_see_task, living_name
from hive_core.operations.waits.wait_tasks import MOST, task_end
from hive_core.policy.relationship import is_visible
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

WAIT_OVER: Final = "wait_over"
INJECTED: Final = "inject"
UNSEEN: Final = "unseen"
# Kinds whose sender waits for the recipient: they end every wait, so that two agents do not wait
# for each other.
NEEDS_ANSWER: Final = frozenset(
    {INJECTED, "question", "answer", "escalation", "plan_submitted", "reminder"}
)
_ABOVE: Final = frozenset({Relation.OPERATOR, Relation.PARENT, Relation.ANCESTOR})
_BELOW: Final = frozenset({Relation.CHILD, Relation.DESCENDANT, Relation.DAEMON})
_NO_WORD: Final = frozenset({WAIT_OVER, "copy"})
_AT_ONCE: Final = 50

Id = Annotated[str, Field(max_length=64)]


class WaitForParams(Mutation):
    tasks: list[Id] = Field(
        [],
        max_length=MOST,
        description="Tasks that must end: tasks of the caller, or tasks that it assigned.",
    )
    agents: list[Agent] = Field(
        [], max_length=MOST,
        description="Agents, one of which must write. Without tasks and agents, any message from a"
        " child, the user or the daemon ends the wait.",
    )  # fmt: skip
    until: Literal["any", "all"] = Field(
        "any", description="Wait for one of the tasks, or for all."
    )
    deadline: float | None = Field(
        None, gt=0, description="Seconds after which the wait ends; default: a setting."
    )


class WaitBegun(Result):
    wait_id: str = Field(description="Id of the wait; the message that ends it carries this.")
    deadline: float = Field(description="When it ends at the latest, in seconds since 1970.")
    over: bool = Field(
        description="Whether it ended at once, because the message is there already."
    )


class CancelWaitParams(Mutation):
    wait: Id = Field(description="Id of the wait.")


class WaitRow(Result):
    id: str = Field(description="Id of the wait.")
    agent: str = Field(description="Name of the agent that waits.")
    tasks: list[str] = Field(description="Tasks that it waits for.")
    agents: list[str] = Field(description="Agents that it waits for.")
    until: str = Field(description="any or all of the tasks.")
    state: str = Field(description="waiting, met, expired or cancelled.")
    created: float = Field(description="Seconds since 1970.")
    deadline: float = Field(description="Seconds since 1970.")


class ListWaitsParams(Params):
    agent: Agent | None = Field(None, description="Agent that waits; default: the caller.")


class WaitRows(Result):
    waits: list[WaitRow] = Field(description="Open waits, the oldest first.")


@operation(action="work", allow=SELF)
def wait_for(call: Call, params: WaitForParams) -> Record[WaitBegun]:
    """Park the caller until tasks end, agents write, or the deadline comes; replies at once.

    The call returns at once: the caller receives mail as usual, and the message that ends the wait
    carries its `wait_id`. A message of the operator or of an ancestor, and one that needs an
    answer, ends every wait. The wait survives restarts of the caller and of the daemon.
    """
    agents = tuple(_visible_party(call, name) for name in params.agents)
    condition = WaitCondition(tuple(params.tasks), agents, params.until == "all")
    wait = begin_wait(call, condition, params.deadline)
    over = wait.ended is not None
    return Record(WaitBegun(wait_id=wait.id, deadline=wait.deadline, over=over))


def _waiting_agent(call: Call, params: CancelWaitParams) -> str | None:
    wait = call.ledger.plans.waits.get(params.wait)
    return None if wait is None else living_name(call, wait.agent)


@operation(
    action="work", allow=SELF | ANCESTOR | OPERATOR, whose=Whose("wait", "wait", _waiting_agent)
)
def cancel_wait(call: Call, params: CancelWaitParams) -> Record[Result]:
    """Cancel a wait; no message is sent. Allowed to the agent, its ancestors and the operator."""
    wait = call.ledger.plans.waits.move(params.wait, "cancel", call.now, reason="cancelled")
    _notify_wait(call, wait.agent)
    return Record(Result())


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_waits(call: Call, params: ListWaitsParams) -> WaitRows:
    """List the open waits of an agent. Allowed to the agent, its ancestors and the operator."""
    agent = call.uuid if params.agent is None else _party(call, params.agent)
    waits = call.ledger.plans.waits.open_waits(agent)
    return WaitRows(waits=[_wait_row(call, wait) for wait in waits])


def begin_wait(call: Call, condition: WaitCondition, seconds: float | None = None) -> ParkedWait:
    """Open a wait of the caller; it ends at once if its tasks have ended already."""
    _check(call, condition, seconds)
    limits = call.settings.waits
    deadline = call.now + min(seconds or limits.deadline, limits.deadline_most)
    waits = call.ledger.plans.waits
    wait = waits.create(call.uuid, condition, call.now, deadline)
    _notify_wait(call, call.uuid)
    for id_ in condition.tasks:
        if status := task_end(call, id_).status:
            wait = waits.set_task_end(wait.id, id_, status)
    if _is_met(wait):
        _end_wait(call, wait, "meet", "tasks")
    return waits.require(wait.id)


@on(MessageArrived)
def end_waits_by_message(call: Call, event: MessageArrived) -> None:
    """End every wait for this message; the message carries the id of the oldest wait."""
    message = event.message
    waits = call.ledger.plans.waits
    if message.kind in _NO_WORD or message.recipient not in waits.may_wait:
        return
    met = [wait for wait in waits.open_waits(message.recipient) if _is_met_by(message, wait)]
    # A later message may replace the news of tasks before it is read: it cannot carry an id.
    carried = 0 if message.kind == TASKS else 1
    for wait in met[:carried]:
        waits.move(wait.id, "meet", call.now, message=message.id, reason="message")
        _notify_wait(call, message.recipient)
    for wait in met[carried:]:
        _end_wait(call, wait, "meet", "message", message.id)


@on(TaskEnded)
def end_waits_by_task(call: Call, event: TaskEnded) -> None:
    """Note the end of a task in each wait for it, and end the waits that are met."""
    waits = call.ledger.plans.waits
    for wait in waits.waits_for_task(event.id):
        status = event.status if _may_know(call, wait.agent, event.id) else UNSEEN
        updated = waits.set_task_end(wait.id, event.id, status)
        if _is_met(updated):
            _end_wait(call, updated, "meet", "tasks")


def _may_know(call: Call, agent: str, task: str) -> bool:
    """Whether the waiting agent may see the task: a move may have hidden it meanwhile."""
    name = living_name(call, agent)
    if name is None:
        return False
    return can_see_task(replace(call, caller=name, uuid=agent), call.ledger.tasks.require(task))


@on(AgentDestroyed)
def cancel_waits_of_destroyed_agent(call: Call, event: AgentDestroyed) -> None:
    """Cancel the waits of a destroyed agent, without a message."""
    for wait in call.ledger.plans.waits.open_waits(event.uuid):
        call.ledger.plans.waits.move(wait.id, "cancel", call.now, reason="gone")


@due(at=lambda ledger: ledger.plans.waits.next_deadline(), topics=frozenset({"wait"}))
def expire_waits(call: Call) -> Record[Result]:
    """End waits whose deadline has come."""
    for wait in call.ledger.plans.waits.overdue(call.now, _AT_ONCE):
        _end_wait(call, wait, "expire", "deadline")
    return Record(Result())


def _notify_wait(call: Call, agent: str) -> None:
    """Touch the topics of a wait that began or ended; the activity of the agent may change."""
    call.notify(f"wait:{agent}")
    update_activity(call, agent)


def _check(call: Call, condition: WaitCondition, seconds: float | None) -> None:
    limits = call.settings.waits
    if seconds is not None and seconds > limits.deadline_most:
        reason = f"cannot wait for {seconds:g} s: {limits.deadline_most:g} s at most"
        raise InvalidArgument(reason, field="deadline")
    if len(call.ledger.plans.waits.open_waits(call.uuid)) >= limits.open:
        raise LimitReached(f"cannot wait: {limits.open} of your waits are open, which is the limit")
    for id_ in condition.tasks:
        task_end(call, id_)


def _is_met(wait: ParkedWait) -> bool:
    """Whether enough of its tasks have ended."""
    if not wait.condition.tasks or wait.ended is not None:
        return False
    if wait.condition.all:
        return len(wait.ends) == len(wait.condition.tasks)
    return bool(wait.ends)


def _is_met_by(message: Message, wait: ParkedWait) -> bool:
    if message.kind in NEEDS_ANSWER or message.relation in _ABOVE:
        return True
    if message.sender in wait.condition.agents:
        return True
    is_specific = wait.condition.tasks or wait.condition.agents
    return not is_specific and message.relation in _BELOW


def _end_wait(call: Call, wait: ParkedWait, event: str, why: str, message: str = "") -> None:
    """End a wait by a message of the daemon that carries its id."""
    head: dict[str, object] = {"wait_id": wait.id, "reason": why, "tasks": dict(wait.ends)}
    if message:
        head["message"] = message
    waits = call.ledger.plans.waits
    name = display_name(call, wait.agent)
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=wait.agent, recipient_name=name,
        relation=Relation.DAEMON, body=f"{json.dumps(head)}\n{_end_text(call, wait, why)}",
        kind=WAIT_OVER, priority=1,
    )  # fmt: skip
    try:
        id_ = deliver(call, letter).id
    except InboxFull:  # the wait ends anyway; `list_waits` no longer shows it
        id_ = ""
        call.notify(inbox(wait.agent))
    waits.move(wait.id, event, call.now, message=id_, reason=why)
    _notify_wait(call, wait.agent)


def _end_text(call: Call, wait: ParkedWait, why: str) -> str:
    ends = dict(wait.ends)
    lines = [f"- task {id_}: {ends.get(id_) or 'not ended'}" for id_ in wait.condition.tasks]
    lines += [f"- {display_name(call, uuid)}: did not write" for uuid in wait.condition.agents]
    first = {
        "tasks": "What you waited for has ended.",
        "deadline": "The deadline of your wait has come; nothing else has changed.",
        "message": "A message that you got ends this wait too.",
    }[why]
    return "\n".join([first, *(lines if why != "message" else [])])


def _visible_party(call: Call, name: str) -> str:
    """UUID of a party that the caller may see; NotFound also hides agents that it may not see."""
    if name != THE_OPERATOR and not is_visible(call.hive, call.caller, name):
        raise NotFound(f"no such agent: {name}", agent=name)
    return _party(call, name)


def _party(call: Call, name: str) -> str:
    return THE_OPERATOR if name == THE_OPERATOR else call.hive.spec(name).id


def _wait_row(call: Call, wait: ParkedWait) -> WaitRow:
    return WaitRow(
        id=wait.id, agent=display_name(call, wait.agent), tasks=list(wait.condition.tasks),
        agents=[display_name(call, uuid) for uuid in wait.condition.agents],
        until="all" if wait.condition.all else "any", state=wait.state, created=wait.created,
        deadline=wait.deadline,
    )  # fmt: skip
