"""What the operator may set on this host: `/etc/hive/hive.toml` as a frozen value.

Every figure has a default, so an empty or absent file is a valid one; an unknown key is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from hive_core.model.agents.agent import AgentName, Limits, SubtreeLimits, Value
from hive_core.model.config import limits as figures
from hive_core.model.config.written_values import (
    Bytes,
    Command,
    WrittenLimits,
    WrittenSubtree,
    fault_at,
)
from hive_core.model.work import checks

MIB = 1 << 20
UID_RANGE = 65536
UID_STARTS = range(524288, 1874853888, UID_RANGE)  # https://systemd.io/UIDS-GIDS: containers
HOST_IMAGE = "host"
NIX_IMAGE = "nix"


def _absolute(path: Path) -> Path:
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} must be an absolute path without '..'")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
FlakeReference = Annotated[str, Field(pattern=r"^[^\"\\$\x00-\x1f\x7f]{1,500}$")]
ImageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9.-]{0,62}$")]


class RootAgentSettings(Value):
    """The agent that exists from the first start on and comes back by itself."""

    name: AgentName = Field("root", description="What it is called.")
    image: ImageName | None = Field(None, description="Image; the default one when absent.")
    boot: bool = Field(default=False, description="Whether an init runs inside.")
    command: Command = Field((), description="What it runs; an empty command holds.")
    autostart: bool = Field(default=True, description="Create and start it when hived starts.")


class HostLimits(Value):
    """How much of everything there may be."""

    depth: int = Field(32, ge=1, le=64, description="Levels of the tree.")
    # topology.json is read back up to 1 MiB, which 13,000 of the longest names fill.
    agents: int = Field(10_000, ge=1, le=12_000, description="Agents on this host.")
    children: int = Field(10, ge=0, le=10_000, description="Children of a new agent.")
    inbox_count: int = Field(1000, ge=1, description="Messages in one inbox.")
    inbox_bytes: Bytes = Field(16 * MIB, ge=1024, description="Bytes in one inbox.")
    send_rate: float = Field(50.0, gt=0, description="Messages a second to one recipient.")
    send_burst: int = Field(200, ge=1, description="Messages to one recipient at once.")
    attempts: int = Field(5, ge=1, description="Deliveries before a message is a dead letter.")
    connections: int = Field(64, ge=1, description="Connections of one agent.")
    starts_at_once: int = Field(8, ge=1, le=256, description="Machines that start at once.")
    change_rate: float = Field(100.0, gt=0, description="Recorded calls of one agent a second.")
    change_burst: int = Field(5000, ge=1, description="Recorded calls of one agent at once.")
    # A commit stays in the history for ever, and each takes three files until it is packed.
    commit_rate: float = Field(2.0, gt=0, description="Commits of one agent a second.")
    commit_burst: int = Field(1000, ge=1, description="Commits of one agent at once.")
    open_jobs: int = Field(256, ge=1, description="Jobs of one agent that have not ended.")
    events: int = Field(1_000_000, ge=1000, description="Lines of the audit log; older ones go.")
    events_bytes: Bytes = Field(
        1 << 30, ge=MIB, description="Bytes of the audit log; older lines go."
    )
    ledger: Bytes = Field(
        8 << 30, ge=16 * MIB, description="Bytes of the ledger; from half of it on, one branch has"
        " an eighth at most. What ends something, and the operator, always go on.",
    )  # fmt: skip
    stored: Bytes = Field(
        128 * MIB, ge=MIB, description="Bytes of what one agent has in the ledger and is not over."
    )
    history: Bytes = Field(
        64 * MIB, ge=MIB, description="Bytes of what is over and one agent's; its oldest goes."
    )
    notes_agent: Bytes = Field(
        MIB, ge=1 << 16, description="Bytes of what one agent notes in the log; its older notes go."
    )
    notes_all: Bytes = Field(
        16 * MIB, ge=1 << 16, description="Bytes of what all agents note; of whoever has most go."
    )
    refusals_kept: int = Field(60, ge=1, description="Refusals recorded per caller and minute.")


class RetentionSettings(Value):
    """How long things are kept, in seconds."""

    archive: float = Field(86_400.0, ge=0, description="A destroyed agent can be restored.")
    keys: float = Field(7 * 86_400.0, ge=60, description="A repeated call gets its first result.")
    jobs: float = Field(7 * 86_400.0, ge=60, description="An ended job can be read.")
    events: float = Field(180 * 86_400.0, ge=3600, description="A line of the audit log is kept.")
    dead_letters: float = Field(30 * 86_400.0, ge=60, description="A dead letter can be listed.")


class GraceSettings(Value):
    """How long things may take, in seconds."""

    stop: float = Field(5.0, ge=0, le=30, description="Between the wish to stop and the kill.")
    start: float = Field(120.0, gt=0, description="Until a machine must run.")
    lease: float = Field(60.0, ge=1, le=3600, description="Until an unacked message returns.")
    bus: float = Field(10.0, gt=0, description="For one call to systemd.")
    privd: float = Field(60.0, gt=0, description="For one action of the root helper.")
    crash_lines: int = Field(20, ge=0, le=200, description="Log lines in a crash message.")


class ApprovalSettings(Value):
    """How much may be asked of the operator."""

    pending: int = Field(5, ge=1, description="Undecided ones of one subtree.")
    a_day: int = Field(20, ge=1, description="New ones of one subtree in a day.")
    expires: float = Field(86_400.0, gt=0, description="Seconds until one is void.")
    signers: AbsolutePath = Field(
        Path("/etc/hive/allowed_signers"), description="Whose signed tags approve."
    )


class NixSettings(Value):
    """The generated flake. `nixpkgs` and `hive` are its usual inputs."""

    inputs: dict[ImageName, FlakeReference] = Field(
        {}, description="Inputs of the flake by name, as flake references."
    )
    system: str = Field("x86_64-linux", pattern=r"^[a-z0-9_]+-linux$", description="Platform.")
    downloads: bool = Field(
        default=False, description="Build what has the network meanwhile (fixed outputs)."
    )


class Paths(Value):
    """Where things lie. The root helper knows its own; these must agree."""

    state: AbsolutePath = Field(Path("/var/lib/hive"), description="What is kept.")
    runtime: AbsolutePath = Field(Path("/run/hive"), description="Sockets and doors.")

    @property
    def meta(self) -> Path:
        return self.state / "meta"

    @property
    def database(self) -> Path:
        return self.state / "hive.db"

    @property
    def backup(self) -> Path:
        """A sound copy of the database, made every hour."""
        return self.state / "hive.db.backup"

    @property
    def applied(self) -> Path:
        """The daemon's repositories of what was proposed and deployed, `<uuid>.git` each."""
        return self.state / "applied"

    @property
    def work(self) -> Path:
        """What hived and its jobs hand each other, a folder for each job."""
        return self.state / "work"

    @property
    def served(self) -> Path:
        """Packs on their way to and from people's git; nothing in it outlives the daemon."""
        return self.state / "served"

    @property
    def seeds(self) -> Path:
        """What new agents start with, a clone for each kind of image."""
        return self.runtime / "seed"

    @property
    def secrets(self) -> Path:
        return self.state / "secrets"

    @property
    def events(self) -> Path:
        """The log as JSON lines."""
        return self.state / "events"

    @property
    def layout(self) -> Path:
        """Which layout all this has, and which schema the ledger."""
        return self.state / "layout"

    @property
    def ballast(self) -> Path:
        return self.state / "ballast"

    @property
    def operator_socket(self) -> Path:
        return self.runtime / "operator.sock"

    @property
    def hooks_socket(self) -> Path:
        return self.runtime / "hooks.sock"

    @property
    def artifacts(self) -> Path:
        """What agents keep for each other, each content once under its digest."""
        return self.state / "artifacts"

    @property
    def privd_socket(self) -> Path:
        return self.runtime / "privd.sock"

    @property
    def exits(self) -> Path:
        return self.runtime / "exits"

    def socket_directory(self, uuid: str) -> Path:
        """What hived and the agent share: `run/` (socket, identity) and `view/`."""
        return self.runtime / "agents" / uuid

    def socket(self, uuid: str) -> Path:
        return self.socket_directory(uuid) / "run" / "broker.sock"

    def identity(self, uuid: str) -> Path:
        return self.socket_directory(uuid) / "run" / "identity.json"

    def view(self, uuid: str) -> Path:
        return self.socket_directory(uuid) / "view"


