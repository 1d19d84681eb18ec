"""`[memory]` of agent.toml, as the session reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent.session.settings_table import (
    Reader,
    number,
    read_agent_table,
    read_switch,
    read_values,
    word,
)

TABLE: Final = "memory"
_AGENT: Final = re.compile(r"([a-z]([a-z0-9-]{0,61}[a-z0-9])?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The settings. `global_of`: whose memories of the scope `global` are recalled too."""

    enabled: bool = False
    every: int = 5
    cooldown: int = 120
    tokens: int = 50_000
    entries: int = 100
    recall: int = 3
    global_of: str = ""

    @classmethod
    def read(cls, file: Path) -> MemorySettings:
        """The settings in the deployed configuration; InvalidArgument names a wrong one."""
        return cls.of(read_agent_table(file, TABLE))

    @classmethod
    def of(cls, table: Mapping[str, object]) -> MemorySettings:
        """The settings in a parsed table."""
        return cls(**read_values(TABLE, table, _READERS))  # type: ignore[arg-type]  # readers know the types


_READERS: Final[Mapping[str, Reader]] = {
    "enabled": read_switch, "every": number(1, 1000), "cooldown": number(0, 86_400),
    "tokens": number(0, 10**9), "entries": number(1, 200), "recall": number(0, 3),
    "global_of": word(_AGENT, "the name of an agent"),
}  # fmt: skip
