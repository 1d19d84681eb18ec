"""Counts of the last minute or hour: sliding windows of bounded size.

The window of a minute is in memory, and a restart resets it; that of an hour is a stored value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

SPAN: Final = 60
MINUTES: Final = 60


class MinuteWindow:
    """One count for each second.

    The current second and the 60 before it are in the sum, so that no 60 seconds exceed the bound.
    """

    __slots__ = ("_at", "_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * (SPAN + 1)
        self._at = 0
        self.total = 0

    def roll(self, second: int) -> None:
        """Forget what is older; a clock that was set back forgets nothing."""
        gone = second - self._at
        if gone <= 0:
            return
        for past in range(self._at + 1, self._at + 1 + min(gone, SPAN + 1)):
            place = past % (SPAN + 1)
            self.total -= self._counts[place]
            self._counts[place] = 0
        self._at = second

    def add(self) -> int:
        """Count one in the newest second; returns its place, for `take_back`."""
        place = self._at % (SPAN + 1)
        self._counts[place] += 1
        self.total += 1
        return place

    def take_back(self, place: int) -> None:
        """Remove one that was counted: its call will be repeated."""
        if self._counts[place]:
            self._counts[place] -= 1
            self.total -= 1

    def seconds_until(self, bound: int) -> float:
        """Seconds until one more fits under the bound."""
        left = self.total
        for passed in range(1, SPAN + 2):
            left -= self._counts[(self._at + passed) % (SPAN + 1)]
            if left < bound:
                return float(passed)
        return float(SPAN + 1)


@dataclass(frozen=True, slots=True)
class HourWindow:
    """One count for each minute, the newest first; `at` is when the newest began.

    The newest minute and the 60 before it are in the sum, so that no hour exceeds the bound.
    """

    at: float
    counts: tuple[int, ...] = (0,)

    @property
    def total(self) -> int:
        return sum(self.counts)

    def advance(self, now: float) -> HourWindow:
        """The window without what is older; a clock that was set back forgets nothing."""
        gone = int((now - self.at) // SPAN)
        if gone <= 0:
            return self
        if gone > MINUTES:
            return HourWindow(now)
        counts = ((0,) * gone + self.counts)[: MINUTES + 1]
        return HourWindow(self.at + gone * SPAN, counts)

    def add(self, amount: int) -> HourWindow:
        """The window with `amount` more in the newest minute."""
        return replace(self, counts=(self.counts[0] + amount, *self.counts[1:]))

    def time_below(self, bound: float) -> float:
        """When the sum will be below `bound` if nothing is added, in seconds since 1970."""
        left, age = self.total, len(self.counts)
        if left < bound:
            return self.at
        while age and left >= bound:
            age -= 1
            left -= self.counts[age]
        return self.at + (MINUTES + 1 - age) * SPAN
