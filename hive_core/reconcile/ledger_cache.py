"""The ledger rows that the reconciler needs, cached in memory and reloaded when they change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.machine import DesiredRun, FailureHistory
from hive_core.model.agents.revocation import PENDING, Revocation
from hive_core.model.config.settings import Settings
from hive_core.model.wire.record import DAEMON, JobRecord
from hive_core.plan.desired import Desired
from hive_core.plan.placement import Placements
from hive_core.plan.revocation import agents_held_down

V = TypeVar("V")


@dataclass
class LedgerCache:
    """Cached rows of the ledger. `load` reads all of them, `reload` those that may have changed."""

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
        """Read the rows of these agents again, and all short lists.

        Call this only together with reading the tree again.
        """
        self._read(uuids)
        self.archives = {archive.uuid: archive.expires for archive in self.ledger.archives.all()}
        self.jobs = {job.id: job for job in self.ledger.jobs.open()}
        self.revocations = {
            revocation.id: revocation for revocation in self.ledger.revocations.open()
        }

    def refresh(self, uuids: Iterable[str]) -> None:
        """Read the rows of these agents again after the change path wrote them, at any time.

        A job created since `reload` belongs to a tree that is not read yet and is left out: by the
        old tree, a destroyed agent would seem restored and a moved one already in place.
        """
        agents = tuple(uuids)
        self._read(agents)
        for uuid in agents:
            if self.ledger.archives.get(uuid) is None:
                self.archives.pop(uuid, None)
        jobs = self.ledger.jobs.open()
        self.jobs = {job.id: job for job in jobs if job.id in self.jobs or job.caller == DAEMON}
        self.revocations = {
            revocation.id: revocation
            for revocation in self.ledger.revocations.open()
            if self._is_known(revocation)
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
        return frozenset(
            revocation.job
            for revocation in self.revocations.values()
            if revocation.state in PENDING
        )

    def held_agents(self, places: Placements) -> frozenset[str]:
        """The agents that may not start until access is revoked."""
        return frozenset().union(
            *(agents_held_down(revocation, places) for revocation in self.revocations.values())
        )

    def find_unclaimed_agents(self, seen: Iterable[str], places: Placements) -> None:
        """Find UUIDs with leftovers, for example a uid range, that belong to no agent (row H30)."""
        self.unclaimed = {*seen, *self.bases} - places.by_uuid.keys() - self.archives.keys()

    def desired_state(self, places: Placements) -> Desired:
        return Desired(
            places, self.settings, self.runs, self.bases, self.starts, self.archives,
            self.held_agents(places), self.unclaimed,
        )  # fmt: skip


def _put(rows: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
