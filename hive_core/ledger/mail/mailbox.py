"""One inbox in memory, and the states of a message in it."""

from __future__ import annotations

from enum import IntEnum
from math import inf
from typing import Final, NamedTuple

# Rank, id and size of a message
Waiting = tuple[int, int, int]


class MessageState(IntEnum):
    """The state of a message. HELD: delivered by an earlier daemon, and not acked."""

    READY = 0
    LEASED = 1
    HELD = 2
    DEAD = 3
    DONE = 4


LIVE: Final = (MessageState.READY, MessageState.LEASED, MessageState.HELD)


class InboxPlace(NamedTuple):
    """One row of the queue."""

    inbox: int
    state: int
    rank: int
    id: int
    size: int
    attempt: int
    expires: float | None = None


class InboxTally:
    """A number of messages, and their bytes."""

    __slots__ = ("bytes", "count")

    def __init__(self) -> None:
        self.count = self.bytes = 0

    def add(self, count: int, size: int) -> None:
        self.count += count
        self.bytes += size


class Box:
    """One inbox, including changes of the open transaction."""

    __slots__ = (
        "closed", "dead", "done", "due", "fresh", "held", "last_death", "live", "name", "number",
        "ranks",
    )  # fmt: skip

    def __init__(self, number: int, name: str, closed: int) -> None:
        self.number, self.name, self.closed = number, name, closed
        self.live, self.dead, self.done = InboxTally(), InboxTally(), InboxTally()
        # Messages without a place in the queue
        self.fresh: list[Waiting] = []
        # The priorities that messages of this inbox may have
        self.ranks: tuple[int, ...] = ()
        # A lower bound for the end of the next lease or time to live
        self.due = inf
        # Whether mail that an earlier daemon delivered may exist
        self.held = False
        # The number of the last one that became a dead letter; 0: of none that is known
        self.last_death = 0

    def may_hold(self, rank: int) -> None:
        """Record that mail of this priority came in."""
        self.ranks = tuple(sorted({*self.ranks, rank}))

    def tally(self, state: int) -> InboxTally:
        """The tally of messages in this state."""
        return {MessageState.DEAD.value: self.dead, MessageState.DONE.value: self.done}.get(
            state, self.live
        )
