"""Whether the chain of the audit log is right: checked in slices, and kept for all who look."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hive_core.errors import HiveError
from hive_core.web.logins import BrowserLogin

log = logging.getLogger(__name__)
# After this long the whole log is checked anew; before it only the events that came since.
WHOLE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class ChainState:
    """`last` is the number up to which the log was checked, at the time `at`.

    `broken_at` is the first event that is not what was recorded.
    """

    last: int = 0
    at: float | None = None
    broken_at: int | None = None


@dataclass(slots=True)
class ChainCheck:
    """One check runs at a time. `clock` returns seconds since 1970."""

    clock: Callable[[], float]
    state: ChainState = ChainState()
    reached: int = 0  # by the check that runs
    _whole_at: float | None = None
    _task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def refresh(self, login: BrowserLogin, seconds: float) -> None:
        """Check what came since, or all when that is due. Waits for the end for so long at most."""
        if not self.is_running:
            self._task = asyncio.create_task(self._check(login))
        assert self._task is not None  # noqa: S101 - made above
        await asyncio.wait([self._task], timeout=seconds)

    async def _check(self, login: BrowserLogin) -> None:
        """From the last event that is known to be right, or from the first one, to the newest."""
        now = self.clock()
        is_whole = self._whole_at is None or not 0 <= now - self._whole_at < WHOLE_SECONDS
        self.reached = 0 if is_whole or self.state.broken_at is not None else self.state.last
        after: object = str(self.reached)
        try:
            while after is not None:
                part = await login.connection.call("check_events", {"after": after})
                self.reached = int(str(part["last"]))
                if part.get("broken_at") is not None:
                    self.state = ChainState(self.reached, now, int(str(part["broken_at"])))
                    return
                after = part.get("next")
        except HiveError as error:
            log.debug("Cannot check the audit log: %s", error)
            return
        self.state = ChainState(self.reached, now)
        self._whole_at = now if is_whole else self._whole_at
