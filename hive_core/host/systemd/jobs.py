"""Jobs: small throw-away containers with their own uid ranges, a few at a time.

A job's id is computed from its work. A job of an earlier daemon is ended before the same work
begins again, so that it never runs twice at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from hive_core.errors import Busy, HiveError, Internal, TimedOut, Unreachable
from hive_core.host.systemd import exits
from hive_core.host.systemd.bus import Unit
from hive_core.host.systemd.job_exchange import Exchange, sweep
from hive_core.model.names import is_uuid, job_unit
from hive_core.model.wire.record import LogQuery
from hive_core.plan.actions import (
    JOB_BASES,
    Action,
    KillUnit,
    ObserveStorage,
    RemoveSocketDirectory,
    RunJob,
    Unmount,
)
from hive_core.plan.agent_steps import is_job_id
from hive_core.plan.results import Done, Result, StorageFacts
from hive_core.ports import Journal

log = logging.getLogger(__name__)
JOBS: Final = "hive-job@"
_AT_ONCE: Final = 16  # limited by the 64 uid ranges and the host's memory
_SLACK: Final = 60.0  # the unit ends by itself at its own timeout
_LOOK_AGAIN: Final = 5.0  # in case a signal is lost
_KILLED: Final = 15.0
_DOWN: Final = ("inactive", "failed")
_SAID, _SAID_MOST, _LINE = "said.json", 1 << 20, 500
_LAST: Final = 10  # lines of a failed job to show
_PAUSES: Final = (0.0, 0.1, 0.2, 0.5)  # seconds before each read of the journal
# Seconds before each further attempt to clean up: systemd restarts a root helper that died.
_RETRIES: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0)
# Lines of systemd-nspawn about the container itself, which do not explain a failure.
_FRAME: Final = re.compile(r"(Spawning container |Press Ctrl-\] |Container |Trying to halt )")


def _printable(text: str) -> str:
    """A line of untrusted text: printable characters only, shortened."""
    return "".join(char if char.isprintable() else " " for char in text[:_LINE]).strip()


class UnitLister(Protocol):
    """The calls to systemd that this module needs."""

    async def list_units(self, patterns: Iterable[str]) -> list[Unit]: ...
    async def list_named_units(self, names: Iterable[str]) -> list[Unit]: ...


class ActionApplier(Protocol):
    """The calls to the root helper that this module needs."""

    async def apply(self, action: Action) -> Result: ...
    async def ask(self, action: ObserveStorage, kind: type[StorageFacts]) -> StorageFacts: ...


class NspawnJobs:
    """The port `Jobs` on a real host. `folder` holds exit records, `work` the exchange folders.

    `patience` is how many seconds a job has to end after SIGKILL.
    """

    patience: float = _KILLED

    def __init__(
        self,
        bus: UnitLister,
        privd: ActionApplier,
        folder: Path,
        work: Path,
        journal: Journal | None = None,
    ) -> None:
        self._bus, self._privd, self._exits, self._work = bus, privd, folder, work
        self._journal = journal
        self._free = deque(JOB_BASES)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._may_begin = asyncio.Event()
        self._may_begin.set()
        self._changed: dict[str, asyncio.Event] = {}
        self._tidying: set[asyncio.Task[None]] = set()

    def on_unit_signal(self, unit: str) -> None:
        """Handle a signal about a job's unit. Empty: signals may have been lost."""
        for name, event in self._changed.items():
            if unit in ("", name):
                event.set()

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        """Begin no job meanwhile: those of an earlier daemon, until `sweep`, are in ranges."""
        self._may_begin.clear()
        try:
            yield
        finally:
            self._may_begin.set()

    async def sweep(self) -> None:
        """End the jobs of an earlier daemon, and remove what they left."""
        for unit in await self._bus.list_units([f"{JOBS}*.service"]):
            job = unit.name.removeprefix(JOBS).removesuffix(".service")
            if is_uuid(job):
                log.info("Ending job %s of an earlier daemon", job)
                await self._end_left(job)
        # These ended while no daemon ran, or before the last one had cleaned up.
        for job in await asyncio.to_thread(exits.list_jobs, self._exits):
            await self._end_left(job)
        # The daemon was killed before these had a unit: only their mounts are left.
        for job in await self._list_mounted_jobs():
            await self._end_left(job)
        await asyncio.to_thread(sweep, self._work)

    async def _end_left(self, job: str) -> None:
        try:
            await self._end(job)
        except Busy as error:
            log.warning("Cannot end job %s of an earlier daemon: %s", job, error)

    async def _list_mounted_jobs(self) -> list[str]:
        try:
            facts = await self._privd.ask(ObserveStorage(), StorageFacts)
        except HiveError as error:
            log.warning("Cannot list the mounts of jobs: %s", error)
            return []
        return [name for name in facts.mounts if is_job_id(name)]

    async def run(self, action: RunJob) -> Result:
        await self._may_begin.wait()
        async with self._turns:
            base = self._free.popleft()  # the root helper refuses a range that is still in use
            try:
                return await self._run(replace(action, base=base))
            finally:
                self._free.append(base)

    async def _run(self, action: RunJob) -> Result:
        unit = job_unit(action.job)
        if unit in self._changed:
            raise Busy(f"job {action.work} is running already")
        event = self._changed[unit] = asyncio.Event()
        began = time.time()
        try:
            await self._end(action.job)
            before = exits.read(self._exits, action.job)
            async with asyncio.timeout(action.work.job.seconds + _SLACK):
                await self._privd.apply(action)
                await self._on_end(unit, event)
            end = exits.read(self._exits, action.job)
        except TimeoutError as error:
            said = await self._last_lines(action.job, "", began)
            raise TimedOut(f"job {action.work} did not end{said}") from error
        finally:
            # Not awaited if cancelled: a stopping daemon has no bus, and the next daemon sweeps.
            tidying = asyncio.create_task(self._tidy(action.job))
            self._tidying.add(tidying)
            tidying.add_done_callback(self._tidying.discard)
        await tidying
        if end is None or (before is not None and end.invocation == before.invocation):
            said = await self._last_lines(action.job, "", began)
            raise Internal(f"job {action.work} exited without writing a result{said}")
        if not end.clean:
            why = self._fault(action) if end.result == "exit-code" else ""
            said = await self._last_lines(action.job, end.invocation, began)
            raise Internal(f"job {action.work}: {why or end.text}{said}")
        return Done(changed=True)

    async def _last_lines(self, job: str, invocation: str, since: float) -> str:
        """The last lines that the job wrote, to follow the reason of its failure. Untrusted text.

        `ended with 1` alone explains nothing. The last lines may reach the journal after the end.
        """
        if self._journal is None:
            return ""
        begun = None if invocation else since
        query = LogQuery(job, job_unit(job), 2 * _LAST, begun, invocation=invocation)
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            try:
                lines = [line.text for line in await self._journal.read(query)]
            except HiveError as error:
                log.warning("Cannot read what job %s wrote: %s", job, error)
                return ""
            if words := [
                _printable(line) for line in lines if line.strip() and not _FRAME.match(line)
            ]:
                return "\n".join(["; its last lines:", *words[-_LAST:]])
        return ""

    def _fault(self, action: RunJob) -> str:
        """The fault that the program itself reported; untrusted text."""
        if not action.work.exchanges:
            return ""
        try:
            said = json.loads(Exchange(self._work / action.job).read(_SAID, _SAID_MOST))
            text = str(said["fault"])
        except (HiveError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return ""
        return _printable(text)

    async def _tidy(self, job: str) -> None:
        """End a job, again while systemd cannot be reached: it may be starting anew."""
        try:
            for pause in _RETRIES:
                with suppress(Unreachable, TimedOut):
                    await self._end(job)
                    return
                await asyncio.sleep(pause)
            await self._end(job)
        except HiveError as error:
            log.warning("Cannot clean up after job %s: %s", job, error)
        finally:
            del self._changed[job_unit(job)]

    async def _end(self, job: str) -> None:
        """End a job: stop its unit, unmount its storage, remove its records.

        One that outlives SIGKILL, as a process may that waits for a disk, keeps its mounts: by
        them the root helper refuses its uid range to other jobs. Busy is raised then.
        """
        unit = job_unit(job)
        event = self._changed.get(unit) or asyncio.Event()
        if not await self._down(unit):
            await self._clean(KillUnit(job, None))
            try:
                async with asyncio.timeout(self.patience):
                    await self._on_end(unit, event)
            except TimeoutError:
                raise Busy(f"job {job} runs on {self.patience:.0f} s after SIGKILL") from None
        await self._clean(Unmount(job))
        await self._clean(RemoveSocketDirectory(job))

    async def _on_end(self, unit: str, event: asyncio.Event) -> None:
        while True:
            event.clear()
            if await self._down(unit):
                return
            try:
                async with asyncio.timeout(_LOOK_AGAIN):
                    await event.wait()
            except TimeoutError:
                continue

    async def _down(self, unit: str) -> bool:
        units = await self._bus.list_named_units([unit])
        return all(unit_state.active in _DOWN and not unit_state.job for unit_state in units)

    async def _clean(self, action: Unmount | RemoveSocketDirectory | KillUnit) -> None:
        """Apply the action; repeat while the root helper is not reachable.

        What a job leaves mounted would otherwise stay until the daemon starts again.
        """
        try:
            for pause in _RETRIES:
                with suppress(Unreachable):
                    await self._privd.apply(action)
                    return
                await asyncio.sleep(pause)
            await self._privd.apply(action)
        except HiveError as error:
            log.warning("Cannot clean up after job %s: %s", action.uuid, error)
