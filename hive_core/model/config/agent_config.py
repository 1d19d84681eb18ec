"""`agent.toml`: what an agent's configuration tells hive and requests from its host.

Every key has a default, so an absent file is valid; an unknown key is refused with the name that
was probably meant. The agent gets what it requests only by an approval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    StrictBool,
    ValidationError,
)

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import AgentName, EgressRuleText, Limits, Runtime, Value
from hive_core.model.agents.capability import capability_fault
from hive_core.model.config.models import Alias
from hive_core.model.config.validation import faults_of
from hive_core.model.config.written_values import WrittenLimits, split_command

FILE: Final = "agent.toml"
_ARGV_MOST: Final = 32 << 10
_WORD: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _capability(text: str) -> str:
    if reason := capability_fault(text):
        raise ValueError(f"{text!r} {reason}")
    return text


def _argv(words: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in words):
        raise ValueError("must not contain NUL")
    if words and not words[0]:
        raise ValueError("must start with a program")
    if sum(len(word.encode()) + 1 for word in words) > _ARGV_MOST:
        raise ValueError(f"is longer than {_ARGV_MOST} bytes")
    return words


Capability = Annotated[str, AfterValidator(_capability), Field(max_length=100)]
Word = Annotated[str, Field(pattern=_WORD)]
Argv = Annotated[
    tuple[str, ...], BeforeValidator(split_command), Field(max_length=1024), AfterValidator(_argv)
]
ServerName = Annotated[str, Field(pattern=r"^[a-z0-9]+([_-][a-z0-9]+)*$", max_length=32)]


def _inside(path: str) -> str:
    """A path that stays below the folder that it starts at."""
    if ".." in path.split("/"):
        raise ValueError("may not have the part '..'")
    return path


RelativePath = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$"), AfterValidator(_inside)
]

ForkText = Annotated[str, Field(min_length=1, max_length=16_384)]
ToolBan = Annotated[str, Field(pattern=r"^(hide:)?[a-z][a-z0-9_]{0,63}$")]


class Reload(StrEnum):
    """How a running agent takes up changed files."""

    LIVE = "live"
    RESTART = "restart"


class Harness(Value):
    """How the agent's own program reads its configuration, in `/run/hive/config`."""

    reload: Reload = Field(
        Reload.RESTART,
        description="What a change of files does to a running agent: `live` notifies it"
        " (`hive-agent watch-config`), `restart` restarts it.",
    )
    model: str = Field(
        "", max_length=200, description="Language model; empty: the default of the harness."
    )
    instructions: RelativePath = Field(
        "AGENTS.md", description="File with the agent's instructions."
    )
    prompts: RelativePath = Field("prompts", description="Folder of prompts.")
    skills: RelativePath = Field("skills", description="Folder of skills, one folder each.")


