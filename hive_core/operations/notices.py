"""What the daemon itself tells agents, in their inboxes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from hive_core.broker.call import Call
from hive_core.errors import InboxFull
from hive_core.ledger.letters import NewMessage
from hive_core.model.hive import Hive
from hive_core.model.record import DAEMON, Message, Relation

ADOPTED, MOVED, RESTORED, CONFIG = "adopted", "moved", "restored", "config"
PRIORITY = 1


def tell(call: Call, hive: Hive, name: str, kind: str, body: str) -> str:
    """Put a message into the inbox of an agent of `hive`; gives the topic to touch."""
    uuid = hive.spec(name).id
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=uuid, recipient_name=name,
        relation=Relation.DAEMON, body=body, kind=kind, priority=PRIORITY,
    )  # fmt: skip
    # Who does not read its mail, twice over, misses this; it must not stop others.
    with suppress(InboxFull):
        call.ledger.messages.send(letter, call.now)
    return inbox(uuid)


def inbox(party: str) -> str:
    """The topic of a party's mail."""
    return f"inbox:{party}"


def senders(dead: Iterable[Message]) -> frozenset[str]:
    """Topics of those whom the ledger told about their dead letters."""
    return frozenset(inbox(message.sender) for message in dead)
