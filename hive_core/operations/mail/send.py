"""Outgoing mail: to other parties, and to the caller itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result, operation
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.ledger.mail.letters import COPY, NewMessage
from hive_core.model.agents.subagent import address, split_address
from hive_core.model.wire.record import OPERATOR, Relation
from hive_core.operations.budgets.spending import charge_message
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.mail.hops import HOPS_MOST, InTurn, hops_of_turn, next_hops
from hive_core.operations.mail.inbox_quota import BODY_MOST, check_share
from hive_core.operations.mail.sibling_copies import copy_to_parent
from hive_core.operations.notices import TOPIC, deliver
from hive_core.policy.decide import relation
from hive_core.policy.rules import ROUTE, SELF

TTL_MOST = 30 * 86_400.0
PRIORITY = 2
REPLY_MOST = 300.0
# Kinds that a `send` may not use: the daemon makes such messages of a `send` or a `publish`.
RESERVED = frozenset({COPY, TOPIC})

# The most urgent priority of mail, by the relation of the sender to the recipient (row K18).
_MOST_URGENT = {
    Relation.OPERATOR: 0, Relation.DAEMON: 0,
    Relation.PARENT: 1, Relation.ANCESTOR: 1, Relation.SELF: 1,
}  # fmt: skip

Body = Annotated[str, bounded_text(BODY_MOST)]
Kind = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]


class SendParams(InTurn):
    to: Agent = Field(description="Name of an agent, or `operator`.")
    body: Body = Field(description="Text, at most 64 KiB.")
    kind: Kind = Field("message", description="Kind of the message, for programs.")
    thread: str | None = Field(
        None, min_length=1, max_length=128, pattern=r"^[!-~]+$",
        description="The conversation that it belongs to: one that the sender takes part in, or a"
        " new one.",
    )  # fmt: skip
    reply_to: str | None = Field(
        None, min_length=1, max_length=64,
        description="Id of the message that it answers; its recipient sent or received that"
        " message.",
    )  # fmt: skip
    priority: int = Field(
        PRIORITY, ge=0, le=3,
        description="0 (critical) to 3 (low). The operator may set 0; a parent, an ancestor and"
        " the caller itself 1; all others 2. A more urgent value is reduced to that.",
    )  # fmt: skip
    ttl: float | None = Field(
        None,
        gt=0,
        le=TTL_MOST,
        description="Seconds after which an undelivered message becomes a dead letter.",
    )
    reply_within: float | None = Field(
        None, ge=1, le=REPLY_MOST,
        description="Seconds for which an answer is reserved for `wait_reply`; `recv` delivers it"
        " only later.",
    )  # fmt: skip


class WakeParams(InTurn):
    body: Body = Field(description="Text, at most 64 KiB.")
    source: str | None = Field(
        None, max_length=32, pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="Label of at most 32 ASCII characters that names the cause in the container."
        " It is shown beside `self` and gives no rights.",
    )  # fmt: skip


class Sent(Result):
    id: str = Field(description="Id of the message; never used again.")
    thread: str = Field(description="Id of the conversation; an answer has the same.")
    priority: int = Field(
        description="Priority that it got, at most as urgent as the sender may set."
    )


def _reply(call: Call, params: SendParams) -> frozenset[str]:
    """Whether the caller answers a message that this recipient sent to it.

    By UUID: a new agent with an old name is not the one that wrote (attack 40).
    """
    if params.reply_to is None:
        return frozenset()
    message = call.ledger.messages.get(params.reply_to)
    answers = (
        message is not None
        and message.recipient == call.party
        and message.sender == _party_uuid(call, params.to)
    )
    return frozenset({"reply"}) if answers else frozenset()


@operation(action="send", allow=ROUTE, target="to", preposition="to", facts=_reply)
def send(call: Call, params: SendParams) -> Record[Sent]:
    """Send a message to an inbox, where it stays until the recipient acks it.

    Allowed recipients are the parent, siblings under the same parent, the caller itself, its
    descendants, `operator` and the agents on the caller's allow-list; a reply may always go to the
    sender of the message that it answers. An agent that does not run receives it when it runs
    again.
    """
    return send_letter(call, params)


def send_letter(call: Call, params: SendParams, source: str | None = None) -> Record[Sent]:
    """Send what `params` say; `source` is the daemon's word about the cause."""
    spec = call.hive.specs.get(params.to)
    recipient = spec.id if spec is not None else _party_uuid(call, params.to)
    if recipient is None:
        raise InvalidArgument("name the recipient", field="to")
    if params.kind in RESERVED:
        raise InvalidArgument(f"kind {params.kind} is reserved for the daemon", field="kind")
    if params.reply_to is not None:
        _check_answer(call, params, params.reply_to, recipient)
    hops, in_turn_of, reply_to = 0, params.in_turn_of, params.reply_to
    if in_turn_of or reply_to or call.uuid in call.ledger.messages.receivers:
        hops = next_hops(call, f"send to {params.to}", in_turn_of, reply_to)
    _check_rate(call, recipient, params.to)
    check_share(call, recipient, params.to)
    charge_message(call, recipient, params.body)
    is_inside = call.sub is not None or "/" in params.to  # among an agent and its sub-agents
    standing = _relation_inside(call, params.to) if is_inside else (
        relation(call.hive, call.caller, params.to)
    )  # fmt: skip
    sender, name = (call.party, call.address) if is_inside else (call.uuid, call.caller)
    letter = NewMessage(
        sender, name, recipient, params.to, standing, params.body, params.kind,
        urgency(params.priority, standing), params.thread, params.reply_to, params.ttl,
        params.reply_within, source, hops,
    )  # fmt: skip
    message = deliver(call, letter)
    if standing is Relation.SIBLING:
        copy_to_parent(call, message)
    return Record(Sent(id=message.id, thread=message.thread, priority=message.priority))


