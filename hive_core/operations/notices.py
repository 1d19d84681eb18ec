"""Notices: messages of the daemon in the inboxes of agents."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TypedDict, Unpack

from hive_core.broker.call import Call
from hive_core.broker.hooks import MessageArrived, emit
from hive_core.errors import InboxFull
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON, OPERATOR, Message, Relation

ADOPTED, MOVED, RESTORED, CONFIG = "adopted", "moved", "restored", "config"
TOPIC = "topic"
PRIORITY = 1


class More(TypedDict, total=False):
    """Optional properties of a notice, beside its kind and its text."""

    priority: int
    thread: str
    hops: int


def send_notice(
    call: Call, hive: Hive, name: str, kind: str, body: str, **more: Unpack[More]
) -> None:
    """Put a message from the daemon into the inbox of an agent of `hive`, or of the operator.

    A recipient whose inbox holds twice its limit does not get it, so that it cannot stop others.
    """
    uuid = OPERATOR if name == OPERATOR else hive.spec(name).id
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=uuid, recipient_name=name,
        relation=Relation.DAEMON, body=body, kind=kind,
        priority=more.get("priority", PRIORITY), thread=more.get("thread"),
    )  # fmt: skip
    with suppress(InboxFull):
        deliver(call, letter)


def deliver(call: Call, letter: NewMessage) -> Message:
    """Put a message into an inbox and emit `Arrived`; mail arrives in no other way."""
    message = call.ledger.messages.send(letter, call.now)
    call.notify(inbox(message.recipient))
    emit(call, MessageArrived(message))
    return message


def inbox(party: str) -> str:
    """The topic of a party's mail."""
    return f"inbox:{party}"


def senders(dead: Iterable[Message]) -> frozenset[str]:
    """Inbox topics of the senders that the ledger told about dead letters."""
    return frozenset(inbox(message.sender) for message in dead)
