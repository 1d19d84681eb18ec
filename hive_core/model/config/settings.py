"""What the operator may set on this host: `/etc/hive/hive.toml` as a frozen value.

Every key has a default, so an empty or absent file is valid; an unknown key is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from hive_core.model.agents.agent import AgentName, Limits, SubtreeLimits, Value
from hive_core.model.config import limits as figures
from hive_core.model.config.egress import EgressSettings
from hive_core.model.config.notify import NotifySettings
from hive_core.model.config.otel import OtelSettings
from hive_core.model.config.web import WebSettings
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
    """The agent that exists from the first start on and is restarted by itself."""

    name: AgentName = Field("root", description="Name of the agent.")
    image: ImageName | None = Field(None, description="Image; absent: the default image.")
    boot: bool = Field(default=False, description="Whether an init runs inside.")
    command: Command = Field(
        (), description="Command of the agent; with an empty command nothing runs."
    )
    autostart: bool = Field(default=True, description="Whether hived creates and starts it.")


class HostLimits(Value):
    """Limits on the number and size of things on this host."""

    depth: int = Field(32, ge=1, le=64, description="Maximum depth of the tree.")
    # topology.json is read back up to 1 MiB, which 13,000 of the longest names fill.
    agents: int = Field(
        10_000, ge=1, le=12_000, description="Maximum number of agents on this host."
    )
    children: int = Field(
        10, ge=0, le=10_000, description="Default maximum number of children of a new agent."
    )
    inbox_count: int = Field(1000, ge=1, description="Maximum number of messages in one inbox.")
    inbox_bytes: Bytes = Field(16 * MIB, ge=1024, description="Maximum size of one inbox in bytes.")
    send_rate: float = Field(50.0, gt=0, description="Messages per second to one recipient.")
    send_burst: int = Field(200, ge=1, description="Messages to one recipient in a burst.")
    attempts: int = Field(5, ge=1, description="Deliveries before a message becomes a dead letter.")
    connections: int = Field(64, ge=1, description="Maximum number of connections of one agent.")
    starts_at_once: int = Field(
        8, ge=1, le=256, description="Maximum number of machines that start at the same time."
    )
    change_rate: float = Field(100.0, gt=0, description="Recorded calls of one agent per second.")
    change_burst: int = Field(5000, ge=1, description="Recorded calls of one agent in a burst.")
    # A commit stays in the history for ever, and takes three files until it is packed.
    commit_rate: float = Field(2.0, gt=0, description="Commits of one agent per second.")
    commit_burst: int = Field(1000, ge=1, description="Commits of one agent in a burst.")
    open_jobs: int = Field(
        256, ge=1, description="Maximum number of jobs of one agent that have not ended."
    )
    events: int = Field(
        1_000_000,
        ge=1000,
        description="Maximum number of events in the audit log; older ones are deleted.",
    )
    events_bytes: Bytes = Field(
        1 << 30,
        ge=MIB,
        description="Maximum size of the audit log in bytes; older events are deleted.",
    )
    ledger: Bytes = Field(
        8 << 30,
        ge=16 * MIB,
        description="Maximum size of the ledger in bytes. When half of it is used, one branch may"
        " use an eighth at most. Calls that end something, and the operator's calls, are"
        " always accepted.",
    )
    stored: Bytes = Field(
        128 * MIB,
        ge=MIB,
        description="Maximum size of the open rows of one agent in the ledger, in bytes.",
    )
    history: Bytes = Field(
        64 * MIB,
        ge=MIB,
        description="Maximum size of the ended rows of one agent in the ledger, in bytes; the"
        " oldest are deleted.",
    )
    notes_agent: Bytes = Field(
        MIB,
        ge=1 << 16,
        description="Maximum size of one agent's notes in the audit log, in bytes; its older notes"
        " are deleted.",
    )
    notes_all: Bytes = Field(
        16 * MIB,
        ge=1 << 16,
        description="Maximum size of the notes of all agents, in bytes; those of the agent with"
        " most are deleted.",
    )
    refusals_kept: int = Field(60, ge=1, description="Refusals recorded per caller and minute.")


class RetentionSettings(Value):
    """How long things are kept, in seconds."""

    archive: float = Field(
        86_400.0, ge=0, description="How long a destroyed agent can be restored."
    )
    keys: float = Field(
        7 * 86_400.0, ge=60, description="How long a repeated call gets its first result."
    )
    jobs: float = Field(7 * 86_400.0, ge=60, description="How long an ended job can be read.")
    events: float = Field(
        180 * 86_400.0, ge=3600, description="How long an event of the audit log is kept."
    )
    dead_letters: float = Field(
        30 * 86_400.0, ge=60, description="How long a dead letter can be listed."
    )


class ApprovalSettings(Value):
    """How many requests agents may make to the operator."""

    pending: int = Field(
        5, ge=1, description="Maximum number of undecided requests of one branch of the tree."
    )
    a_day: int = Field(
        20, ge=1, description="Maximum number of new requests of one branch in a day."
    )
    expires: float = Field(
        86_400.0, gt=0, description="Seconds until an undecided request is void."
    )
    signers: AbsolutePath = Field(
        Path("/etc/hive/allowed_signers"),
        description="File with the keys whose signed tags approve.",
    )


class NixSettings(Value):
    """The generated flake. `nixpkgs` and `hive` are its usual inputs."""

    inputs: dict[ImageName, FlakeReference] = Field(
        {}, description="Inputs of the flake by name, as flake references."
    )
    system: str = Field("x86_64-linux", pattern=r"^[a-z0-9_]+-linux$", description="Platform.")
    downloads: bool = Field(
        default=False,
        description="Whether to build derivations that have network access during the build (fixed"
        " outputs).",
    )


class Paths(Value):
    """Directories of hive. The root helper has its own copy; both must agree."""

    state: AbsolutePath = Field(Path("/var/lib/hive"), description="Directory of persistent state.")
    runtime: AbsolutePath = Field(
        Path("/run/hive"), description="Directory of sockets and socket directories."
    )

    @property
    def meta(self) -> Path:
        return self.state / "meta"

    @property
    def database(self) -> Path:
        return self.state / "hive.db"

    @property
    def backup(self) -> Path:
        """A consistent copy of the database, made every hour."""
        return self.state / "hive.db.backup"

    @property
    def applied(self) -> Path:
        """The daemon's repositories of proposed and deployed commits, `<uuid>.git` each."""
        return self.state / "applied"

    @property
    def work(self) -> Path:
        """Files that hived and its jobs exchange, a folder for each job."""
        return self.state / "work"

    @property
    def served(self) -> Path:
        """Packs on their way to and from people's git; deleted when the daemon ends."""
        return self.state / "served"

    @property
    def seeds(self) -> Path:
        """The initial configuration of new agents, a clone for each kind of image."""
        return self.runtime / "seed"

    @property
    def secrets(self) -> Path:
        return self.state / "secrets"

    @property
    def events(self) -> Path:
        """The audit log as JSON lines."""
        return self.state / "events"

    @property
    def layout(self) -> Path:
        """The version of the layout of this directory, and of the ledger's schema."""
        return self.state / "layout"

    @property
    def ballast(self) -> Path:
        return self.state / "ballast"

    @property
    def operator_socket(self) -> Path:
        return self.runtime / "operator.sock"

    @property
    def login_socket(self) -> Path:
        """Where hive-web, hive-notify and hive-otel act on behalf of accounts."""
        return self.runtime / "login.sock"

    @property
    def model_control_socket(self) -> Path:
        """Where hive-model accounts for calls of models."""
        return self.runtime / "model-control.sock"

    @property
    def hand_model_socket(self) -> Path:
        """Where hive-model gets the sockets on which agents call models."""
        return self.runtime / "hand-model.sock"

    @property
    def egress_control_socket(self) -> Path:
        """Where hive-egress asks about connections and reports them."""
        return self.runtime / "egress-control.sock"

    @property
    def hand_egress_socket(self) -> Path:
        """Where hive-egress gets the sockets on which agents connect."""
        return self.runtime / "hand-egress.sock"

    @property
    def hooks_socket(self) -> Path:
        return self.runtime / "hooks.sock"

    @property
    def artifacts(self) -> Path:
        """Artifacts, each content stored once under its digest."""
        return self.state / "artifacts"

    @property
    def privd_socket(self) -> Path:
        return self.runtime / "privd.sock"

    @property
    def exits(self) -> Path:
        return self.runtime / "exits"

    def socket_directory(self, uuid: str) -> Path:
        """Shared by hived and the agent: `run/` (socket, identity) and `view/`."""
        return self.runtime / "agents" / uuid

    def socket(self, uuid: str) -> Path:
        return self.socket_directory(uuid) / "run" / "broker.sock"

    def subagents(self, uuid: str) -> Path:
        """The sockets of an agent's sub-agents, in a directory for each."""
        return self.socket_directory(uuid) / "run" / "sub"

    def identity(self, uuid: str) -> Path:
        return self.socket_directory(uuid) / "run" / "identity.json"

    def view(self, uuid: str) -> Path:
        return self.socket_directory(uuid) / "view"


