"""The clocks of this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

_SLACK: Final = 30.0  # what a clock is put right by without anybody calling it a jump


class SystemClock:
    """Wall time for what people read, the loop's monotonic time for waiting.

    When somebody sets the wall clock, what was to last a minute must not end at once or last ten
    years: `now` goes on as if nothing had happened until `follow`.
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
    """Sleep of the host counts: after it, the wall clock has not pending_jump."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
