"""Enforces disk limits of agents on file systems without project quotas (attack 9).

Reading the usage of the file system is one system call. While it has grown by less than the
smallest headroom of all agents, no agent can exceed its limit, and no files are counted. A job
counts them, because root must not walk through files of agents. An agent over its limit is killed
and parked, and its parent gets a message. Its files stay; the parent may remove them.
"""

from __future__ import annotations

import asyncio
import logging
import operator
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
from hive_core.plan.placement import DiskBounds, Placement
from hive_core.plan.state import Trouble, trouble
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.observed import ObservedState

log = logging.getLogger(__name__)
LIMIT, WARNING = "disk_limit", "disk_warning"
NEARLY: Final = 0.9
TROUBLE: Final = "disk"  # the key of the operator's alarm
EVERY, LATEST = 1.0, 300.0  # seconds; a count is due after LATEST, because freed space hides growth
AFTER_FAULT: Final = 10.0  # seconds until the next try, at least
PART: Final = 5  # counting takes at most 1/5 of the time
_LINES_MOST, _READS, _PAUSE = 1000, 100, 0.05


@dataclass
class DiskLimiter:
    """Counts the files of agents, and stops agents over their limit.

    `disk_usage` returns the usage of the file system. `requeue(uuid)` makes the reconciler check an
    agent. `release_ballast` frees the ballast of a full disk and returns whether there was any.
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
    _headroom: DiskBounds = field(default_factory=DiskBounds)
    _headroom_of: tuple[object, object, object] = (None, None, None)

    async def run(self) -> None:
        """Check once a second, until cancelled."""
        while True:
            if self.is_due():
                await self.count_files()
            await asyncio.sleep(EVERY)

    def is_due(self) -> bool:
        """Whether an agent may be over its limit, or an agent over its limit was started again."""
        moment = self.ports.clock.monotonic()
        # nothing to count before the first observation
        if moment < self._next or not self.observed.machines:
            return False
        if (
            self._seen is None
            or moment >= self._latest
            or any(map(self._should_run, self.over_limit))
        ):
            return True
        now = self.disk_usage()
        grown = DiskUse(now.disk - self._seen.disk, now.inodes - self._seen.inodes)
        return exceeds(grown, self._least_headroom())

    def _least_headroom(self) -> DiskBounds:
        """The headroom of all agents, computed again when the tree or a count changed."""
        facts = (self.observed.places, self.used, self.over_limit)
        if not all(map(operator.is_, facts, self._headroom_of)):
            self._headroom_of, nothing = facts, DiskUse()
            self._headroom = least_headroom(
                (place.disk_bounds, self.used.get(uuid, nothing))
                for uuid, place in self.observed.places.by_uuid.items()
                if uuid not in self.over_limit
            )
        return self._headroom

    async def count_files(self) -> None:
        """Count the files of all agents, and enforce the limits."""
        clock = self.ports.clock
        seen: DiskUse | None = self.disk_usage()
        began = clock.monotonic()
        try:
            self._enforce(await self._usage_by_agent())
        except (HiveError, ValueError) as error:
            # Growth so far was not counted, so the next count must not rely on it.
            seen, least = None, AFTER_FAULT
            if isinstance(error, StorageFull) and self.release_ballast():
                least = 0.0  # the freed ballast is enough to find and stop the agent
            log.warning("Cannot count the files of agents: %s", error)
            self.observed.troubles[TROUBLE] = f"cannot count the files of agents: {error}"
        else:
            least = 0.0
            self.observed.troubles.pop(TROUBLE, None)
        ended = clock.monotonic()
        self._seen, self._latest = seen, ended + LATEST
        self._next = ended + max(least, PART * (ended - began))

    async def _usage_by_agent(self) -> dict[str, DiskUse]:
        usage, places = dict[str, DiskUse](), self.observed.places.by_uuid
        nodes = {place.lineage[-1]: uuid for uuid, place in places.items()}
        for place in [place for place in places.values() if place.parent is None]:
            machine = self.observed.machine(place.uuid)
            if machine is None or machine.node != place.lineage:
                continue
            for node, used in parse_counts(await self._job_output(place.uuid)).items():
                uuid = nodes.get(place.lineage[-1] if node == "." else node)
                if uuid is not None:
                    usage[uuid] = used
        return usage

    async def _job_output(self, uuid: str) -> list[str]:
        """The output of the job. Its last lines may reach the journal after its end."""
        job, since = job_id(uuid, JobKind.MEASURE), self.ports.clock.now()
        await self.ports.jobs.run(job_action(uuid, JobKind.MEASURE))
        for _ in range(_READS):
            lines = await self.ports.journal.read(LogQuery(job, job_unit(job), _LINES_MOST, since))
            words = [word for line in lines for word in line.text.split()]
            if words[-1:] == ["end"]:
                return words
            await asyncio.sleep(_PAUSE)
        raise Internal(
            "cannot read the output of the measure job: it is not complete in the journal"
        )

    def _enforce(self, usage: dict[str, DiskUse]) -> None:
        places, topics = self.observed.places.by_uuid, set[str]()
        shares = {uuid: used_share(places[uuid].disk_bounds, used) for uuid, used in usage.items()
                  if uuid in places}  # fmt: skip
        self.used, self.over_limit = usage, {uuid for uuid, share in shares.items() if share > 1}
        self._warned &= {uuid for uuid, share in shares.items() if share >= NEARLY}
        with self.ports.ledger.transaction():
            for uuid, share in shares.items():
                text = describe_use(places[uuid].name, places[uuid].disk_bounds, usage[uuid])
                if uuid in self.over_limit and self._should_run(uuid):
                    topics |= self._park(places[uuid], text)
                elif share >= NEARLY and uuid not in self.over_limit | self._warned:
                    self._warned.add(uuid)
                    topics |= self._notify_parent(places[uuid], WARNING, text)
        self.observed.cache.refresh(self.over_limit)
        self.broker.touch(frozenset(topics))
        for uuid in self.over_limit:
            self.requeue(uuid)

    def _should_run(self, uuid: str) -> bool:
        """Whether the agent should run and is not parked."""
        run, starts = self.observed.cache.runs.get(uuid), self.observed.cache.starts.get(uuid)
        wanted = run is not None and run.wanted is DesiredState.RUNNING
        return run is not None and wanted and trouble(run, starts) is not Trouble.PARKED

    def _park(self, place: Placement, text: str) -> set[str]:
        """Kill and park the agent, without a grace period in which it could continue to write.

        A new start request clears this.
        """
        ledger, now, run = self.ports.ledger, self.ports.clock.now(), self.observed.cache.runs
        log.warning("%s: the agent is parked", text, extra={"HIVE_UUID": place.uuid})
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
        return {"events", *self._notify_parent(place, LIMIT, f"{text}: the agent is parked")}

    def _notify_parent(self, place: Placement, kind: str, text: str) -> set[str]:
        if place.parent is None:
            return set()
        parent = self.observed.places.by_name(place.parent)
        letter = NewMessage(
            sender=DAEMON, sender_name=DAEMON, recipient=parent.uuid, recipient_name=parent.name,
            relation=Relation.DAEMON, body=text, kind=kind, priority=1,
        )  # fmt: skip
        with suppress(InboxFull):  # a parent whose inbox is full misses this message
            self.ports.ledger.messages.send(letter, self.ports.clock.now())
        return {f"inbox:{parent.uuid}"}
