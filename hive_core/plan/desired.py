"""The two sides of a diff and what comes out of it: desired, a moment, steps, a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hive_core.model.agents.machine import DesiredRun, FailureHistory, Orphan
from hive_core.model.config.settings import Settings
from hive_core.plan.actions import Action
from hive_core.plan.daemon_actions import Local
from hive_core.plan.placement import Places

_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Desired:
    """Head and runs, with what the ledger keeps for the change road.

    `archives`: destroyed agents, and when their bytes go. `held`: agents that may not start until
    access is revoked. `unclaimed`: nobody's, and to be cleared away.
    """

    places: Places
    settings: Settings
    runs: Mapping[str, DesiredRun]
    bases: Mapping[str, int]
    starts: Mapping[str, FailureHistory] = field(default_factory=lambda: MappingProxyType({}))
    archives: Mapping[str, float] = field(default_factory=lambda: _NONE)
    held: frozenset[str] = frozenset()
    unclaimed: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading of both clocks."""

    wall: float
    monotonic: float


@dataclass(frozen=True, slots=True)
class Step:
    """One action for one agent, and why."""

    uuid: str
    name: str
    action: Action | Local
    why: str

    @property
    def text(self) -> str:
        """For people: `bob: StartUnit (wanted)`."""
        return f"{self.name}: {type(self.action).__name__} ({self.why})"


@dataclass(frozen=True, slots=True)
class Plan:
    """`waits`: when to look again, in monotonic seconds. `queued`: would start, no seat free."""

    tree: tuple[Step, ...] = ()
    chains: Mapping[str, tuple[Step, ...]] = field(default_factory=lambda: MappingProxyType({}))
    waits: Mapping[str, float] = field(default_factory=lambda: _NONE)
    queued: tuple[str, ...] = ()
    reports: tuple[Orphan, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All of them, in an order that works."""
        return (*self.tree, *(step for chain in self.chains.values() for step in chain))
