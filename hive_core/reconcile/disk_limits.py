"""Holding agents to their share of the disk where the file system does not do it (attack 9).

How full the file system is costs one call to ask. While it has not grown by as much as the agent
nearest to its bounds may still write, nobody can be beyond, and nobody is counted. Counting is a
job's, for what agents wrote is not for root to walk through. Who is beyond its bounds is killed
and parked, and its parent is told; what it wrote stays, for its parent to sweep up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import HiveError, InboxFull, Internal, StorageFull
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.agents.machine import DesiredState, FailureHistory
from hive_core.model.names import job_unit
from hive_core.model.wire.record import DAEMON, LogQuery, Relation
from hive_core.plan.actions import JobKind
from hive_core.plan.agent_steps import job_action, job_id
from hive_core.plan.disk_usage import (
    DiskUse,
    describe_use,
    exceeds,
    least_headroom,
    parse_counts,
    used_share,
)
from hive_core.plan.placement import Placement
from hive_core.plan.state import Trouble, trouble
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.observed import ObservedState

log = logging.getLogger(__name__)
LIMIT, WARNING = "disk_limit", "disk_warning"
NEARLY: Final = 0.9
TROUBLE: Final = "disk"  # the name under which the operator is told
EVERY, LATEST = 1.0, 300.0  # seconds between looks; what others free may hide what one writes
AFTER_FAULT: Final = 10.0  # until it is tried again, at least
PART: Final = 5  # counting takes at most one part in so many of the time
_LINES_MOST, _READS, _PAUSE = 1000, 100, 0.05


@dataclass
class DiskLimiter:
    """`full` tells how full the file system is; `again(uuid)` has an agent looked at anew.

    `spare` frees the ballast of a full disk; whether there was any.
    """

    ports: Ports
    broker: BrokerHandle
    observed: ObservedState
    disk_usage: Callable[[], DiskUse]
    requeue: Callable[[str], None]
    release_ballast: Callable[[], bool] = lambda: False
    used: dict[str, DiskUse] = field(default_factory=dict)
    over_limit: set[str] = field(default_factory=set)
    _warned: set[str] = field(default_factory=set)
    _seen: DiskUse | None = None
    _next: float = 0.0
    _latest: float = 0.0

    async def run(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            if self.is_due():
                await self.count_files()
            await asyncio.sleep(EVERY)

    def is_due(self) -> bool:
        """Whether somebody may be beyond its bounds, or was started again although it is."""
        moment = self.ports.clock.monotonic()
        if moment < self._next or not self.observed.machines:  # nobody can be counted unseen
            return False
        if (
            self._seen is None
            or moment >= self._latest
            or any(map(self._should_run, self.over_limit))
        ):
            return True
        now, places = self.disk_usage(), self.observed.places.by_uuid
        grown = DiskUse(now.disk - self._seen.disk, now.inodes - self._seen.inodes)
        return exceeds(grown, least_headroom(
            (place.disk_bounds, self.used.get(uuid, DiskUse()))
            for uuid, place in places.items() if uuid not in self.over_limit
        ))  # fmt: skip

    async def count_files(self) -> None:
        """Count what everybody has, and act on it."""
        clock = self.ports.clock
        seen: DiskUse | None = self.disk_usage()
        began = clock.monotonic()
        try:
            self._enforce(await self._usage_by_agent())
        except (HiveError, ValueError) as error:
            # What was written until now is not counted: nobody may rely on it.
            seen, least = None, AFTER_FAULT
            if isinstance(error, StorageFull) and self.release_ballast():
                least = 0.0  # who filled the disk can be ended with what was held back
            log.warning("Cannot count what agents wrote: %s", error)
            self.observed.troubles[TROUBLE] = f"cannot count what agents wrote: {error}"
        else:
            least = 0.0
            self.observed.troubles.pop(TROUBLE, None)
        ended = clock.monotonic()
        self._seen, self._latest = seen, ended + LATEST
        self._next = ended + max(least, PART * (ended - began))

    async def _usage_by_agent(self) -> dict[str, DiskUse]:
        found, places = dict[str, DiskUse](), self.observed.places.by_uuid
        nodes = {place.lineage[-1]: uuid for uuid, place in places.items()}
        for place in [each for each in places.values() if each.parent is None]:
            machine = self.observed.machine(place.uuid)
            if machine is None or machine.node != place.lineage:
                continue
            for node, used in parse_counts(await self._job_output(place.uuid)).items():
                uuid = nodes.get(place.lineage[-1] if node == "." else node)
                if uuid is not None:
                    found[uuid] = used
        return found

    async def _job_output(self, uuid: str) -> list[str]:
        """What the job said; the last of it may reach the journal after its end."""
        job, since = job_id(uuid, JobKind.MEASURE), self.ports.clock.now()
        await self.ports.jobs.run(job_action(uuid, JobKind.MEASURE))
        for _ in range(_READS):
            lines = await self.ports.journal.read(LogQuery(job, job_unit(job), _LINES_MOST, since))
            words = [word for line in lines for word in line.text.split()]
            if words[-1:] == ["end"]:
                return words
            await asyncio.sleep(_PAUSE)
        raise Internal("the job left no figures in the journal")

    def _enforce(self, found: dict[str, DiskUse]) -> None:
        places, topics = self.observed.places.by_uuid, set[str]()
        shares = {uuid: used_share(places[uuid].disk_bounds, each) for uuid, each in found.items()
                  if uuid in places}  # fmt: skip
        self.used, self.over_limit = found, {uuid for uuid, each in shares.items() if each > 1}
        self._warned &= {uuid for uuid, each in shares.items() if each >= NEARLY}
        with self.ports.ledger.transaction():
            for uuid, each in shares.items():
                text = describe_use(places[uuid].name, places[uuid].disk_bounds, found[uuid])
                if uuid in self.over_limit and self._should_run(uuid):
                    topics |= self._park(places[uuid], text)
                elif each >= NEARLY and uuid not in self.over_limit | self._warned:
                    self._warned.add(uuid)
                    topics |= self._notify_parent(places[uuid], WARNING, text)
        self.observed.cache.refresh(self.over_limit)
        self.broker.touch(frozenset(topics))
        for uuid in self.over_limit:
            self.requeue(uuid)

    def _should_run(self, uuid: str) -> bool:
        """Whether it should run and nothing speaks against it yet."""
        run, starts = self.observed.cache.runs.get(uuid), self.observed.cache.starts.get(uuid)
        wanted = run is not None and run.wanted is DesiredState.RUNNING
        return run is not None and wanted and trouble(run, starts) is not Trouble.PARKED

    def _park(self, place: Placement, text: str) -> set[str]:
        """Without grace: it would go on writing. Whoever starts it again clears this."""
        ledger, now, run = self.ports.ledger, self.ports.clock.now(), self.observed.cache.runs
        log.warning("%s: it is parked", text, extra={"HIVE_UUID": place.uuid})
        again = ledger.runs.want(place.uuid, DesiredState.RUNNING, now, grace=0.0,
                                 reason=run[place.uuid].reason)  # fmt: skip
        ledger.starts.put(
            place.uuid, FailureHistory((now,), parked=True, nonce=again.nonce, why=text)
        )
        ledger.events.append(AuditEntry(
            kind="limit", caller=DAEMON, operation="watch", target=place.uuid, allowed=None,
            rule="", reason=text, commit=self.observed.places.hive.commit, request="", now=now,
            fields={"target_name": place.name, "parked": True},
        ))  # fmt: skip
        return {"events", *self._notify_parent(place, LIMIT, f"{text}: it is parked")}

    def _notify_parent(self, place: Placement, kind: str, text: str) -> set[str]:
        if place.parent is None:
            return set()
        parent = self.observed.places.by_name(place.parent)
        letter = NewMessage(
            sender=DAEMON, sender_name=DAEMON, recipient=parent.uuid, recipient_name=parent.name,
            relation=Relation.DAEMON, body=text, kind=kind, priority=1,
        )  # fmt: skip
        with suppress(InboxFull):  # who does not read its mail misses this
            self.ports.ledger.messages.send(letter, self.ports.clock.now())
        return {f"inbox:{parent.uuid}"}