class ConfigRequest(Value):
    """What the agent requests of its host, granted by the approval. Absent: no change."""

    capabilities: Annotated[tuple[Capability, ...], Field(max_length=64)] | None = Field(
        None, description="All capabilities of the agent; one that is not listed is revoked."
    )
    network: Word | None = Field(
        None,
        description="Network profile: `none`, `egress-allowlist` (what `[egress]` of hive.toml"
        " allows) or `host` (any host and port).",
    )
    egress: Annotated[tuple[EgressRuleText, ...], Field(min_length=1, max_length=256)] | None = (
        Field(
            None,
            description="Where it may connect to, of what hive.toml allows: `NAME:PORT`, or"
            " `*.NAME:PORT` for all names with one or more labels before NAME.",
        )
    )
    mounts: Annotated[tuple[Literal["meta", "applied"], ...], Field(max_length=2)] | None = Field(
        None, description="Read-only views: `/meta` by `meta.read`, `/applied` by `applied.read`."
    )
    secrets: Annotated[tuple[Word, ...], Field(max_length=64)] | None = Field(
        None, description="Keys of secrets, each a capability `secret:KEY`."
    )
    limits: WrittenLimits = Field(
        Limits(),
        description="Limits of its machine; one that is not listed does not change. A size is a"
        ' number of bytes or a text such as `"512M"`.',
    )
    command: Argv | None = Field(
        None,
        description="Command of the agent: a list of words, or a text that is split as a shell"
        " splits it (no shell runs it). With an empty command nothing runs, and mail"
        " waits.",
    )
    boot: bool | None = Field(None, description="Whether an init runs inside.")
    harness: bool | None = Field(
        None, description="Whether the agent counts as healthy only after it called `hello`."
    )
    runtime: Runtime | None = Field(
        None,
        description="What runs its model: `builtin`, a coding CLI (`claude`, `codex`, `opencode`),"
        " `acp` for the program of `[acp]`, or `scripted` for tests. Without a command the agent"
        " then runs its session.",
    )
    model: Alias | None = Field(None, description="Alias of its model in models.toml.")

    def capabilities_after(self, held: Iterable[str]) -> tuple[str, ...]:
        """The capabilities of an agent that holds `held` once this is granted; sorted.

        `capabilities` lists them all. `network`, `mounts` and `secrets` replace those of their own
        kind and leave the others alone.
        """
        capabilities = set(held if self.capabilities is None else self.capabilities)
        for is_of_kind, wanted in self._kinds():
            capabilities = {
                capability for capability in capabilities if not is_of_kind(capability)
            } | wanted
        return tuple(sorted(capabilities))

    def _kinds(self) -> Iterator[tuple[Callable[[str], bool], set[str]]]:
        if self.network is not None:
            wanted = {f"network:{self.network}"} if self.network != "none" else set()
            yield lambda capability: capability.startswith("network:"), wanted
        if self.mounts is not None:
            yield {"meta.read", "applied.read"}.__contains__, {f"{it}.read" for it in self.mounts}
        if self.secrets is not None:
            yield (
                lambda capability: capability.startswith("secret:"),
                {f"secret:{it}" for it in self.secrets},
            )


class SessionConfig(Value):
    """Limits of the agent's session (`hive-agent session`)."""

    rounds: int | None = Field(
        None, ge=1, le=1000, strict=True,
        description="Requests of one turn to the model; one more follows, in which only the report"
        " is allowed. Default 15, for a queen 30.",
    )  # fmt: skip
    compact_at: float = Field(
        0.75, ge=0.1, le=0.95, strict=True,
        description="Share of the model's context at which a conversation is shortened.",
    )  # fmt: skip
    idle: float = Field(
        60, ge=0, le=86_400, strict=True,
        description="Seconds until an idle runtime ends; 0: at once.",
    )  # fmt: skip


class MemoryConfig(Value):
    """What the session remembers over its conversations: artifacts `memory/SCOPE/KIND/NAME`."""

    enabled: bool = Field(
        default=False, strict=True, description="Whether the session recalls and reflects."
    )
    every: int = Field(
        5, ge=1, le=1000, strict=True, description="Turns of a conversation between reflections."
    )
    cooldown: int = Field(
        120, ge=0, le=86_400, strict=True, description="Seconds between two reflections."
    )
    tokens: int = Field(
        50_000, ge=0, le=10**9, strict=True,
        description="Tokens that recall and reflection may take in a day (UTC).",
    )  # fmt: skip
    entries: int = Field(
        100, ge=1, le=200, strict=True,
        description="Number of memories of a scope, of at most 4 KiB each.",
    )  # fmt: skip
    recall: int = Field(
        3, ge=0, le=3, strict=True, description="Memories of a scope that a turn begins with."
    )
    global_of: AgentName | Literal[""] = Field(
        "",
        description="Agent whose memories of the scope `global` are recalled too; the agent's own"
        " name: it writes them. Empty: none.",
    )


class JudgeConfig(Value):
    """The judge of the session, for results of tasks that the agent gave with `criteria`."""

    enabled: bool = Field(
        default=True, strict=True,
        description="Whether the model judges; otherwise the agent decides on each result itself.",
    )  # fmt: skip
    tokens: int = Field(
        200_000, ge=0, le=10**9, strict=True,
        description="Tokens that verdicts may take in a day (UTC).",
    )  # fmt: skip


