"""`agent.toml`: what an agent's configuration says to hive, and what it asks of its host.

Every key has a default, so an absent file is a valid one; an unknown key is refused with the name
that was probably meant. What an agent asks for it gets by an approval and in no other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Limits, Value
from hive_core.model.agents.capability import capability_fault
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
RelativePath = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$")]


class Reload(StrEnum):
    """How a running agent takes up files that changed."""

    LIVE = "live"
    RESTART = "restart"


class Harness(Value):
    """How the agent's own program reads its configuration, in `/run/hive/config`."""

    reload: Reload = Field(
        Reload.RESTART,
        description="What a change of files does to the running agent: `live` tells it"
        " (`hive-agent watch-config`), `restart` starts it again.",
    )
    model: str = Field("", max_length=200, description="Language model; the harness's own if "
                       "empty.")  # fmt: skip
    instructions: RelativePath = Field(
        "AGENTS.md", description="What the agent is told about its work."
    )
    prompts: RelativePath = Field("prompts", description="Folder of prompts.")
    skills: RelativePath = Field("skills", description="Folder of skills, one folder each.")


class ConfigRequest(Value):
    """What it asks of its host: granted by the approval of the commit. Absent: as it is."""

    capabilities: Annotated[tuple[Capability, ...], Field(max_length=64)] | None = Field(
        None, description="All capabilities that it shall hold; one not named here is lost."
    )
    network: Word | None = Field(
        None,
        description="Network profile: `none` for none; another one is refused while hosts have no"
        " network profiles.",
    )
    mounts: Annotated[tuple[Literal["meta", "applied"], ...], Field(max_length=2)] | None = Field(
        None, description="Read-only views: `/meta` by `meta.read`, `/applied` by `applied.read`."
    )
    secrets: Annotated[tuple[Word, ...], Field(max_length=64)] | None = Field(
        None, description="Keys of secrets, each a capability `secret:KEY`."
    )
    limits: WrittenLimits = Field(
        Limits(),
        description="Bounds of its machine; one that is not named stays as it is. Bytes are a"
        ' number, or a text such as `"512M"`.',
    )
    command: Argv | None = Field(
        None,
        description="What it runs: a list of words, or a text that is split as a shell splits it"
        " (no shell runs it). An empty command holds, and mail waits.",
    )
    boot: bool | None = Field(None, description="Whether an init runs inside.")
    harness: bool | None = Field(
        None, description="Whether it is healthy only after it has said hello."
    )

    def capabilities_after(self, held: Iterable[str]) -> tuple[str, ...]:
        """What it holds once this is granted to an agent that holds `held`; sorted.

        `capabilities` names them all. `network`, `mounts` and `secrets` each say what there is of
        their own kind, and leave the others alone.
        """
        found = set(held if self.capabilities is None else self.capabilities)
        for kind, wanted in self._kinds():
            found = {each for each in found if not kind(each)} | wanted
        return tuple(sorted(found))

    def _kinds(self) -> Iterator[tuple[Callable[[str], bool], set[str]]]:
        if self.network is not None:
            wanted = {f"network:{self.network}"} if self.network != "none" else set()
            yield lambda each: each.startswith("network:"), wanted
        if self.mounts is not None:
            yield {"meta.read", "applied.read"}.__contains__, {f"{it}.read" for it in self.mounts}
        if self.secrets is not None:
            yield lambda each: each.startswith("secret:"), {f"secret:{it}" for it in self.secrets}


class AgentConfig(Value):
    """The whole file. Tables have the names of the fields."""

    harness: Harness = Harness()
    request: ConfigRequest = ConfigRequest()
    settings: dict[str, JsonValue] = Field(
        {}, description="For the agent's own program; hive reads none of it."
    )


def parse_agent_config(data: Mapping[str, object]) -> AgentConfig:
    """The configuration in a parsed file. InvalidArgument names the first key that is wrong."""
    try:
        return AgentConfig.model_validate(data)
    except ValidationError as error:
        fault = faults_of(AgentConfig, error)[0]
        raise InvalidArgument(f"{FILE}: {fault.key}: {fault.reason}", field=fault.key) from error
