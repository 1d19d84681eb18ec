"""Any agent of the protocol as a runtime: the program that `[acp]` of agent.toml names."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.prompt_context import save_whole
from hive_core.agent.session.runtimes.cli_dialect import AcpDialect, CliMissing, CliPlace, CliTurn
from hive_core.agent.session.settings_table import (
    Reader,
    read_agent_table,
    read_values,
    read_words,
)

_SEE: Final = "see docs/how-to/acp.md"


@dataclass(frozen=True, slots=True)
class AcpSettings:
    """`[acp]` of agent.toml: the program, and what its environment has besides."""

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> AcpSettings:
        """The settings in the deployed configuration; InvalidArgument names a wrong one."""
        return cls.of(read_agent_table(file, "acp"))

    @classmethod
    def of(cls, table: Mapping[str, object]) -> AcpSettings:
        """The settings in a parsed table."""
        return cls(**read_values("acp", table, _READERS))  # type: ignore[arg-type]  # readers know the types


def _read_command(value: object) -> tuple[str, ...]:
    return read_words(shlex.split(value) if isinstance(value, str) else value)


def _read_environment(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(row, str) for row in value.values()):
        raise ValueError("must be a table of texts")
    return value


_READERS: Final[Mapping[str, Reader]] = {
    "command": _read_command, "environment": _read_environment,
}  # fmt: skip


def read_server_name(file: Path) -> str:
    """The name of the MCP server of hive for the programs of this agent, chosen once.

    A use of a tool is known by what the program calls it, and a program may have tools of others.
    None of these has a name that was made here.
    """
    if not file.exists():
        save_whole(file, f"hive_{os.urandom(4).hex()}")
    return file.read_text("ascii")


class CustomAcpDialect(AcpDialect):
    """Any agent of the protocol: the program that `[acp]` of agent.toml names."""

    name = "acp"

    def __init__(self, settings: AcpSettings, server: str, file: Path) -> None:
        self._settings = settings
        self._file = file
        self.server = server

    def check(self, program: Path) -> None:
        del program
        command = self._settings.command
        if not command:
            raise CliMissing(f"cannot run acp: [acp] of {self._file} names no `command` ({_SEE})")
        if shutil.which(command[0]) is None:
            raise CliMissing(
                f"cannot run acp: this container lacks {command[0]!r}, the `command` of [acp] in"
                f" {self._file}; install it in the image of the agent, or for the image `host` in"
                f" /usr/local/bin of the host ({_SEE})"
            )

    def tool_names(self, kinds: Mapping[str, str]) -> Mapping[str, str]:
        return {tool: tool for tool in kinds}

    def words(self, program: str, turn: CliTurn, place: CliPlace) -> list[str]:
        del program, turn, place
        return [*self._settings.command]

    def environment(self, turn: CliTurn, place: CliPlace) -> Mapping[str, str]:
        del place
        # hive-model puts the key in the place of this word.
        return {
            "ANTHROPIC_BASE_URL": turn.url, "ANTHROPIC_API_KEY": "hive",
            "ANTHROPIC_MODEL": turn.model, "ANTHROPIC_SMALL_FAST_MODEL": turn.model,
            "OPENAI_BASE_URL": f"{turn.url}/v1", "OPENAI_API_KEY": "hive",
            "OPENAI_MODEL": turn.model,
            "ANTHROPIC_CUSTOM_HEADERS": f"x-hive-task: {turn.task}" if turn.task else "",
            **self._settings.environment,
        }  # fmt: skip

    def prompt(self, turn: CliTurn) -> str:
        if not turn.is_new:
            return turn.prompt
        return f"<instructions>\n{turn.system}\n</instructions>\n\n{turn.prompt}"
