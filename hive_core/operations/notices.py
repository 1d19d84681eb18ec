"""What the daemon itself tells agents, in their inboxes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TypedDict, Unpack

from hive_core.broker.call import Call
from hive_core.broker.hooks import Arrived, happened
from hive_core.errors import InboxFull
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON, OPERATOR, Message, Relation

ADOPTED, MOVED, RESTORED, CONFIG = "adopted", "moved", "restored", "config"
TOPIC = "topic"
PRIORITY = 1


class More(TypedDict, total=False):
    """What a notice may have beside its kind and its text."""

    priority: int
    thread: str


def tell(
    call: Call, hive: Hive, name: str, kind: str, body: str, **more: Unpack[More]
) -> frozenset[str]:
    """Put a message into the inbox of an agent of `hive`, or of the operator; topics to touch."""
    uuid = OPERATOR if name == OPERATOR else hive.spec(name).id
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=uuid, recipient_name=name,
        relation=Relation.DAEMON, body=body, kind=kind,
        priority=more.get("priority", PRIORITY), thread=more.get("thread"),
    )  # fmt: skip
    # Who does not read its mail, twice over, misses this; it must not stop others.
    with suppress(InboxFull):
        return post(call, letter)[1]
    return frozenset({inbox(uuid)})


def post(call: Call, letter: NewMessage) -> tuple[Message, frozenset[str]]:
    """The one way on which mail comes to somebody, with all that follows; topics to touch."""
    message = call.ledger.messages.send(letter, call.now)
    return message, frozenset({inbox(message.recipient)}) | happened(call, Arrived(message))


def inbox(party: str) -> str:
    """The topic of a party's mail."""
    return f"inbox:{party}"


def senders(dead: Iterable[Message]) -> frozenset[str]:
    """Topics of those whom the ledger told about their dead letters."""
    return frozenset(inbox(message.sender) for message in dead)
