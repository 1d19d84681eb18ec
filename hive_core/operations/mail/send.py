"""Mail on its way out: to others, and to oneself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.ledger.mail.letters import COPY, NewMessage
from hive_core.model.wire.record import OPERATOR, Message, Relation
from hive_core.model.work.budget import BudgetKind as Counted
from hive_core.operations.budgets.spending import charge_one
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.mail.inbox_quota import BODY_MOST, check_share
from hive_core.operations.mail.sibling_copies import copy_to_parent
from hive_core.operations.notices import TOPIC, deliver
from hive_core.policy.decide import relation
from hive_core.policy.rules import ROUTE, SELF

TTL_MOST = 30 * 86_400.0
PRIORITY = 2
REPLY_MOST = 300.0
# Kinds of messages that only the daemon makes, of a `send` or a `publish`.
RESERVED = frozenset({COPY, TOPIC})

# How urgent mail can be at most, by what the sender is to the recipient (row K18).
_MOST_URGENT = {
    Relation.OPERATOR: 0, Relation.DAEMON: 0,
    Relation.PARENT: 1, Relation.ANCESTOR: 1, Relation.SELF: 1,
}  # fmt: skip

Body = Annotated[str, bounded_text(BODY_MOST)]
Kind = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]


class SendParams(Mutation):
    to: Agent = Field(description="Name of an agent, or `operator`.")
    body: Body = Field(description="Text, at most 64 KiB.")
    kind: Kind = Field("message", description="A word for programs to tell messages apart.")
    thread: str | None = Field(
        None, min_length=1, max_length=128, pattern=r"^[!-~]+$",
        description="The conversation that it belongs to; the sender is part of it or begins it.",
    )  # fmt: skip
    reply_to: str | None = Field(
        None, min_length=1, max_length=64,
        description="The message it answers, which its recipient sent or received.",
    )  # fmt: skip
    priority: int = Field(
        PRIORITY, ge=0, le=3,
        description="0 (critical) to 3 (low). The operator may say 0; a parent, an ancestor and the"
        " caller itself 1; all others 2 at most, and what is more urgent becomes that.",
    )  # fmt: skip
    ttl: float | None = Field(
        None, gt=0, le=TTL_MOST, description="Seconds after which it is a dead letter."
    )
    reply_within: float | None = Field(
        None, ge=1, le=REPLY_MOST,
        description="Seconds in which an answer is kept for `wait_reply`; `recv` gives it later.",
    )  # fmt: skip


class WakeParams(Mutation):
    body: Body = Field(description="Text, at most 64 KiB.")
    source: str | None = Field(
        None, max_length=32, pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="A label of at most 32 characters of ASCII: what in the container caused it. It"
        " is shown beside `self` and gives no rights.",
    )  # fmt: skip


class Sent(Result):
    id: str = Field(description="The message; never used again.")
    thread: str = Field(description="The conversation: an answer has the same.")
    priority: int = Field(description="What it got, at most as urgent as the sender may be.")


def _reply(call: Call, params: SendParams) -> frozenset[str]:
    """Whether the caller answers a message that this recipient sent to it.

    By UUID: a new agent with an old name is not the one that wrote (attack 40).
    """
    if params.reply_to is None:
        return frozenset()
    message = call.ledger.messages.get(params.reply_to)
    answers = (
        message is not None
        and message.recipient == call.uuid
        and message.sender == _party_uuid(call, params.to)
    )
    return frozenset({"reply"}) if answers else frozenset()


@operation(action="send", allow=ROUTE, target="to", preposition="to", facts=_reply)
def send(call: Call, params: SendParams) -> Record[Sent]:
    """Put a message into an inbox, where it stays until it is acked.

    It may go to the parent, to siblings under the same parent, to the caller itself, to its
    descendants, to `operator` and to agents on the caller's allow-list; a reply always to the
    sender of what it answers. An agent that does not run finds it when it does.
    """
    recipient = _party_uuid(call, params.to)
    if recipient is None:
        raise InvalidArgument("say to whom", field="to")
    if params.kind in RESERVED:
        raise InvalidArgument(f"{params.kind} is a word of the daemon", field="kind")
    if params.reply_to is not None:
        _check_answer(call, params, params.reply_to, recipient)
    _check_rate(call, recipient, params.to)
    check_share(call, recipient, params.to)
    if Counted.MESSAGES in call.ledger.budgets.kinds:  # who fails after a change costs all others
        call.ledger.messages.check_room(recipient, params.body)
    charge_one(call, call.uuid, Counted.MESSAGES)
    standing = relation(call.hive, call.caller, params.to)
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=recipient, recipient_name=params.to,
        relation=standing, body=params.body, kind=params.kind,
        priority=urgency(params.priority, standing), thread=params.thread,
        reply_to=params.reply_to, ttl=params.ttl, reply_within=params.reply_within,
    )  # fmt: skip
    message = deliver(call, letter)
    if standing is Relation.SIBLING:
        copy_to_parent(call, message)
    return _sent_record(message)


@operation(action="send", allow=SELF)
def wake(call: Call, params: WakeParams) -> Record[Sent]:
    """Put a message into the caller's own inbox, always labelled `self`.

    A process beside the agent (a watcher of files, of a forge) says by `source` what it is.
    """
    _check_rate(call, call.uuid, call.caller)
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=call.uuid, recipient_name=call.caller,
        relation=Relation.SELF, body=params.body, kind="wake", priority=PRIORITY,
        source=params.source,
    )  # fmt: skip
    return _sent_record(deliver(call, letter))


def urgency(wanted: int, standing: Relation) -> int:
    """The priority that mail gets, by what its sender is to the recipient."""
    return wanted if wanted >= PRIORITY else max(wanted, _MOST_URGENT.get(standing, PRIORITY))


def _sent_record(message: Message) -> Record[Sent]:
    return Record(Sent(id=message.id, thread=message.thread, priority=message.priority))


def _party_uuid(call: Call, name: str) -> str | None:
    if name == OPERATOR:
        return OPERATOR
    spec = call.hive.specs.get(name)
    return None if spec is None else spec.id


def _check_answer(call: Call, params: SendParams, reply_to: str, recipient: str) -> None:
    """A reply goes to a party of the message only: to no third agent, and no successor of a name.

    A message that is not the caller's is unknown to it; the ledger says so.
    """
    message = call.ledger.messages.get(reply_to)
    parties = () if message is None else (message.sender, message.recipient)
    if call.uuid in parties and recipient not in parties:
        reason = f"cannot reply to {params.to}: that message was neither from nor to it"
        raise InvalidArgument(reason, field="reply_to")


def _check_rate(call: Call, recipient: str, name: str) -> None:
    if call.uuid == OPERATOR:
        return
    after = call.ledger.sends.take((call.uuid, recipient), call.now)
    if after > 0:
        reason = f"cannot send to {name}: too many messages, try again in {after:.2f} s"
        raise LimitReached(reason, retry_after=after)
