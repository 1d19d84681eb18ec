"""Rows of replies, and their values as words for people. `hive top` loads this without click."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hive_core.agent.output import as_json, plain
from hive_core.varlink import Message

Row = Mapping[str, object]

COLOURS: Final = {
    "running": "green", "starting": "yellow", "stopping": "yellow", "deploying": "yellow",
    "degraded": "magenta", "failed": "red", "parked": "red", "sleeping": "cyan",
    "stopped": "bright_black", "absent": "bright_black", "allowed": "green", "refused": "red",
}  # fmt: skip
_CODES: Final = {
    "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36, "bright_black": 90,
}  # fmt: skip


def words(value: object) -> str:
    """A value for people, on one line."""
    match value:
        case None | "" | []:
            text = "-"
        case {} if not value:  # the pattern alone matches every mapping
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case str():
            text = plain(value).replace("\n", "⏎").replace("\t", " ")
        case list() if all(isinstance(item, str) for item in value):
            text = ", ".join(map(words, value))
        case _:
            text = as_json(value)
    return text


def colour(word: str, shown: str = "") -> str:
    """A state in its colour; `echo` drops the colour when the output is not a terminal."""
    if word not in COLOURS:
        return shown or word
    return f"\x1b[{_CODES[COLOURS[word]]}m{shown or word}\x1b[0m"


def entries(reply: Mapping[str, object], field: str) -> list[Message]:
    """The list of objects under `field`."""
    value = reply.get(field)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
