"""Token buckets: a rate per second, and a burst. In memory; a restart resets them.

The caller passes the time in, so this module reads no clock.
"""

from __future__ import annotations

from collections.abc import Hashable

_SWEEP = 4096


class TokenBuckets:
    """One bucket per key, made on first use and dropped once it is full again."""

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second = per_second
        self.burst = float(burst)
        self._buckets: dict[Hashable, tuple[float, float]] = {}
        # The buckets that were changed since the last `commit`, as they were then.
        self.changed: dict[Hashable, tuple[float, float]] = {}
        self._sweep_at = _SWEEP

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable, now: float) -> float:
        """Take one token: 0.0, or the seconds until one is available (and none is taken)."""
        try:
            bucket = self._buckets[key]
        except KeyError:
            if len(self._buckets) >= self._sweep_at:
                self._sweep(now)
            bucket = self.burst, now
        left, at = bucket
        if now > at:  # a clock that went back adds nothing and removes nothing
            left += (now - at) * self.per_second
            left = min(left, self.burst)
        if left < 1.0:
            self._buckets[key] = (left, now)
            return (1.0 - left) / self.per_second
        if key not in self.changed:
            self.changed[key] = bucket
        self._buckets[key] = (left - 1.0, now)
        return 0.0

    def commit(self) -> None:
        """Keep the tokens that were taken as used."""
        self.changed.clear()

    def roll_back(self) -> None:
        """Return the tokens taken since the last `commit`: their calls will be repeated."""
        self._buckets.update(self.changed)
        self.changed.clear()

    def forget(self, key: Hashable) -> None:
        """Drop the bucket of a key that is no longer used."""
        self._buckets.pop(key, None)

    def _sweep(self, now: float) -> None:
        """Drop buckets that are full again, so that the table has only those in use."""
        self._buckets = {
            key: (left, at)
            for key, (left, at) in self._buckets.items()
            if left + (now - at) * self.per_second < self.burst
        }
        # Twice what is left, so that sweeping stays cheap with any number of busy senders.
        self._sweep_at = max(_SWEEP, 2 * len(self._buckets))
