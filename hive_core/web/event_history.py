"""The newest facts that events of the audit log tell, without a gap. Pure.

A history grows with each event that comes, and to older ones when a page asks for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

Event = Mapping[str, object]
FACTS_MOST: Final = 20_000


class DatedFact(Protocol):
    """What an event tells: its number and its time come with it."""

    @property
    def seq(self) -> int: ...

    @property
    def time(self) -> float: ...


F = TypeVar("F", bound=DatedFact)


@dataclass(slots=True)
class EventHistory(ABC, Generic[F]):
    """`first`: all events from this number on are here; `first_time`: when the oldest one was."""

    facts: deque[F] = field(default_factory=deque)
    first: int | None = None
    first_time: float | None = None
    newest: int = 0

    @abstractmethod
    def read(self, event: Event) -> Iterator[F]:
        """The facts of one event."""

    def take(self, events: Sequence[Event], *, is_adjacent: bool = True) -> bool:
        """Add newer events; whether one of them tells a fact. Not adjacent: begin anew."""
        fresh = [event for event in events if event_seq(event) > self.newest]
        if not fresh:
            return False
        if self.first is None or not (is_adjacent or event_seq(fresh[0]) == self.newest + 1):
            self.facts.clear()
            self.first, self.first_time = event_seq(fresh[0]), _event_time(fresh[0])
        self.newest = event_seq(fresh[-1])
        facts = [fact for event in fresh for fact in self.read(event)]
        self.facts.extend(facts)
        while len(self.facts) > FACTS_MOST:
            left_out = self.facts.popleft()
            self.first, self.first_time = left_out.seq + 1, left_out.time
        return bool(facts)

    def prepend(self, events: Sequence[Event], first: int) -> None:
        """Add the events before those that are here, the newest first."""
        for event in events:
            self.facts.extendleft(reversed(list(self.read(event))))
            self.first_time = _event_time(event)
        self.first = first

    def reaches(self, start: float) -> bool:
        """Whether no older event has to be read for what happened from then on."""
        if self.first is not None and self.first <= 1:
            return True
        return bool(self.facts) and self.facts[0].time < start

    @property
    def version(self) -> tuple[int | None, int, int]:
        """Another one where another fact is here."""
        return self.first, len(self.facts), self.facts[-1].seq if self.facts else 0

    @property
    def is_full(self) -> bool:
        return len(self.facts) >= FACTS_MOST

    @property
    def oldest(self) -> float | None:
        """The time of the oldest fact; None where there is none."""
        return self.facts[0].time if self.facts else None


def _event_time(event: Event) -> float | None:
    time = event.get("time")
    return time if isinstance(time, int | float) else None


def event_seq(event: Event) -> int:
    """The number of an event."""
    seq = event.get("seq")
    return seq if isinstance(seq, int) else 0
