"""Named queues, pipes, and their items. Values only; `ledger/` stores them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

# Relations of an agent to the owner of a queue, as words.
WORDS: Final = ("children", "subtree", "siblings", "parent")
_ID: Final = re.compile(r"q([0-9a-f]{13,15})")


@dataclass(frozen=True, slots=True)
class QueueAccess:
    """The agents that may use a queue: by relation, and by UUID."""

    words: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


class Queue(NamedTuple):
    """One queue. `things` and `bytes` count its items."""

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
    """One item of a queue."""

    id: int
    sender: str
    sender_name: str
    kind: str
    priority: int
    put_at: float
    body: str
    attempt: int = 0


class Pipe(NamedTuple):
    """A two-way pipe of a parent and its child. `closed`: the party that closed it, or empty."""

    number: int
    id: str
    parent: str
    child: str
    opened: float
    closed: str

    def other(self, party: str) -> str:
        return self.child if party == self.parent else self.parent


def queue_item_id(number: int) -> str:
    """The id of an item on the wire; no message has such an id."""
    return f"q{number:013x}"


def queue_item_number(text: str) -> int | None:
    match = _ID.fullmatch(text)
    return int(match[1], 16) if match else None
