"""How many in the last minute: a sliding window of seconds. In memory; a restart forgives."""

from __future__ import annotations

from typing import Final

SPAN: Final = 60


class Window:
    """One count for each second. The current second and the 60 before it are in the sum, so that
    no 60 seconds have more than the bound."""

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
        for each in range(self._at + 1, self._at + 1 + min(gone, SPAN + 1)):
            place = each % (SPAN + 1)
            self.total -= self._counts[place]
            self._counts[place] = 0
        self._at = second

    def add(self) -> int:
        """One more in the newest second; where it was put, for `take_back`."""
        place = self._at % (SPAN + 1)
        self._counts[place] += 1
        self.total += 1
        return place

    def take_back(self, place: int) -> None:
        """That one was for nothing: it is asked for again."""
        if self._counts[place]:
            self._counts[place] -= 1
            self.total -= 1

    def wait(self, bound: int) -> float:
        """Seconds until one more fits."""
        left = self.total
        for passed in range(1, SPAN + 2):
            left -= self._counts[(self._at + passed) % (SPAN + 1)]
            if left < bound:
                return float(passed)
        return float(SPAN + 1)
