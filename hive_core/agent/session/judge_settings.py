"""`[judge]` of agent.toml, as the session reads it."""

from __future__ import annotations

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
)

TABLE: Final = "judge"


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The settings. `tokens`: how many verdicts may take in a day."""

    enabled: bool = True
    tokens: int = 200_000

    @classmethod
    def read(cls, file: Path) -> JudgeSettings:
        """The settings in the deployed configuration; InvalidArgument names a wrong one."""
        return cls.of(read_agent_table(file, TABLE))

    @classmethod
    def of(cls, table: Mapping[str, object]) -> JudgeSettings:
        """The settings in a parsed table."""
        return cls(**read_values(TABLE, table, _READERS))  # type: ignore[arg-type]  # readers know the types


_READERS: Final[Mapping[str, Reader]] = {"enabled": read_switch, "tokens": number(0, 10**9)}
