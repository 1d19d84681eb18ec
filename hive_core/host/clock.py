"""The clocks of this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class SystemClock:
    """Wall time for what people read, the loop's monotonic time for waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        # The loop's clock is CLOCK_MONOTONIC, and so are systemd's monotonic timestamps.
        return self._loop.time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_at(when, callback).cancel
