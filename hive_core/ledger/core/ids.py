"""Ids that contain the time: microseconds since 1970, unique and increasing.

When the clock was set back, they continue from the last one at the pace of time, so that data
sorted by them ages as usual.
"""

from __future__ import annotations

from typing import Final

# In microseconds: more than this means a clock that was set back, not many ids at once.
_SET_BACK: Final = 1_000_000


class Ids:
    def __init__(self) -> None:
        self.last = 0
        # Seconds by which the ids are ahead of a clock that was set back.
        self._lead = 0.0

    def next(self, now: float) -> int:
        id_ = int((now + self._lead) * 1e6)
        if id_ <= self.last:
            if self.last - id_ > _SET_BACK:
                self._lead += (self.last - id_) / 1e6
            id_ = self.last + 1
        self.last = id_
        return id_

    def shift(self, seconds: float) -> None:
        """Adjust to a clock that was set; a step forward reduces the lead."""
        self._lead = max(0.0, self._lead - seconds)
