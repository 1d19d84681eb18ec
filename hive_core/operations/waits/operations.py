"""Waiting for tasks, agents or any word, without anything held open (row T4).

A wait is a row. What ends it is a message that carries its id: the one that was waited for, or a
notice of the daemon's. So it outlives a restart of whoever waits, and of the daemon.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, MessageArrived, TaskEnded, when
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
from hive_core.operations.notices import inbox, post
from hive_core.operations.tasks.notices import TASKS
from hive_core.operations.waits.wait_tasks import MOST, end_of, sees_task
from hive_core.policy.relationship import is_visible
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

WAIT_OVER: Final = "wait_over"
INJECTED: Final = "inject"
UNSEEN: Final = "unseen"
# Who has to be answered must not wait for one who waits for it.
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
        [], max_length=MOST, description="Tasks that have to end, the caller's or given by it."
    )
    agents: list[Agent] = Field(
        [], max_length=MOST,
        description="Agents that have to write. Neither tasks nor agents: a word from a child, the"
        " user or the daemon.",
    )  # fmt: skip
    until: Literal["any", "all"] = Field("any", description="One of the tasks, or each of them.")
    deadline: float | None = Field(
        None, gt=0, description="Seconds after which the wait is over; a setting when absent."
    )


class WaitBegun(Result):
    wait_id: str = Field(description="The wait; the message that ends it carries this.")
    deadline: float = Field(description="When it is over at the latest, in seconds since 1970.")
    over: bool = Field(description="Whether it was over at once: the message is there already.")


class CancelWaitParams(Mutation):
    wait: Id = Field(description="The wait.")


class WaitRow(Result):
    id: str = Field(description="The wait.")
    agent: str = Field(description="Who waits.")
    tasks: list[str] = Field(description="Tasks that are waited for.")
    agents: list[str] = Field(description="Agents that are waited for.")
    until: str = Field(description="any or all of the tasks.")
    state: str = Field(description="waiting, met, expired or cancelled.")
    created: float = Field(description="Seconds since 1970.")
    deadline: float = Field(description="Seconds since 1970.")


class ListWaitsParams(Params):
    agent: Agent | None = Field(None, description="Whose; the caller's own when absent.")


class Waits(Result):
    waits: list[WaitRow] = Field(description="Those that are not over, the oldest first.")


@operation(action="work", allow=SELF)
def wait_for(call: Call, params: WaitForParams) -> Record[WaitBegun]:
    """Park the caller until tasks end, agents write, or the deadline comes; answers at once.

    Nothing is held open: the caller goes on receiving, and what ends the wait is a message with
    its `wait_id`. A word of the operator or of an ancestor, and whatever needs an answer, ends
    every wait. The wait outlives restarts of the caller and of the daemon.
    """
    agents = tuple(_seen(call, each) for each in params.agents)
    wish = WaitCondition(tuple(params.tasks), agents, params.until == "all")
    found, topics = begin(call, wish, params.deadline)
    over = found.ended is not None
    return Record(WaitBegun(wait_id=found.id, deadline=found.deadline, over=over), topics)


def _of_wait(call: Call, params: CancelWaitParams) -> str | None:
    found = call.ledger.plans.waits.get(params.wait)
    return None if found is None else called_or_none(call, found.agent)


@operation(action="work", allow=SELF | ANCESTOR | OPERATOR, whose=Whose("wait", "wait", _of_wait))
def cancel_wait(call: Call, params: CancelWaitParams) -> Record[Result]:
    """End a wait without a message. The agent itself may, an ancestor and the operator."""
    found = call.ledger.plans.waits.move(params.wait, "cancel", call.now, reason="cancelled")
    return Record(Result(), touched(call, found.agent))


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_waits(call: Call, params: ListWaitsParams) -> Waits:
    """List what an agent waits for. The agent itself may, an ancestor and the operator."""
    agent = call.uuid if params.agent is None else _party(call, params.agent)
    return Waits(waits=[_row(call, each) for each in call.ledger.plans.waits.open_waits(agent)])


def begin(
    call: Call, wish: WaitCondition, seconds: float | None = None
) -> tuple[ParkedWait, frozenset[str]]:
    """Open a wait of the caller; one whose tasks have ended already is over at once."""
    _check(call, wish, seconds)
    most = call.settings.waits
    deadline = call.now + min(seconds or most.deadline, most.deadline_most)
    waits = call.ledger.plans.waits
    found = waits.create(call.uuid, wish, call.now, deadline)
    topics = touched(call, call.uuid)
    for each in wish.tasks:
        if status := end_of(call, each).status:
            found = waits.set_task_end(found.id, each, status)
    if _enough(found):
        topics |= _over(call, found, "meet", "tasks")
    return waits.require(found.id), topics


@when(MessageArrived)
def word_came(call: Call, what: MessageArrived) -> frozenset[str]:
    """A message ends every wait that it was waited for in; it carries the id of the oldest."""
    message = what.message
    waits = call.ledger.plans.waits
    if message.kind in _NO_WORD or not waits.may_wait(message.recipient):
        return frozenset()
    ended = [each for each in waits.open_waits(message.recipient) if _ends(message, each)]
    topics = frozenset[str]()
    # The news of tasks may be replaced before it is read: it cannot carry anything.
    carried = 0 if message.kind == TASKS else 1
    for each in ended[:carried]:
        waits.move(each.id, "meet", call.now, message=message.id, reason="message")
        topics |= touched(call, message.recipient)
    for each in ended[carried:]:
        topics |= _over(call, each, "meet", "message", message.id)
    return topics


@when(TaskEnded)
def task_ended(call: Call, what: TaskEnded) -> frozenset[str]:
    """What waits for this task has it; it may be over by that."""
    topics = frozenset[str]()
    waits = call.ledger.plans.waits
    for each in waits.waits_for_task(what.id):
        status = what.status if _may_know(call, each.agent, what.id) else UNSEEN
        found = waits.set_task_end(each.id, what.id, status)
        if _enough(found):
            topics |= _over(call, found, "meet", "tasks")
    return topics


def _may_know(call: Call, waiter: str, task: str) -> bool:
    """Not one whose task was moved out of its sight meanwhile."""
    name = called_or_none(call, waiter)
    if name is None:
        return False
    return sees_task(call._replace(caller=name, uuid=waiter), call.ledger.tasks.require(task))


@when(AgentDestroyed)
def waiter_gone(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """Nobody is told: there is nobody."""
    for each in call.ledger.plans.waits.open_waits(what.uuid):
        call.ledger.plans.waits.move(each.id, "cancel", call.now, reason="gone")
    return frozenset()


@due(at=lambda ledger: ledger.plans.waits.next_deadline(), topics=frozenset({"wait"}))
def wait_deadlines(call: Call) -> Record[Result]:
    """Waits whose deadline has come."""
    topics = frozenset[str]()
    for each in call.ledger.plans.waits.overdue(call.now, _AT_ONCE):
        topics |= _over(call, each, "expire", "deadline")
    return Record(Result(), topics)


def touched(call: Call, agent: str) -> frozenset[str]:
    """Topics of a wait of this agent that began or ended; it may be blocked by that, or no more."""
    return frozenset({f"wait:{agent}"}) | update_activity(call, agent)


def _check(call: Call, wish: WaitCondition, seconds: float | None) -> None:
    most = call.settings.waits
    if seconds is not None and seconds > most.deadline_most:
        reason = f"cannot wait for {seconds:g} s: {most.deadline_most:g} s at most"
        raise InvalidArgument(reason, field="deadline")
    if len(call.ledger.plans.waits.open_waits(call.uuid)) >= most.open:
        raise LimitReached(f"cannot wait: {most.open} of your waits are not over yet")
    for each in wish.tasks:
        end_of(call, each)


def _enough(found: ParkedWait) -> bool:
    if not found.condition.tasks or found.ended is not None:
        return False
    return (
        len(found.ends) == len(found.condition.tasks) if found.condition.all else bool(found.ends)
    )


def _ends(message: Message, wait: ParkedWait) -> bool:
    if message.kind in NEEDS_ANSWER or message.relation in _ABOVE:
        return True
    if message.sender in wait.condition.agents:
        return True
    named = wait.condition.tasks or wait.condition.agents
    return not named and message.relation in _BELOW


def _over(call: Call, wait: ParkedWait, event: str, why: str, message: str = "") -> frozenset[str]:
    """End it, and say so in a message of the daemon's that carries its id."""
    head: dict[str, object] = {"wait_id": wait.id, "reason": why, "tasks": dict(wait.ends)}
    if message:
        head["message"] = message
    waits = call.ledger.plans.waits
    name = display_name(call, wait.agent)
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=wait.agent, recipient_name=name,
        relation=Relation.DAEMON, body=f"{json.dumps(head)}\n{_words(call, wait, why)}",
        kind=WAIT_OVER, priority=1,
    )  # fmt: skip
    try:
        told, topics = post(call, letter)
    except InboxFull:  # it is over all the same; `list_waits` shows it no more
        waits.move(wait.id, event, call.now, reason=why)
        return touched(call, wait.agent) | {inbox(wait.agent)}
    waits.move(wait.id, event, call.now, message=told.id, reason=why)
    return touched(call, wait.agent) | topics


