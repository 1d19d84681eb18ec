"""What an agent should be: the spec that stands in `agents/<name>.json` of the meta repo."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hive_core.model.names import name_fault, short


def check_name(name: str) -> str:
    """The name itself, or ValueError with the rule that it breaks."""
    if fault := name_fault(name):
        raise ValueError(f"{name!r} {fault}")
    return name


AgentName = Annotated[str, AfterValidator(check_name)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
NarHash = Annotated[str, Field(pattern=r"^sha256-[A-Za-z0-9+/]{43}=$")]
StorePath = Annotated[
    str, Field(pattern=r"^/nix/store/[0-9a-df-np-sv-z]{32}-[A-Za-z0-9+._?=-]{1,200}$")
]


class Value(BaseModel):
    """A frozen pydantic value that refuses unknown keys."""

    # Built when it is first used: hived starts sooner.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, defer_build=True)


class Role(StrEnum):
    """What an agent is for; `kernel` is the daemon itself and never an agent."""

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
    """Which of the built-in daemons an agent of role `daemon` is; one of each on a host."""

    QUEEN = "queen"
    MAID = "maid"


MIB = 1 << 20


class Limits(Value):
    """Bounds of one machine, or of a subtree. Absent = the host's default."""

    memory_max: int | None = Field(None, ge=16 * MIB, le=1 << 50, description="Bytes of memory.")
    memory_high: int | None = Field(
        None, ge=16 * MIB, le=1 << 50, description="Bytes above which the kernel slows the agent."
    )
    tasks_max: int | None = Field(None, ge=8, le=1 << 22, description="Processes and threads.")
    cpu_quota: int | None = Field(None, ge=1, le=100_000, description="Percent of one core.")
    cpu_weight: int | None = Field(None, ge=1, le=10_000, description="Share against siblings.")
    io_weight: int | None = Field(None, ge=1, le=10_000, description="Share against siblings.")
    disk: int | None = Field(None, ge=MIB, le=1 << 50, description="Bytes that its files may take.")
    inodes: int | None = Field(
        None, ge=100, le=1 << 40, description="Files and directories that it may have."
    )


class SubtreeLimits(Value):
    """Bounds of an agent with all its descendants together."""

    memory_max: int | None = Field(None, ge=16 * MIB, le=1 << 50, description="Bytes of memory.")
    tasks_max: int | None = Field(None, ge=8, le=1 << 22, description="Processes and threads.")
    cpu_quota: int | None = Field(None, ge=1, le=100_000, description="Percent of one core.")
    agents: int | None = Field(None, ge=0, le=100_000, description="Descendants at most.")


# Tasks that an agent is offered at once where its spec says nothing.
OFFERED_MOST: Final = 5
# Asked for at every decision and for every agent at every commit; making it anew takes 1 us.
_text = lru_cache(maxsize=1 << 17)(str)


class AgentSpec(Value):
    """One agent as committed. The name is the file's; the UUID is the identity."""

    uuid: UUID
    role: Role = Role.AGENT
    tier: Tier = Tier.OPERATIONAL
    title: str = Field("", max_length=200)
    capabilities: tuple[str, ...] = ()
    allow: tuple[UUID, ...] = Field((), description="Agents that this one may send to beside H12.")
    image: str = "host"
    boot: bool = False
    command: tuple[str, ...] = ()
    limits: Limits = Limits()
    subtree: SubtreeLimits | None = None
    max_children: int = Field(10, ge=0, le=10_000)
    config: Commit | None = Field(None, description="The deployed commit of its configuration.")
    nar: NarHash | None = Field(None, description="SHA-256 of the files of that commit as a NAR.")
    system: StorePath | None = Field(None, description="What the `nix` image runs.")
    harness: bool = Field(default=False, description="Healthy only after it has said hello.")
    after_task: AfterTask | None = Field(
        None, description="What it does when its last task has ended; absent: as its role does."
    )
    wakes: bool = Field(default=False, description="Mail wakes it when it sleeps.")
    parallel: int | None = Field(
        None, ge=1, le=1000, description="Tasks that it has at once; absent: as its program says."
    )
    tools: tuple[str, ...] | None = Field(
        None, max_length=256, description="Tools that it may use; absent: as its role may."
    )
    require_plan: bool = Field(
        default=False, description="Nothing of its tasks is executed before a plan is approved."
    )
    max_turns: int | None = Field(
        None, ge=1, le=1_000_000, description="Turns of each of its tasks at most."
    )
    max_depth: int | None = Field(None, ge=0, le=64, description="Levels below it at most.")
    profile: Profile | None = None
    model: str | None = Field(
        None, min_length=1, max_length=200, description="Its model; absent: that of its tier."
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_removed_fields(cls, given: object) -> object:
        """Read specs of an older hive: `revoke` said how access ends, which has one way now."""
        if isinstance(given, dict) and "revoke" in given:
            return {key: value for key, value in given.items() if key != "revoke"}
        return given

    @property
    def id(self) -> str:
        """The UUID as text: the key of everything durable."""
        return _text(self.uuid)

    @property
    def at_once(self) -> int:
        """How many tasks the daemon offers it at once."""
        return self.parallel or OFFERED_MOST

    @property
    def boots(self) -> bool:
        """Whether an init runs inside; a system of the `nix` image always has one."""
        return self.boot or self.image == "nix"

    @property
    def short(self) -> str:
        """First 8 hex digits: directory and slice part."""
        return short(_text(self.uuid))