@operation(action="send", allow=SELF)
def wake(call: Call, params: WakeParams) -> Record[Sent]:
    """Send a message to the caller's own inbox, always labelled `self`.

    A process beside the agent (such as a file watcher) names itself with `source`.
    """
    _check_rate(call, call.uuid, call.caller)
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=call.uuid, recipient_name=call.caller,
        relation=Relation.SELF, body=params.body, kind="wake", priority=PRIORITY,
        source=params.source, hops=min(hops_of_turn(call, params.in_turn_of) or 0, HOPS_MOST),
    )  # fmt: skip
    message = deliver(call, letter)
    return Record(Sent(id=message.id, thread=message.thread, priority=message.priority))


def urgency(wanted: int, standing: Relation) -> int:
    """The priority that mail gets, by the relation of its sender to the recipient."""
    return wanted if wanted >= PRIORITY else max(wanted, _MOST_URGENT.get(standing, PRIORITY))


def _party_uuid(call: Call, name: str) -> str | None:
    if name == OPERATOR:
        return OPERATOR
    spec = call.hive.specs.get(name)
    if spec is not None:
        return spec.id
    agent, sub = split_address(name) if "/" in name else ("", "")
    return address(call.uuid, sub) if sub and agent == call.caller else None


def _relation_inside(call: Call, name: str) -> Relation:
    """What a sub-agent is to its parent, or a parent to its sub-agent."""
    to_parent = call.sub is not None and split_address(name)[1] == call.sub.opener
    return Relation.SUBAGENT if to_parent else Relation.PARENT


def _check_answer(call: Call, params: SendParams, reply_to: str, recipient: str) -> None:
    """Refuse a reply to an agent that is not a party of the message.

    A new agent with an old name is not a party either. The ledger answers a message that is not the
    caller's as unknown.
    """
    message = call.ledger.messages.get(reply_to)
    parties = () if message is None else (message.sender, message.recipient)
    if call.party in parties and recipient not in parties:
        reason = f"cannot reply to {params.to}: that message was neither from nor to it"
        raise InvalidArgument(reason, field="reply_to")


def _check_rate(call: Call, recipient: str, name: str) -> None:
    if call.uuid == OPERATOR:
        return
    after = call.ledger.sends.take((call.uuid, recipient), call.now)
    if after > 0:
        reason = f"cannot send to {name}: too many messages, try again in {after:.2f} s"
        raise LimitReached(reason, retry_after=after)
