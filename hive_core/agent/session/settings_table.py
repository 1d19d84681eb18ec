"""A table of agent.toml, as the session reads it: the daemon has checked it, and not for root.

The session has no pydantic. `tests/agent/session/test_settings_tables.py` holds these readers to
the models of the daemon.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from hive_core.errors import InvalidArgument

# A reader raises ValueError with what follows the name of the setting: "must be ...".
Reader = Callable[[object], object]


def read_agent_table(file: Path, name: str) -> Mapping[str, object]:
    """A table of the deployed configuration; empty where the file or the table is absent."""
    try:
        table = tomllib.loads(file.read_text()).get(name, {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read {file}: {error}", field=name) from None
    if not isinstance(table, dict):
        raise InvalidArgument(f"[{name}] is not a table", field=name)
    return table


def read_values(
    name: str, table: Mapping[str, object], readers: Mapping[str, Reader]
) -> dict[str, object]:
    """The settings in a table; InvalidArgument names an unknown or a wrong one."""
    return {key: _read_value(name, str(key), value, readers) for key, value in table.items()}


def _read_value(name: str, key: str, value: object, readers: Mapping[str, Reader]) -> object:
    reader = readers.get(key)
    if reader is None:
        raise InvalidArgument(
            f"[{name}] has no setting {key[:64]!r}; it has {', '.join(readers)}", field=key[:64]
        )
    try:
        return reader(value)
    except ValueError as error:
        raise InvalidArgument(f"[{name}] {key} {error}", field=key) from None


def read_switch(value: object) -> bool:
    if value is not True and value is not False:
        raise ValueError("must be true or false")
    return value


def number(low: int, high: int) -> Callable[[object], int]:
    """The reader of a whole number with bounds."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return read


def fraction(low: float, high: float) -> Callable[[object], float]:
    """The reader of any number with bounds, and no NaN."""

    def read(value: object) -> float:
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not low <= value <= high
        ):
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return value

    return read


def word(pattern: re.Pattern[str], meaning: str) -> Callable[[object], str]:
    """The reader of a text that has a pattern."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"must be {meaning}")
        return value

    return read


def read_words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError("must be a list of words")
    return tuple(value)
