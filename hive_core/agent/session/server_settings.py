"""`[mcp.NAME]` of agent.toml: the agent's own MCP servers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent.session.settings_table import read_agent_table
from hive_core.errors import InvalidArgument

SERVERS_MOST: Final = 8
_NAME: Final = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*", re.ASCII)
_NAME_MOST: Final = 32
_KEYS: Final = ("command", "required", "tools")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server. `tools`: the names of those that the agent is offered; None for all."""

    name: str
    command: tuple[str, ...]
    required: bool = False
    tools: tuple[str, ...] | None = None


def read_server_settings(file: Path) -> tuple[ServerSettings, ...]:
    """The servers in the deployed configuration; InvalidArgument names a wrong setting."""
    table = read_agent_table(file, "mcp")
    if len(table) > SERVERS_MOST:
        raise InvalidArgument(f"[mcp] is not at most {SERVERS_MOST} tables", field="mcp")
    return tuple(_server(name, table[name]) for name in sorted(table))


def _server(name: str, table: object) -> ServerSettings:
    place = f"mcp.{name[:64]}"
    if not _NAME.fullmatch(name) or len(name) > _NAME_MOST or not isinstance(table, Mapping):
        raise InvalidArgument(f"[{place}] is not a table with a plain name", field=place)
    for key in table:
        if key not in _KEYS:
            raise InvalidArgument(
                f"[{place}] has no setting {key!r}; it has {', '.join(_KEYS)}", field=place
            )
    required = table.get("required", False)
    if not isinstance(required, bool):
        raise InvalidArgument(f"[{place}] required must be true or false", field=place)
    words = table.get("command")
    command = _words(shlex.split(words) if isinstance(words, str) else words, f"{place}.command")
    tools = None if table.get("tools") is None else _words(table["tools"], f"{place}.tools")
    if not command:
        raise InvalidArgument(f"[{place}] command names no program", field=place)
    return ServerSettings(name, command, required, tools)


def _words(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InvalidArgument(f"{place} must be a list of words", field=place)
    return tuple(value)
