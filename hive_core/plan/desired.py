"""The input of a diff and its output: desired state, the time, steps, a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hive_core.model.agents.machine import DesiredRun, FailureHistory, Orphan
from hive_core.model.config.settings import Settings
from hive_core.plan.actions import Action
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.placement import Placements

_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Desired:
    """The head commit and the ledger's rows for the change path.

    `archives`: destroyed agents, and when their archives are deleted. `held`: agents that may not
    start until access is revoked. `unclaimed`: UUIDs that belong to no agent; the planner clears
    away what they left.
    """

    places: Placements
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
class ReconcileStep:
    """One action for one agent, with its reason."""

    uuid: str
    name: str
    action: Action | DaemonAction
    why: str

    @property
    def text(self) -> str:
        """One line for people: `bob: StartUnit (it should run)`."""
        return f"{self.name}: {type(self.action).__name__} ({self.why})"


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """The steps of one pass.

    `tree` steps go first, one after another. `waits`: when to check an agent again, in monotonic
    seconds. `queued`: agents that wait for a start slot.
    """

    tree: tuple[ReconcileStep, ...] = ()
    agents: Mapping[str, tuple[ReconcileStep, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    waits: Mapping[str, float] = field(default_factory=lambda: _NONE)
    queued: tuple[str, ...] = ()
    reports: tuple[Orphan, ...] = ()

    @property
    def steps(self) -> tuple[ReconcileStep, ...]:
        """All of them, in an order that works."""
        return (*self.tree, *(step for steps in self.agents.values() for step in steps))
