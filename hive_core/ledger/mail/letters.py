"""Conversion of messages between values and table rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from hive_core.model.wire.record import Message, Relation

# The kind of the copies that the daemon sends to a parent.
COPY: Final = "copy"
_ID: Final = re.compile(r"[0-9a-f]{13,15}")

# Column order of `message`. q is the place in the queue, m the message, s and r the parties.
COLUMNS: Final = (
    "m.id, s.party, s.name, r.party, r.name, m.relation, m.body, m.kind, m.thread, m.reply_to,"
    " m.priority, m.sent_at, m.expires_at, m.source, m.hops, q.attempt, q.why"
)


@dataclass(slots=True, eq=False)
class NewMessage:
    """A message to be sent. Parties are UUIDs; `ttl` is in seconds."""

    sender: str
    sender_name: str
    recipient: str
    recipient_name: str
    relation: Relation
    body: str
    kind: str = "message"
    priority: int = 2
    thread: str | None = None
    reply_to: str | None = None
    ttl: float | None = None
    # Seconds in which the sender waits for an answer
    reply_within: float | None = None
    source: str | None = None
    hops: int = 0


def text_id(number: int) -> str:
    """An id in its wire format. Ids and their texts sort by time."""
    return f"{number:013x}"


def number(text: str) -> int | None:
    """The number of an id; None if the text is not an id."""
    return int(text, 16) if _ID.fullmatch(text) else None


def message(row: tuple[Any, ...]) -> Message:
    """The value of one row of COLUMNS."""
    id_, reply_to = text_id(row[0]), row[9]
    return Message(
        id=id_, sender=row[1], sender_name=row[2], recipient=row[3], recipient_name=row[4],
        relation=Relation(row[5]), body=row[6], kind=row[7], thread=row[8] or id_,
        reply_to=None if reply_to is None else text_id(reply_to), priority=row[10],
        sent_at=row[11], expires_at=row[12], source=row[13], hops=row[14],
        attempt=row[15] or 0, dead_why=row[16],
    )  # fmt: skip
