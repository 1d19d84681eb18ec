"""What is observed of a machine, and the names of its states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class State(StrEnum):
    """The state of an agent's machine: observed, never stored."""

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
    """The state that the `runs` row of the ledger asks for."""

    RUNNING = "running"
    STOPPED = "stopped"
    SLEEPING = "sleeping"


@dataclass(frozen=True, slots=True)
class DesiredRun:
    """Whether an agent should run. A new `nonce` asks for a fresh start."""

    agent: str
    wanted: DesiredState
    nonce: int
    grace: float = 5.0
    since: float = 0.0
    reason: str = ""


class Cpu(NamedTuple):
    """CPU time of a control group since it was made, in microseconds.

    `group` is its inode in this boot: a machine that starts again has another one, which counts
    from 0.
    """

    group: str
    used: int


class Reading(NamedTuple):
    """What the kernel counts for a running machine. `memory` is in bytes; None: not counted."""

    cpu: Cpu
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How a unit ended, as its ExecStopPost recorded it.

    `asked`: systemd had a stop job for the unit, so the exit was requested. `cpu`: all CPU time
    that the unit used, if it was counted.
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
        """The guest rebooted: nspawn exits with 133 and systemd starts the unit again."""
        return self.status == "133"

    @property
    def from_outside(self) -> bool:
        """A signal ended nspawn itself: it came from the host, not from the agent.

        A payload that dies of a signal makes nspawn exit with 255.
        """
        return self.result == "signal"

    @property
    def number(self) -> int | None:
        """The exit status of the payload; None when a signal ended nspawn itself.

        255 is the status of the payload, or means that a signal ended it: nspawn does not tell
        which.
        """
        return int(self.status) if self.code == "exited" and self.status.isdecimal() else None

    @property
    def start_timed_out(self) -> bool:
        """Whether systemd gave up the start of a machine, which took longer than `grace.start`."""
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
    """The failures of an agent: back-off, parking, and which exit was counted last.

    `nonce` is that of the last counted exit: a run with a newer one has no failures yet. `returns`:
    the machine is started again when its pause is over.
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
    """Facts about one agent on this host: unit, processes, storage, socket directory.

    `since` is when the unit changed its state, in monotonic seconds. `fault` says why what runs is
    not what should run there. `copying`: a copy of its image was begun. `identity` and `view` mark
    the version of what the agent is shown, `config` is the commit that it is shown, and `stores`
    are hived's repositories that are mounted in its socket directory.
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
    """A unit, mount or file on the host that belongs to no agent of the desired hive."""

    kind: str
    name: str
    detail: str = ""

    @property
    def text(self) -> str:
        """For people: `unit hive-agent@x.service`."""
        return f"{self.kind} {self.name}{': ' if self.detail else ''}{self.detail}"


@dataclass(frozen=True, slots=True)
class Observed:
    """One observation of the host. `slices`: limits of the loaded slices, by unit name."""

    machines: Mapping[str, Machine] = field(default_factory=lambda: MappingProxyType({}))
    orphans: tuple[Orphan, ...] = ()
    slices: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
