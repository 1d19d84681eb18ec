"""Numbers that say when: microseconds since 1970, each given once and higher than the one before.

When the clock was set back they go on at the pace of time from the last one, so that whatever is
sorted by them ages as ever.
"""

from __future__ import annotations

from typing import Final

# Microseconds: a clock that was set, and no crowded moment.
_SET_BACK: Final = 1_000_000


class Ids:
    def __init__(self) -> None:
        self.last = 0
        # Seconds by which they run ahead of a clock that was set back.
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
        """The clock was set; forward it makes good what they are ahead of it."""
        self._lead = max(0.0, self._lead - seconds)
