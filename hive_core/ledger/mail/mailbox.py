"""One mailbox in memory, and the words for where a message stands in it."""

from __future__ import annotations

from enum import IntEnum
from math import inf
from typing import Final, NamedTuple

# Rank, id and size of a message.
Waiting = tuple[int, int, int]


class MessageState(IntEnum):
    """Where a message stands. HELD: given out by an earlier daemon."""

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
    """So many messages of so many bytes."""

    __slots__ = ("bytes", "count")

    def __init__(self) -> None:
        self.count = self.bytes = 0

    def add(self, count: int, size: int) -> None:
        self.count += count
        self.bytes += size


class Box:
    """One mailbox as it is now, with what the open transaction did to it."""

    __slots__ = (
        "closed", "dead", "done", "due", "fresh", "held", "live", "name", "number", "ranks",
    )  # fmt: skip

    def __init__(self, number: int, name: str, closed: int) -> None:
        self.number, self.name, self.closed = number, name, closed
        self.live, self.dead, self.done = InboxTally(), InboxTally(), InboxTally()
        # Those without a place.
        self.fresh: list[Waiting] = []
        # The priorities that mail of this box may have.
        self.ranks: tuple[int, ...] = ()
        # No lease or life ends before this; it may be too early.
        self.due = inf
        # Whether there may be mail that an earlier daemon gave out.
        self.held = False

    def may_hold(self, rank: int) -> None:
        """Mail of this priority came in."""
        self.ranks = tuple(sorted({*self.ranks, rank}))

    def tally(self, state: int) -> InboxTally:
        """What counts those that stand there."""
        return {MessageState.DEAD.value: self.dead, MessageState.DONE.value: self.done}.get(
            state, self.live
        )
