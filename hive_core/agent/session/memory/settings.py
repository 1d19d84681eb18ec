"""`[memory]` of agent.toml, as the session reads it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument

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
        try:
            table = tomllib.loads(file.read_text()).get(TABLE, {})
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"cannot read {file}: {error}", field=TABLE) from None
        return cls.of(table)

    @classmethod
    def of(cls, table: object) -> MemorySettings:
        """The settings in a parsed table."""
        if not isinstance(table, dict):
            raise InvalidArgument(f"[{TABLE}] is not a table", field=TABLE)
        values = {key: _read_value(key, value) for key, value in table.items()}
        return cls(**values)  # type: ignore[arg-type]  # _read_value knows the types


_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "every": (1, 1000), "cooldown": (0, 86_400), "tokens": (0, 10**9), "entries": (1, 200),
    "recall": (0, 3),
}  # fmt: skip
_KEYS: Final = ("enabled", *_BOUNDS, "global_of")


def _read_value(key: str, value: object) -> object:
    if key not in _KEYS:
        names = ", ".join(_KEYS)
        raise InvalidArgument(f"[{TABLE}] has no setting {key!r}; it has {names}", field=key)
    if key == "enabled":
        is_valid, wanted = isinstance(value, bool), "true or false"
    elif key == "global_of":
        is_valid = isinstance(value, str) and _AGENT.fullmatch(value) is not None
        wanted = "the name of an agent"
    else:
        low, high = _BOUNDS[key]
        is_valid = type(value) is int and low <= value <= high
        wanted = f"a whole number from {low} to {high}"
    if not is_valid:
        raise InvalidArgument(f"[{TABLE}] {key} must be {wanted}", field=key)
    return value
