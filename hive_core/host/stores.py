"""Ledger and meta repo, opened and brought together before anybody is served."""

from __future__ import annotations

from dataclasses import dataclass

from hive_core.host.git.faults import DamagedRepo
from hive_core.host.git.recovery import Recovery
from hive_core.host.git.repo import MetaRepo
from hive_core.host.hand import judge
from hive_core.ledger.store import Ledger
from hive_core.model.hive import Hive
from hive_core.model.settings import Settings


@dataclass
class Stores:
    """What lies on disk. `damage`: why nobody but the operator is served."""

    ledger: Ledger
    repo: MetaRepo
    hive: Hive
    recovery: Recovery | None = None
    damage: str = ""

    @classmethod
    def open(cls, settings: Settings) -> Stores:
        ledger = Ledger.open(settings.paths.database, limits=settings.limits)
        repo = MetaRepo.open(settings.paths.meta, settings.limits.depth)
        try:
            found = repo.recover(ledger.head, judge(ledger, settings.limits))
            hive = repo.read(ledger.head) if ledger.head else Hive()
        except DamagedRepo as error:
            # Nobody has any authority until an operator has mended it; nothing is torn down.
            repo.sealed = error.reason
            return cls(ledger, repo, Hive(commit=ledger.head), damage=f"meta repo: {error}")
        return cls(ledger, repo, hive, found)