class SubagentsConfig(Value):
    """Sub-agents of the session (`hive_fork_subagent`), with the capability `subagents`."""

    enabled: bool = Field(
        default=True, strict=True, description="Whether the session forks sub-agents at all."
    )
    agents_dir: RelativePath = Field(
        "agents", description="Folder of the named sub-agents, a file `NAME.md` each."
    )
    max_depth: int = Field(
        3, ge=1, le=16, strict=True,
        description="How deep sub-agents may be nested; the agent itself has depth 0.",
    )  # fmt: skip
    ipc_mode: Literal["artifact"] = Field(
        "artifact", description="How a result comes back: as a file that the session reads."
    )
    default_model: Alias | Literal[""] = Field(
        "", description="Model of named sub-agents that name none; empty: that of the agent."
    )
    timeout_seconds: int = Field(
        300, ge=1, le=86_400, strict=True,
        description="Seconds after which a sub-agent and all that it started are killed.",
    )  # fmt: skip
    cleanup_temp_files: bool = Field(
        default=True,
        strict=True,
        description="Whether the files of a sub-agent are removed when it ends.",
    )
    allow_clones: bool = Field(
        default=True, strict=True, description="Whether the session forks clones of itself."
    )
    max_clone_fork_depth: int = Field(
        1, ge=0, le=16, strict=True,
        description="How many clones may stand in a line; an agent of this clone depth forks none.",
    )  # fmt: skip
    clone_sysprompt_followup: ForkText | None = Field(
        None, description="Text behind the system prompt of a clone, after the workspace section."
    )
    clone_userprompt_prefix: ForkText | None = Field(
        None, description="Text in front of the task of a clone."
    )
    clone_disable_tools: Annotated[tuple[ToolBan, ...], Field(max_length=128)] = Field(
        (),
        description="Tools that a clone may not call. It still sees them, so that the provider's"
        " cache holds; `hide:NAME` removes one from its tools.",
    )


class McpServer(Value):
    """An MCP server of the agent's own: a program in its container, as the user of its tools."""

    command: Annotated[Argv, Field(min_length=1)] = Field(
        description="Program that speaks MCP on standard input and output, with its arguments."
    )
    required: StrictBool = Field(
        default=False,
        description="Whether no turn begins without it. One that is not required and fails is"
        " logged, and its tools are missing.",
    )
    tools: (
        Annotated[tuple[Annotated[str, Field(max_length=128)], ...], Field(max_length=64)] | None
    ) = Field(
        None, description="Names of its tools that the model is offered. Absent: all, at most 64."
    )


class AcpProgram(Value):
    """The program that runs the model of an agent whose runtime is `acp`."""

    command: Argv = Field(
        (),
        description="Program in the agent's container that speaks the Agent Client Protocol on"
        " standard input and output, with its arguments.",
    )
    environment: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)
    ] = Field({}, description="Further environment variables of this program.")


class AgentConfig(Value):
    """The whole file. Tables have the names of the fields."""

    harness: Harness = Harness()
    session: SessionConfig = SessionConfig()
    memory: MemoryConfig = MemoryConfig()
    judge: JudgeConfig = JudgeConfig()
    subagents: SubagentsConfig = SubagentsConfig()
    request: ConfigRequest = ConfigRequest()
    mcp: Annotated[dict[ServerName, McpServer], Field(max_length=8)] = Field(
        {}, description="MCP servers of the agent's own, by name."
    )
    acp: AcpProgram = AcpProgram()
    settings: dict[str, JsonValue] = Field(
        {}, description="For the agent's own program; hive does not read it."
    )


def parse_agent_config(data: Mapping[str, object]) -> AgentConfig:
    """The configuration in a parsed file. InvalidArgument names the first key that is wrong."""
    try:
        return AgentConfig.model_validate(data)
    except ValidationError as error:
        fault = faults_of(AgentConfig, error)[0]
        raise InvalidArgument(f"{FILE}: {fault.key}: {fault.reason}", field=fault.key) from error
