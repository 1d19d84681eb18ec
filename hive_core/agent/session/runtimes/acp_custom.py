"""Any agent of the protocol as a runtime: the program that `[acp]` of agent.toml names."""

from __future__ import annotations

import shlex
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.session.runtimes.builtin import WrongPython
from hive_core.agent.session.runtimes.cli_dialect import AcpDialect, CliPlace, CliTurn
from hive_core.errors import InvalidArgument

_KEYS: Final = ("command", "environment")


@dataclass(frozen=True, slots=True)
class AcpSettings:
    """`[acp]` of agent.toml: the program, and what its environment has besides."""

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> AcpSettings:
        """The settings in the deployed configuration; InvalidArgument names a wrong one."""
        try:
            table = tomllib.loads(file.read_text()).get("acp", {})
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"cannot read {file}: {error}", field="acp") from None
        if not isinstance(table, dict) or not set(table) <= set(_KEYS):
            raise InvalidArgument(f"[acp] has other settings than {', '.join(_KEYS)}", field="acp")
        words = table.get("command", [])
        command = shlex.split(words) if isinstance(words, str) else words
        variables = table.get("environment", {})
        if not _are_texts(command, list) or not _are_texts(variables, dict):
            raise InvalidArgument(
                "[acp] command must be a list of words, environment a table of texts", field="acp"
            )
        return cls(tuple(command), variables)


def _are_texts(value: object, kind: type) -> bool:
    rows = value.values() if isinstance(value, dict) else value
    return isinstance(value, kind) and all(isinstance(row, str) for row in rows)  # type: ignore[attr-defined]


class CustomAcpDialect(AcpDialect):
    """Any agent of the protocol: the program that `[acp]` of agent.toml names."""

    name = "acp"

    def __init__(self, settings: AcpSettings) -> None:
        self._settings = settings

    def check(self, program: Path) -> None:
        del program
        command = self._settings.command
        if not command:
            raise WrongPython("cannot run acp: [acp] of agent.toml names no `command`")
        if shutil.which(command[0]) is None:
            raise WrongPython(f"cannot run acp: the program {command[0]!r} is not installed here")

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
