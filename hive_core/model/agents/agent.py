"""The spec of an agent: what `agents/<name>.json` of the meta repo declares."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from hive_core.model.names import name_fault, short
from hive_core.model.wire.egress import canonical_rule

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_name(name: str) -> str:
    """The name itself, or ValueError that names the broken rule."""
    if fault := name_fault(name):
        raise ValueError(f"{name!r} {fault}")
    return name


AgentName = Annotated[str, AfterValidator(check_name)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
NarHash = Annotated[str, Field(pattern=r"^sha256-[A-Za-z0-9+/]{43}=$")]
StorePath = Annotated[
    str, Field(pattern=r"^/nix/store/[0-9a-df-np-sv-z]{32}-[A-Za-z0-9+._?=-]{1,200}$")
]
EgressRuleText = Annotated[str, Field(max_length=300), AfterValidator(canonical_rule)]


class Value(BaseModel):
    """A frozen pydantic value that refuses unknown keys."""

    # The validator is built on first use, so that hived starts sooner.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, defer_build=True)


class Role(StrEnum):
    """The purpose of an agent. `kernel` is the daemon itself and never an agent."""

    DAEMON = "daemon"
    AGENT = "agent"
    ARCHITECT = "architect"
    LEAD = "lead"
    WORKER = "worker"
    TASK = "task"


class Tier(StrEnum):
    STRATEGIC = "strategic"
    TACTICAL = "tactical"
    OPERATIONAL = "operational"


class AfterTask(StrEnum):
    """What an agent does when its last task has ended."""

    STAYS = "stays"
    SLEEPS = "sleeps"
    EXITS = "exits"


class Profile(StrEnum):
    """Which built-in daemon an agent of role `daemon` is; a host has at most one of each."""

    QUEEN = "queen"
    MAID = "maid"


class Runtime(StrEnum):
    """The program that runs the model of an agent, inside `hive-agent session`."""

    BUILTIN = "builtin"
    SCRIPTED = "scripted"
    CLAUDE = "claude"
    CODEX = "codex"
    OPENCODE = "opencode"
    ACP = "acp"


# The runtimes that are coding CLIs, which `hive runtime install` installs on the host.
CLIS: Final = (Runtime.CLAUDE, Runtime.CODEX, Runtime.OPENCODE)
# The command of an agent with a runtime whose spec has no command.
SESSION: Final = ("hive-agent", "session")
MIB = 1 << 20


class Limits(Value):
    """Limits of one machine, or of a subtree. Absent: the host's default."""

    memory_max: int | None = Field(
        None, ge=16 * MIB, le=1 << 50, description="Memory limit in bytes."
    )
    memory_high: int | None = Field(
        None,
        ge=16 * MIB,
        le=1 << 50,
        description="Memory in bytes above which the kernel slows the agent down.",
    )
    tasks_max: int | None = Field(
        None, ge=8, le=1 << 22, description="Maximum number of processes and threads."
    )
    cpu_quota: int | None = Field(
        None, ge=1, le=100_000, description="CPU time limit in percent of one core."
    )
    cpu_weight: int | None = Field(
        None, ge=1, le=10_000, description="CPU weight relative to siblings."
    )
    io_weight: int | None = Field(
        None, ge=1, le=10_000, description="I/O weight relative to siblings."
    )
    disk: int | None = Field(None, ge=MIB, le=1 << 50, description="Disk space limit in bytes.")
    inodes: int | None = Field(
        None, ge=100, le=1 << 40, description="Maximum number of files and directories."
    )


class SubtreeLimits(Value):
    """Limits of an agent together with all its descendants."""

    memory_max: int | None = Field(
        None, ge=16 * MIB, le=1 << 50, description="Memory limit in bytes."
    )
    tasks_max: int | None = Field(
        None, ge=8, le=1 << 22, description="Maximum number of processes and threads."
    )
    cpu_quota: int | None = Field(
        None, ge=1, le=100_000, description="CPU time limit in percent of one core."
    )
    agents: int | None = Field(None, ge=0, le=100_000, description="Maximum number of descendants.")


