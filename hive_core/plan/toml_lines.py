"""Finds the line of a key in a TOML file.

`tomllib` does not report lines. But parsing only the first lines of a file shows which keys they
contain, however they are quoted and nested.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Final

KeyPath = tuple[int | str, ...]

_LINES_MOST: Final = 2000  # each of them is parsed with all lines before it


def find_lines(data: bytes, places: Iterable[KeyPath]) -> dict[KeyPath, int | None]:
    """For each key path the line, from 1, in which its key begins; None where it is unknown.

    For a key that is missing in the file, it is the line of its table.
    """
    numbers: dict[KeyPath, int | None] = dict.fromkeys(places)
    waiting = {place: _deepest(data, place) for place in numbers}
    lines = data.decode(errors="replace").splitlines(keepends=True)
    start = 1
    for number in range(1, min(len(lines), _LINES_MOST) + 1):
        if not any(waiting.values()):
            break
        tables = _parse("".join(lines[:number]))
        if tables is None:
            continue  # within a value of several lines
        for place, wanted in list(waiting.items()):
            if wanted and _holds(tables, wanted):
                numbers[place] = _first_word(lines, start, number)
                waiting[place] = ()
        start = number + 1
    return numbers


def _first_word(lines: list[str], start: int, end: int) -> int:
    """The first line from `start` on that is neither blank nor a comment."""
    for number in range(start, end + 1):
        if lines[number - 1].strip() and not lines[number - 1].lstrip().startswith("#"):
            return number
    return end


def _parse(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _deepest(data: bytes, place: KeyPath) -> KeyPath:
    """The longest prefix of a key path that is in the file."""
    tables = _parse(data.decode(errors="replace"))
    if tables is None:
        return ()
    while place and not _holds(tables, place):
        place = place[:-1]
    return place


def _holds(tables: object, place: KeyPath) -> bool:
    for part in place:
        if isinstance(tables, dict) and part in tables:
            tables = tables[str(part)]
        elif isinstance(tables, list) and isinstance(part, int) and part < len(tables):
            tables = tables[part]
        else:
            return False
    return True
