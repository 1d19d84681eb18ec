"""Tables that fit the terminal: columns are omitted by priority, and the last one is cut.

When the output is not a terminal, or with `-o wide`, all columns are shown and nothing is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from hive_core.agent.layout import breadth, cut, pad

_GAP: Final = 2
_LAST: Final = 16  # minimum width for a cut last column
_NARROW: Final = 10  # minimum width of other columns


class Heading(NamedTuple):
    """A column: its title, its priority (the highest is omitted first, 0 never), and its cuts."""

    title: str
    priority: int = 0
    whole: bool = False


def lay_out(
    headings: Sequence[Heading],
    rows: Sequence[Sequence[str]],
    width: int | None,
    paint: Callable[[str, str], str],
) -> Iterator[str]:
    """Yield the lines of a table; without a width nothing is omitted or cut."""
    titles = [heading.title for heading in headings]
    # Only the part of a long text that could be shown is measured.
    most = None if width is None else width + 1
    columns = list(range(len(titles)))
    rooms = [
        max(breadth(cells[at][: None if headings[at].whole else most]) for cells in [titles, *rows])
        for at in columns
    ]
    if width is not None:
        columns = _chosen_columns(headings, rooms, width)
        rooms = _cut_rooms(headings, rooms, columns, width)
    for number, cells in enumerate([titles, *rows]):
        yield "  ".join(_cells(cells, columns, rooms, width, paint if number else None)).rstrip()


def _cells(
    cells: Sequence[str],
    columns: Sequence[int],
    rooms: Sequence[int],
    width: int | None,
    paint: Callable[[str, str], str] | None,
) -> Iterator[str]:
    for at in columns:
        text = cells[at] if width is None else cut(cells[at], rooms[at])
        shown = text if at == columns[-1] else pad(text, rooms[at])
        yield paint(cells[at], shown) if paint else shown


def _chosen_columns(headings: Sequence[Heading], rooms: Sequence[int], width: int) -> list[int]:
    """The columns to show: among the highest priority, the rightmost column is omitted first."""
    columns = list(range(len(headings)))
    while _total(columns, rooms) > width:
        droppable = [at for at in columns if headings[at].priority]
        if not droppable:
            break
        columns.remove(max(droppable, key=lambda at: (headings[at].priority, at)))
    return columns


def _total(columns: Sequence[int], rooms: Sequence[int]) -> int:
    """The width of a row whose last cell is cut to its minimum."""
    *others, last = columns
    return sum(rooms[at] + _GAP for at in others) + min(rooms[last], _LAST)


def _cut_rooms(
    headings: Sequence[Heading], rooms: Sequence[int], columns: Sequence[int], width: int
) -> list[int]:
    """The width of each column.

    The widest ones shrink when the chosen columns are still too wide.
    """
    cut_to, (*others, last) = list(rooms), columns
    while _total(columns, cut_to) > width:
        wide = [at for at in others if not headings[at].whole and cut_to[at] > _NARROW]
        if not wide:
            break
        cut_to[max(wide, key=cut_to.__getitem__)] -= 1
    left = width - sum(cut_to[at] + _GAP for at in others)
    if not headings[last].whole:
        cut_to[last] = min(cut_to[last], max(left, 4))
    return cut_to