class Settings(Value):
    """The whole file. Tables have the names of the fields."""

    root: RootAgentSettings = RootAgentSettings()
    default_image: ImageName = Field(HOST_IMAGE, description="Image of agents that name none.")
    images: dict[ImageName, AbsolutePath | None] = Field(
        {HOST_IMAGE: None},
        description='Prepared trees that agents may ask for, by name; `host` stands for ""'
        " (the machine's own /usr).",
    )
    operator_group: str = Field("hive-operator", description="Who may use the operator's socket.")
    uid_start: int = Field(0x30000000, description="First uid of the first agent's range.")
    ballast: Bytes = Field(8 * MIB, ge=0, description="Bytes held back for when the disk is full.")
    agent_limits: WrittenLimits = Field(
        Limits(), description="Limits of an agent that sets none. A `disk` or `inodes` that is not"
        " set is a fifth of what the file system has.",
    )  # fmt: skip
    all_limits: WrittenSubtree = Field(
        SubtreeLimits(), description="All agents together. A `memory_max` or `tasks_max` that is"
        " not set is four fifths of what the machine has.",
    )  # fmt: skip
    limits: HostLimits = HostLimits()
    retention: RetentionSettings = RetentionSettings()
    back_off: figures.BackOffSettings = figures.BackOffSettings()
    grace: GraceSettings = GraceSettings()
    intake: figures.IntakeSettings = figures.IntakeSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    deploy: figures.DeploySettings = figures.DeploySettings()
    nix: NixSettings = NixSettings()
    life: figures.LifeSettings = figures.LifeSettings()
    tasks: figures.TaskSettings = figures.TaskSettings()
    waits: figures.WaitSettings = figures.WaitSettings()
    talk: figures.TalkSettings = figures.TalkSettings()
    triggers: figures.TriggerSettings = figures.TriggerSettings()
    artifacts: figures.ArtifactSettings = figures.ArtifactSettings()
    queues: figures.QueueSettings = figures.QueueSettings()
    budgets: figures.BudgetSettings = figures.BudgetSettings()
    models: figures.ModelSettings = figures.ModelSettings()
    log: figures.LogSettings = figures.LogSettings()
    daemons: figures.BuiltInSettings = figures.BuiltInSettings()
    maid: checks.MaidConfig = checks.MaidConfig()
    paths: Paths = Paths()

    @model_validator(mode="before")
    @classmethod
    def _empty_path_is_none(cls, data: object) -> object:
        # TOML has no null: an image of the machine itself is written `host = ""`.
        if isinstance(data, dict) and isinstance(data.get("images"), dict):
            images = {name: path or None for name, path in data["images"].items()}
            return {**data, "images": {HOST_IMAGE: None, **images}}
        return data

    @model_validator(mode="after")
    def _check_images_and_uids(self) -> Self:
        wanted = {("default_image",): self.default_image, ("root", "image"): self.root.image}
        for place, name in wanted.items():
            if name is not None and name not in self.images:
                there = ", ".join(sorted(self.images))
                raise fault_at(place, f"image {name} is not in [images]; there are {there}")
        for name, path in self.images.items():
            if (path is None) != (name in (HOST_IMAGE, NIX_IMAGE)):
                only = f"only {HOST_IMAGE} and {NIX_IMAGE} have no path, the others need one"
                raise fault_at(("images", name), only)
        if self.uid_start not in UID_STARTS:
            raise fault_at(
                ("uid_start",), f"{self.uid_start} does not fit; allowed are {UID_STARTS[0]},"
                f" {UID_STARTS[1]} and so on in steps of {UID_RANGE}, below {UID_STARTS.stop}",
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _check_maid_is_enabled(self) -> Self:
        if self.maid.checks and not self.daemons.maid:
            raise fault_at(("maid", "checks"), "nobody does them: [daemons] has no `maid = true`")
        # Agents need the rest.
        self.maid.check_fit(self.limits.agents // 2, self.retention.archive)
        return self

    @property
    def image_names(self) -> frozenset[str]:
        return frozenset(self.images)
