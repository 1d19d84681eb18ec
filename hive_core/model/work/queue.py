"""Named queues, pipes, and what is in them. Values only; `ledger/` stores them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

# Who an agent may be to the owner of a queue, by a word.
WORDS: Final = ("children", "subtree", "siblings", "parent")
_ID: Final = re.compile(r"q([0-9a-f]{13,15})")


@dataclass(frozen=True, slots=True)
class QueueAccess:
    """Whom the owner of a queue lets: by words, and by name as UUIDs."""

    words: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


class Queue(NamedTuple):
    """One queue. `things` and `bytes` count all that is in it."""

    number: int
    owner: str
    name: str
    may_put: QueueAccess
    may_take: QueueAccess
    most: int
    opened: float
    things: int
    bytes: int


class QueueItem(NamedTuple):
    """One thing that was put into a queue."""

    id: int
    sender: str
    sender_name: str
    kind: str
    priority: int
    put_at: float
    body: str
    attempt: int = 0


class Pipe(NamedTuple):
    """Between a parent and its child, both ways; `closed` is who closed it, or empty."""

    number: int
    id: str
    parent: str
    child: str
    opened: float
    closed: str

    def other(self, party: str) -> str:
        return self.child if party == self.parent else self.parent


def queue_item_id(number: int) -> str:
    """The id of a thing as it goes over the wire: no message has one like it."""
    return f"q{number:013x}"


def queue_item_number(text: str) -> int | None:
    found = _ID.fullmatch(text)
    return int(found[1], 16) if found else None
