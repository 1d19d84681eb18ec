"""Jobs: small throw-away containers, run one by one in uid ranges of their own."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Final

from hive_core.errors import Busy, HiveError, Internal, TimedOut
from hive_core.host import exits
from hive_core.host.bus import Bus
from hive_core.host.privd import Privd
from hive_core.model.names import job_unit
from hive_core.plan.actions import JOB_BASES, CloseDoor, RunJob, Unmount
from hive_core.plan.results import Done, Result

log = logging.getLogger(__name__)
JOBS: Final = "hive-job@"
_LONGEST: Final = 660.0  # the unit ends after 600 s by itself
_LOOK_AGAIN: Final = 5.0  # should a signal get lost
_DOWN: Final = ("inactive", "failed")


class NspawnJobs:
    """The port `Jobs` on a real host."""

    def __init__(self, bus: Bus, privd: Privd, folder: Path) -> None:
        self._bus, self._privd, self._exits = bus, privd, folder
        self._free = deque(JOB_BASES)
        self._changed: dict[str, asyncio.Event] = {}

    def heard(self, unit: str) -> None:
        """A signal about a job's unit; empty: signals may have been lost."""
        for name, event in self._changed.items():
            if unit in ("", name):
                event.set()

    async def run(self, action: RunJob) -> Result:
        if not self._free:
            raise Busy("all uid ranges for jobs are in use")
        base = self._free.popleft()  # one that a job of an earlier daemon still has is refused
        try:
            return await self._run(replace(action, base=base))
        finally:
            self._free.append(base)

    async def _run(self, action: RunJob) -> Result:
        unit = job_unit(action.job)
        before = exits.read(self._exits, action.job)
        event = self._changed[unit] = asyncio.Event()
        try:
            async with asyncio.timeout(_LONGEST):
                await self._privd.apply(action)
                await self._ended(unit, event)
        except TimeoutError as error:
            raise TimedOut(f"job {action.work} did not end") from error
        finally:
            del self._changed[unit]
            await self._clean(Unmount(action.job))
        end = exits.read(self._exits, action.job)
        await self._clean(CloseDoor(action.job))
        if end is None or (before is not None and end.invocation == before.invocation):
            raise Internal(f"job {action.work} left no word of its end")
        if not end.clean:
            raise Internal(f"job {action.work} {end.text}")
        return Done(changed=True)

    async def _ended(self, unit: str, event: asyncio.Event) -> None:
        while True:
            event.clear()
            found = await self._bus.named([unit])
            if all(each.active in _DOWN and not each.job for each in found):
                return
            try:
                async with asyncio.timeout(_LOOK_AGAIN):
                    await event.wait()
            except TimeoutError:
                continue

    async def _clean(self, action: Unmount | CloseDoor) -> None:
        try:
            await self._privd.apply(action)
        except HiveError as error:
            log.warning("Cannot clean up after job %s: %s", action.uuid, error)