class Settings(Value):
    """The whole file. Tables have the names of the fields."""

    root: RootAgentSettings = RootAgentSettings()
    default_image: ImageName = Field(HOST_IMAGE, description="Image of agents that set none.")
    images: dict[ImageName, AbsolutePath | None] = Field(
        {HOST_IMAGE: None},
        description='Prepared trees that agents may use, by name; `host` stands for "" (the'
        " machine's own /usr).",
    )
    operator_group: str = Field(
        "hive-operator", description="Group whose members may use the operator's socket."
    )
    uid_start: int = Field(0x30000000, description="First uid of the first agent's range.")
    ballast: Bytes = Field(
        8 * MIB, ge=0, description="Bytes that are reserved for when the disk is full."
    )
    agent_limits: WrittenLimits = Field(
        Limits(),
        description="Limits of an agent that sets none. Default of `disk` and `inodes`: a fifth of"
        " the file system.",
    )
    all_limits: WrittenSubtree = Field(
        SubtreeLimits(),
        description="Limits of all agents together. Default of `memory_max` and `tasks_max`: four"
        " fifths of the machine.",
    )
    limits: HostLimits = HostLimits()
    retention: RetentionSettings = RetentionSettings()
    back_off: figures.BackOffSettings = figures.BackOffSettings()
    grace: figures.GraceSettings = figures.GraceSettings()
    intake: figures.IntakeSettings = figures.IntakeSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    deploy: figures.DeploySettings = figures.DeploySettings()
    nix: NixSettings = NixSettings()
    life: figures.LifeSettings = figures.LifeSettings()
    subagents: figures.SubAgentSettings = figures.SubAgentSettings()
    tasks: figures.TaskSettings = figures.TaskSettings()
    waits: figures.WaitSettings = figures.WaitSettings()
    talk: figures.TalkSettings = figures.TalkSettings()
    triggers: figures.TriggerSettings = figures.TriggerSettings()
    artifacts: figures.ArtifactSettings = figures.ArtifactSettings()
    queues: figures.QueueSettings = figures.QueueSettings()
    budgets: figures.BudgetSettings = figures.BudgetSettings()
    models: figures.ModelSettings = figures.ModelSettings()
    egress: EgressSettings = EgressSettings()
    web: WebSettings = WebSettings()
    notify: NotifySettings = NotifySettings()
    otel: OtelSettings = OtelSettings()
    log: figures.LogSettings = figures.LogSettings()
    daemons: figures.BuiltInSettings = figures.BuiltInSettings()
    maid: checks.MaidConfig = checks.MaidConfig()
    paths: Paths = Paths()

    @model_validator(mode="before")
    @classmethod
    def _empty_path_is_none(cls, data: object) -> object:
        # TOML has no null: the image of the machine itself is written `host = ""`.
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
                only = f"only {HOST_IMAGE} and {NIX_IMAGE} have no path; other images need one"
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
            raise fault_at(
                ("maid", "checks"), "checks need the maid: set `maid = true` in [daemons]"
            )
        # Agents need the rest.
        self.maid.check_fit(self.limits.agents // 2, self.retention.archive)
        return self

    @property
    def image_names(self) -> frozenset[str]:
        return frozenset(self.images)
