"""What is observed of a machine, and the one table that names its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


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


class DesiredState(StrEnum):
    """What the ledger's `runs` row asks for."""

    RUNNING = "running"
    STOPPED = "stopped"
    SLEEPING = "sleeping"


@dataclass(frozen=True, slots=True)
class DesiredRun:
    """Whether an agent should run now. A new `nonce` asks for a fresh start."""

    agent: str
    wanted: DesiredState
    nonce: int
    grace: float = 5.0
    since: float = 0.0
    reason: str = ""


class Cpu(NamedTuple):
    """Processor time of a control group since it was made, in microseconds.

    `group` is its inode in this boot: a machine that starts anew has another one, which counts
    from 0.
    """

    group: str
    used: int


@dataclass(frozen=True, slots=True)
class Exit:
    """How a unit ended, as its ExecStopPost wrote it down.

    `asked`: systemd had a stop job for it, so somebody asked for this end. `cpu`: all that it used,
    if that was counted.
    """

    invocation: str
    result: str
    code: str
    status: str
    nonce: int = 0
    asked: bool = False
    cpu: Cpu | None = None

    @property
    def clean(self) -> bool:
        return self.result == "success" and self.status == "0"

    @property
    def reboot(self) -> bool:
        """The guest rebooted: nspawn ends with 133 and systemd starts it again by itself."""
        return self.status == "133"

    @property
    def from_outside(self) -> bool:
        """A signal ended nspawn itself: somebody on the host did that, not the agent.

        A payload that dies by a signal makes nspawn exit with 255.
        """
        return self.result == "signal"

    @property
    def number(self) -> int | None:
        """The exit status of the payload; None when nspawn itself was ended by a signal.

        255 is what the payload ended with, or that a signal ended it: nspawn tells no more.
        """
        return int(self.status) if self.code == "exited" and self.status.isdecimal() else None

    @property
    def start_timed_out(self) -> bool:
        """Whether systemd gave the start of a machine up, which took longer than `grace.start`."""
        return self.result == "timeout" and not self.asked

    @property
    def machine_text(self) -> str:
        """For people, of a machine: `killed with KILL`, `did not come up in time`."""
        return "did not come up in time" if self.start_timed_out else self.text

    @property
    def text(self) -> str:
        """For people: `killed with KILL`."""
        how = "ended" if self.code == "exited" else self.code or "failed"
        tail = "" if self.result in ("success", "exit-code", "signal") else f" ({self.result})"
        return f"{how} with {self.status or self.result}{tail}"


@dataclass(frozen=True, slots=True)
class FailureHistory:
    """What is kept of an agent's failures: back-off, parking, and which exit was counted last.

    `nonce` is that of the last counted exit: a run with a newer one has no failures yet.
    `returns`: the machine comes back by itself when its pause is over.
    """

    failures: tuple[float, ...] = ()
    next_at: float = 0.0
    parked: bool = False
    exit_seen: str = ""
    nonce: int = 0
    why: str = ""
    returns: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about one agent on this host: its unit, what root sees of it, its storage, its door.

    `since` is when the unit changed its state, in monotonic seconds. `fault` says why what runs is
    not what should run there. `copying`: a copy of its image was begun. `identity` and `view` are
    marks of what the agent is shown, `config` is the commit that it is shown,
    `stores` are the repositories of hived's that hang in its door.
    """

    uuid: str
    unit: str = ""
    active: str = "inactive"
    sub: str = "dead"
    nonce: int = 0
    spec_hash: str = ""
    invocation: str = ""
    main_pid: int = 0
    leader: int = 0
    job: str = ""
    since: float = 0.0
    slice: str = ""
    uid_base: int = 0
    verified: bool = False
    executed: bool = False
    fault: str = ""
    properties: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    exit: Exit | None = None
    node: tuple[str, ...] = ()
    mounted: bool = False
    root: bool = False
    copying: bool = False
    archived: bool = False
    socket_directory: bool = False
    listening: bool = False
    identity: int = 0
    view: int = 0
    config: str = ""
    stores: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something on the host that no agent of the desired hive accounts for."""

    kind: str
    name: str
    detail: str = ""

    @property
    def text(self) -> str:
        """For people: `unit hive-agent@x.service`."""
        return f"{self.kind} {self.name}{': ' if self.detail else ''}{self.detail}"


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at the host. `slices`: limits of the loaded slices, by unit name."""

    machines: Mapping[str, Machine] = field(default_factory=lambda: MappingProxyType({}))
    orphans: tuple[Orphan, ...] = ()
    slices: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
