"""A clock that a test advances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

TIME = 1_700_000_000.0


@dataclass
class ManualClock:
    """A clock that stands still until `advance` is called."""

    time: float = TIME
    steady: float = 1000.0
    off: float = 0.0
    _timers: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _serial: count[int] = field(default_factory=count)
    _cancelled: set[int] = field(default_factory=set)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.steady

    def pending_jump(self) -> float:
        return self.off

    def follow(self) -> None:
        self.time, self.off = self.time + self.off, 0.0

    def set(self, seconds: float) -> None:
        """Set the wall clock by so many seconds, as an operator would."""
        self.off += seconds

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        serial = next(self._serial)
        heappush(self._timers, (when, serial, callback))
        return lambda: self._cancelled.add(serial)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers run in order, each at its own time."""
        until = self.steady + seconds
        while self._timers and self._timers[0][0] <= until:
            when, serial, callback = heappop(self._timers)
            self._pass(max(0.0, when - self.steady))
            if serial not in self._cancelled:
                callback()
        self._pass(until - self.steady)

    def _pass(self, seconds: float) -> None:
        self.steady += seconds
        self.time += seconds