# Tasks that the daemon offers to an agent at once where its spec sets no number.
OFFERED_MOST: Final = 5
# Read at every decision, and for every agent at every commit; the conversion takes 1 us.
_text = lru_cache(maxsize=1 << 17)(str)


class AgentSpec(Value):
    """One agent as committed. The file name is the agent's name; the UUID is its identity."""

    uuid: UUID
    role: Role = Role.AGENT
    tier: Tier = Tier.OPERATIONAL
    title: str = Field("", max_length=200)
    capabilities: tuple[str, ...] = ()
    allow: tuple[UUID, ...] = Field(
        (), description="UUIDs of agents that this one may also write to."
    )
    image: str = "host"
    boot: bool = False
    command: tuple[str, ...] = ()
    limits: Limits = Limits()
    subtree: SubtreeLimits | None = None
    max_children: int = Field(10, ge=0, le=10_000)
    config: Commit | None = Field(None, description="The deployed commit of its configuration.")
    nar: NarHash | None = Field(None, description="SHA-256 of the files of that commit as a NAR.")
    system: StorePath | None = Field(
        None, description="Store path of the system that the `nix` image runs."
    )
    harness: bool = Field(
        default=False,
        description="Whether the agent counts as healthy only after it called `hello`.",
    )
    after_task: AfterTask | None = Field(
        None,
        description="What the agent does when its last task has ended; absent: the default of its"
        " role.",
    )
    wakes: bool = Field(default=False, description="Whether mail wakes the agent when it sleeps.")
    parallel: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum number of tasks at once; absent: as many as its program takes.",
    )
    tools: tuple[str, ...] | None = Field(
        None, max_length=256, description="Tools that the agent may use; absent: those of its role."
    )
    require_plan: bool = Field(
        default=False,
        description="Whether a plan must be approved before any work on its tasks starts.",
    )
    max_turns: int | None = Field(
        None, ge=1, le=1_000_000, description="Maximum number of turns of each task."
    )
    max_depth: int | None = Field(
        None, ge=0, le=64, description="Maximum number of levels below the agent."
    )
    profile: Profile | None = None
    runtime: Runtime | None = Field(
        None, description="What runs its model; absent: nothing, only its command runs."
    )
    model: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Alias of its model in models.toml; absent: that of its tier.",
    )
    egress: tuple[EgressRuleText, ...] = Field(
        (),
        max_length=256,
        description="Where the agent may connect to, of what hive.toml allows; empty: all of it.",
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_removed_fields(cls, data: object) -> object:
        """Accept specs of older versions, in which `revoke` chose how access ends."""
        if isinstance(data, dict) and "revoke" in data:
            return {key: value for key, value in data.items() if key != "revoke"}
        return data

    @cached_property
    def id(self) -> str:
        """The UUID as text: the key of everything durable."""
        return _text(self.uuid)

    @override
    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> AgentSpec:
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("id", None)  # the UUID of the copy may be another one
        return copied

    @property
    def at_once(self) -> int:
        """How many tasks the daemon offers to the agent at once; a session works on one."""
        return self.parallel or (OFFERED_MOST if self.runtime is None else 1)

    @property
    def has_phases(self) -> bool:
        """Whether it is a queen with a model; the built-in queen works by rules, without phases."""
        return self.profile is Profile.QUEEN and self.runtime is not None

    @property
    def program(self) -> tuple[str, ...]:
        """The words that its machine runs: its command, otherwise the session of its runtime."""
        return self.command or (() if self.runtime is None else SESSION)

    @property
    def boots(self) -> bool:
        """Whether an init runs inside; a system of the `nix` image always has one."""
        return self.boot or self.image == "nix"

    @property
    def short(self) -> str:
        """The first 8 hex digits of the UUID: part of the names of directory and slice."""
        return short(_text(self.uuid))
