"""The rows of the ledger that the change road goes by, kept in memory and read again when told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredRun, FailureHistory
from hive_core.model.agents.revocation import PENDING, Revocation, RevocationState
from hive_core.model.config.settings import Settings
from hive_core.model.wire.record import DAEMON, JobRecord
from hive_core.plan.desired import Desired
from hive_core.plan.move_effects import losing
from hive_core.plan.placement import Placements

V = TypeVar("V")


@dataclass
class LedgerCache:
    """What the ledger wants. `load` reads everything, `take` what may have changed."""

    ledger: Ledger
    settings: Settings
    runs: dict[str, DesiredRun] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)
    starts: dict[str, FailureHistory] = field(default_factory=dict)
    archives: dict[str, float] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    revocations: dict[int, Revocation] = field(default_factory=dict)
    unclaimed: set[str] = field(default_factory=set)

    def load(self) -> None:
        self.runs = self.ledger.runs.all()
        self.bases = self.ledger.ranges.all()
        self.starts = self.ledger.starts.all()
        self.reload(())

    def reload(self, uuids: Iterable[str]) -> None:
        """Read the rows of these agents again, and the short lists as a whole.

        For the moment at which the tree is taken over as well.
        """
        self._read(uuids)
        self.archives = {each.uuid: each.expires for each in self.ledger.archives.all()}
        self.jobs = {job.id: job for job in self.ledger.jobs.open()}
        self.revocations = {each.id: each for each in self.ledger.revocations.open()}

    def refresh(self, uuids: Iterable[str]) -> None:
        """Read again what the change road itself has written of these agents, at any moment.

        A job that came in since `take` belongs to a tree that was not taken over yet: judged by the
        old one, a destroyed agent would seem restored and a moved one there already.
        """
        agents = tuple(uuids)
        self._read(agents)
        for uuid in agents:
            if self.ledger.archives.get(uuid) is None:
                self.archives.pop(uuid, None)
        jobs = self.ledger.jobs.open()
        self.jobs = {job.id: job for job in jobs if job.id in self.jobs or job.caller == DAEMON}
        self.revocations = {
            each.id: each for each in self.ledger.revocations.open() if self._is_known(each)
        }

    def _is_known(self, revocation: Revocation) -> bool:
        return revocation.id in self.revocations or revocation.job in self.jobs

    def _read(self, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            _put(self.runs, uuid, self.ledger.runs.get(uuid))
            _put(self.bases, uuid, self.ledger.ranges.base(uuid))
            _put(self.starts, uuid, self.ledger.starts.get(uuid))

    @property
    def revoking(self) -> frozenset[str]:
        """Jobs that wait until access is revoked."""
        return frozenset(each.job for each in self.revocations.values() if each.state in PENDING)

    def held_agents(self, places: Placements) -> frozenset[str]:
        """Who may not start until access is revoked."""
        return frozenset().union(
            *(agents_held_down(each, places) for each in self.revocations.values())
        )

    def find_unclaimed(self, seen: Iterable[str], places: Placements) -> None:
        """Row H30: whoever left something, be it a uid range, and is known to nobody any more."""
        self.unclaimed = {*seen, *self.bases} - places.by_uuid.keys() - self.archives.keys()

    def desired_state(self, places: Placements) -> Desired:
        return Desired(
            places, self.settings, self.runs, self.bases, self.starts, self.archives,
            self.held_agents(places), self.unclaimed,
        )  # fmt: skip


def agents_losing_access(revocation: Revocation, places: Placements) -> frozenset[str]:
    """Who may hold what it is about: those who were told to restart, and all below those who lost.

    Whoever came to be below them meanwhile is among them: it may have been handed something. So is
    whoever is not below them any more, unless one that lost access and has it again is above it.
    """
    hive = places.hive
    agent = hive.name(revocation.agent)
    lost = [name for each in revocation.lost if (name := hive.name(each)) is not None]
    below = {hive.spec(name).id for name in losing(hive, lost, agent or "")}
    noted = revocation.nonces.keys() - revocation.notified - below
    return frozenset({*below, *revocation.notified, *_may_hold(noted, hive, agent, lost)})


def _may_hold(
    noted: Iterable[str], hive: Hive, agent: str | None, lost: Sequence[str]
) -> Iterator[str]:
    """Those of them that are neither above nor below the agent, nor below who is above it again."""
    own = {agent, *hive.topology.subtree(agent), *hive.topology.lineage(agent)} if agent else set()
    again = own & {*lost}
    for uuid in noted:
        name = hive.name(uuid)
        if name is None or not (name in own or again.intersection(hive.topology.lineage(name))):
            yield uuid


def agents_left_running(revocation: Revocation, places: Placements) -> frozenset[str]:
    """Who of those that were not restarted still runs on; who was destroyed does not."""
    if revocation.state is not RevocationState.LEFT:
        return frozenset()
    return frozenset(revocation.nonces.keys() & places.by_uuid.keys())


def agents_held_down(revocation: Revocation, places: Placements) -> frozenset[str]:
    """Who may not start before it is done."""
    own = {revocation.agent} if revocation.came_back and revocation.state in PENDING else set()
    if revocation.state in (RevocationState.RESTARTING, RevocationState.CLOSING):
        return agents_losing_access(revocation, places) | own
    return frozenset(own)


def _put(rows: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
