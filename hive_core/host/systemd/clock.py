"""The clocks of this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

_SLACK: Final = 30.0  # seconds by which a clock may be adjusted before that counts as a jump


class SystemClock:
    """Wall time for display, monotonic time of the loop for waiting.

    When the wall clock is set, a period of a minute must not end at once or last ten years: `now`
    continues from the old time until `follow`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ahead = time.time() - _steady()

    def now(self) -> float:
        wall, steady = time.time(), _steady()
        if abs(wall - steady - self._ahead) > _SLACK:
            return steady + self._ahead
        self._ahead = wall - steady
        return wall

    def pending_jump(self) -> float:
        off = time.time() - _steady() - self._ahead
        return off if abs(off) > _SLACK else 0.0

    def follow(self) -> None:
        self._ahead = time.time() - _steady()

    def monotonic(self) -> float:
        # The loop's clock is CLOCK_MONOTONIC, and so are systemd's monotonic timestamps.
        return self._loop.time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_at(when, callback).cancel


def _steady() -> float:
    """Seconds since boot, including suspend, after which the wall clock has not jumped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
