"""The table that gives the state of an agent: ordered, the first match wins, total.

The state is not stored: it follows from the run request, the unit and the counted failures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hive_core.model.agents.machine import DesiredRun, DesiredState, FailureHistory, Machine, State


class Phase(StrEnum):
    """systemd's state of a unit, reduced to four."""

    DOWN = "down"
    COMING = "coming"
    UP = "up"
    GOING = "going"


class Trouble(StrEnum):
    """What the counted failures of the present run mean."""

    NONE = "none"
    FAILED = "failed"
    PARKED = "parked"


_PHASES: Final = {
    "active": Phase.UP,
    "reloading": Phase.UP,
    "refreshing": Phase.UP,
    "activating": Phase.COMING,
    "deactivating": Phase.GOING,
}  # inactive, failed, maintenance and anything that a later systemd adds: down


def phase(machine: Machine) -> Phase:
    return _PHASES.get(machine.active, Phase.DOWN)


def trouble(run: DesiredRun, starts: FailureHistory | None) -> Trouble:
    """Failures of an older nonce do not count: a fresh start was requested since."""
    if starts is None or starts.nonce < run.nonce or not starts.failures:
        return Trouble.NONE
    return Trouble.PARKED if starts.parked else Trouble.FAILED


@dataclass(frozen=True, slots=True)
class Facts:
    """The inputs of the table. `wanted` None: not an agent of the hive."""

    wanted: DesiredState | None
    current: bool
    phase: Phase
    healthy: bool
    whole: bool
    trouble: Trouble
    deploying: bool = False

    @property
    def unwanted(self) -> bool:
        return self.wanted is not DesiredState.RUNNING or not self.current


# Facts -> state; the first line that holds decides, the last line always holds.
TABLE: Final[tuple[tuple[Callable[[Facts], bool], State], ...]] = (
    (lambda f: f.wanted is None and f.phase is Phase.DOWN, State.ABSENT),
    (lambda f: f.deploying, State.DEPLOYING),
    (lambda f: f.phase is Phase.GOING, State.STOPPING),
    (lambda f: f.phase is not Phase.DOWN and f.unwanted, State.STOPPING),
    (lambda f: f.phase is Phase.COMING, State.STARTING),
    (lambda f: f.phase is Phase.UP and not f.healthy, State.STARTING),
    (lambda f: f.phase is Phase.UP and not f.whole, State.DEGRADED),
    (lambda f: f.phase is Phase.UP, State.RUNNING),
    (lambda f: f.wanted is DesiredState.SLEEPING, State.SLEEPING),
    (lambda f: f.wanted is DesiredState.STOPPED, State.STOPPED),
    (lambda f: f.trouble is Trouble.PARKED, State.PARKED),
    (lambda f: f.trouble is Trouble.FAILED, State.FAILED),
    (lambda _: True, State.STARTING),
)


def state_of(facts: Facts) -> State:
    """The state of an agent: the first row of the state table that holds."""
    return next(state for holds, state in TABLE if holds(facts))


def facts(run: DesiredRun | None, machine: Machine, starts: FailureHistory | None = None) -> Facts:
    """The facts of one agent; `run` None: it is not in the hive."""
    return Facts(
        wanted=run.wanted if run else None,
        current=run is not None and run.nonce == machine.nonce,
        phase=phase(machine),
        healthy=machine.verified and machine.executed,
        whole=machine.mounted and not machine.fault,
        trouble=trouble(run, starts) if run else Trouble.NONE,
    )
