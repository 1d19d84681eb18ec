"""What is observed of a machine, and the one table that names its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """State of an agent's machine: observed, never stored."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SLEEPING = "sleeping"
    FAILED = "failed"
    PARKED = "parked"
    DEPLOYING = "deploying"


class Wanted(StrEnum):
    """What the ledger's `runs` row asks for."""

    RUNNING = "running"
    STOPPED = "stopped"
    SLEEPING = "sleeping"


@dataclass(frozen=True, slots=True)
class Run:
    """Whether an agent should run now. A new `nonce` asks for a fresh start."""

    agent: str
    wanted: Wanted
    nonce: int
    grace: float = 5.0
    since: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a unit ended, as its ExecStopPost wrote it down."""

    invocation: str
    result: str
    code: str
    status: str

    @property
    def clean(self) -> bool:
        return self.result == "success" and self.status == "0"


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about one agent on this host."""

    uuid: str
    unit: str = ""
    active: str = "inactive"
    sub: str = "dead"
    nonce: int = 0
    spec_hash: str = ""
    invocation: str = ""
    main_pid: int = 0
    job: str = ""
    uid_base: int = 0
    verified: bool = False
    executed: bool = False
    mounted: bool = False
    node: tuple[str, ...] = ()
    properties: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    exit: Exit | None = None


@dataclass(frozen=True, slots=True)
class Stray:
    """Something on the host that no agent of the desired hive accounts for."""

    kind: str
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at the host."""

    machines: Mapping[str, Machine] = field(default_factory=lambda: MappingProxyType({}))
    strays: tuple[Stray, ...] = ()