def _words(call: Call, wait: ParkedWait, why: str) -> str:
    ends = dict(wait.ends)
    lines = [f"- task {each}: {ends.get(each) or 'not ended'}" for each in wait.condition.tasks]
    lines += [f"- {display_name(call, each)}: did not write" for each in wait.condition.agents]
    first = {
        "tasks": "What you waited for has ended.",
        "deadline": "The deadline of your wait has come; nothing else has changed.",
        "message": "A message that you got ends this wait too.",
    }[why]
    return "\n".join([first, *(lines if why != "message" else [])])


def called_or_none(call: Call, party: str) -> str | None:
    """Name of a living agent, or `operator`."""
    return THE_OPERATOR if party == THE_OPERATOR else call.hive.name(party)


def _seen(call: Call, name: str) -> str:
    """A party that the caller may know of; of others it does not learn that they exist."""
    if name != THE_OPERATOR and not is_visible(call.hive, call.caller, name):
        raise NotFound(f"no such agent: {name}", agent=name)
    return _party(call, name)


def _party(call: Call, name: str) -> str:
    return THE_OPERATOR if name == THE_OPERATOR else call.hive.spec(name).id


def _row(call: Call, each: ParkedWait) -> WaitRow:
    return WaitRow(
        id=each.id, agent=display_name(call, each.agent), tasks=list(each.condition.tasks),
        agents=[display_name(call, uuid) for uuid in each.condition.agents],
        until="all" if each.condition.all else "any", state=each.state, created=each.created,
        deadline=each.deadline,
    )  # fmt: skip
