"""What the change road is given to work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hive_core.ledger.store import Ledger
from hive_core.model.hive import Hive
from hive_core.model.settings import Settings
from hive_core.ports import Clock, Jobs, Journal, Machines


@dataclass(frozen=True, slots=True)
class Ports:
    """The four ports, the ledger and the settings."""

    machines: Machines
    journal: Journal
    jobs: Jobs
    clock: Clock
    ledger: Ledger
    settings: Settings


@dataclass(frozen=True, slots=True)
class Broker:
    """The request road as this one sees it: the snapshot in force, and whom to tell."""

    hive: Callable[[], Hive]
    touch: Callable[[frozenset[str]], None]
