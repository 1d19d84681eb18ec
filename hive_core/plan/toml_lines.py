"""In which line of a TOML file a key stands.

`tomllib` forgets that. But what it makes of the first lines of a file shows which keys stand in
them, whatever quotes and brackets they are written with.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Final

Place = tuple[int | str, ...]

_LINES_MOST: Final = 2000  # each of them is read with all before it


def find_lines(data: bytes, places: Iterable[Place]) -> dict[Place, int | None]:
    """For each place the line, from 1, in which its key begins; None where there is no telling.

    Of a place that is not in the file (a key that is missing) it is that of the table.
    """
    found: dict[Place, int | None] = dict.fromkeys(places)
    waiting = {place: _deepest(data, place) for place in found}
    lines = data.decode(errors="replace").splitlines(keepends=True)
    start = 1
    for number in range(1, min(len(lines), _LINES_MOST) + 1):
        if not any(waiting.values()):
            break
        tables = _parsed("".join(lines[:number]))
        if tables is None:
            continue  # within a value of several lines
        for place, wanted in list(waiting.items()):
            if wanted and _holds(tables, wanted):
                found[place] = _first_word(lines, start, number)
                waiting[place] = ()
        start = number + 1
    return found


def _first_word(lines: list[str], start: int, end: int) -> int:
    """The first line from `start` on that says something."""
    for number in range(start, end + 1):
        if lines[number - 1].strip() and not lines[number - 1].lstrip().startswith("#"):
            return number
    return end


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _deepest(data: bytes, place: Place) -> Place:
    """So much of a place as is in the file: what is below it is not there, or within one value."""
    tables = _parsed(data.decode(errors="replace"))
    if tables is None:
        return ()
    while place and not _holds(tables, place):
        place = place[:-1]
    return place


def _holds(tables: object, place: Place) -> bool:
    for part in place:
        if isinstance(tables, dict) and part in tables:
            tables = tables[str(part)]
        elif isinstance(tables, list) and isinstance(part, int) and part < len(tables):
            tables = tables[part]
        else:
            return False
    return True
