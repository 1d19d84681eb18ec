"""Mail on its way out: to others, and to oneself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.ledger.letters import NewMessage
from hive_core.model.record import OPERATOR, Relation
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.notices import post
from hive_core.operations.share import check_share
from hive_core.policy.decide import relation
from hive_core.policy.rules import ROUTE, SELF

BODY_MOST = 64 * 1024
TTL_MOST = 30 * 86_400.0
PRIORITY = 2

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
    priority: int = Field(PRIORITY, ge=0, le=3, description="0 (critical) to 3 (low).")
    ttl: float | None = Field(
        None, gt=0, le=TTL_MOST, description="Seconds after which it is a dead letter."
    )


class WakeParams(Mutation):
    body: Body = Field(description="Text, at most 64 KiB.")


class Sent(Result):
    id: str = Field(description="The message; never used again.")


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
        and message.sender == _uuid(call, params.to)
    )
    return frozenset({"reply"}) if answers else frozenset()


@operation(allow=ROUTE, target="to", preposition="to", facts=_reply)
def send(call: Call, params: SendParams) -> Record[Sent]:
    """Put a message into someone's inbox, where it stays until it is acked.

    It may go to the parent, to siblings under the same parent, to the caller itself, to its
    descendants, to `operator` and to agents on the caller's allow-list; a reply always to the
    sender of what it answers. An agent that does not run finds it when it does.
    """
    recipient = _uuid(call, params.to)
    if recipient is None:
        raise InvalidArgument("say to whom", field="to")
    _check_answer(call, params, recipient)
    _check_rate(call, recipient, params.to)
    check_share(call, recipient, params.to)
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=recipient, recipient_name=params.to,
        relation=relation(call.hive, call.caller, params.to), body=params.body, kind=params.kind,
        priority=params.priority, thread=params.thread, reply_to=params.reply_to, ttl=params.ttl,
    )  # fmt: skip
    message, topics = post(call, letter)
    return Record(Sent(id=message.id), wakes=topics)


@operation(allow=SELF)
def wake(call: Call, params: WakeParams) -> Record[Sent]:
    """Put a message into the caller's own inbox, always labelled `self`."""
    _check_rate(call, call.uuid, call.caller)
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=call.uuid, recipient_name=call.caller,
        relation=Relation.SELF, body=params.body, kind="wake", priority=PRIORITY,
    )  # fmt: skip
    message, topics = post(call, letter)
    return Record(Sent(id=message.id), wakes=topics)


def _uuid(call: Call, name: str) -> str | None:
    if name == OPERATOR:
        return OPERATOR
    spec = call.hive.specs.get(name)
    return None if spec is None else spec.id


def _check_answer(call: Call, params: SendParams, recipient: str) -> None:
    """An answer goes to who is part of it: no third one reads along, and no successor of a name.

    A message that is not the caller's is unknown to it; the ledger says so.
    """
    if params.reply_to is None:
        return
    message = call.ledger.messages.get(params.reply_to)
    parties = () if message is None else (message.sender, message.recipient)
    if call.uuid in parties and recipient not in parties:
        reason = f"cannot reply to {params.to}: that message was neither from nor to it"
        raise InvalidArgument(reason, field="reply_to")


def _check_rate(call: Call, recipient: str, name: str) -> None:
    if call.by_operator:
        return
    after = call.ledger.sends.take((call.uuid, recipient), call.now)
    if after > 0:
        reason = f"cannot send to {name}: too many messages, try again in {after:.2f} s"
        raise LimitReached(reason, retry_after=after)
