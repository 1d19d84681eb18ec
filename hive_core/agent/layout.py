"""Tables for people: aligned, folded to the width of the terminal, and never cut at its edge.

Long text is folded in its column. If too little width is left for the last column, it goes below
its row. If the other columns do not fit either, each row becomes a list of its values. Folded text
never continues at the left edge, where the next row begins.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final
from unicodedata import east_asian_width

Paint = Callable[[str, str], str]
Cells = Sequence[Sequence[str]]

_GAP: Final = 2
_LEAST: Final = 20  # minimum width for folded text
_INDENT: Final = 6
_LINES: Final = 3  # lines of the last column, whose text may be of any length
_FOLDED: Final = 6  # lines of other columns
_NOTHING: Final = frozenset({"", "-"})


def breadth(text: str) -> int:
    """Width of a text on a terminal."""
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def pad(text: str, width: int) -> str:
    return text + " " * (width - breadth(text))


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, cut at its end if necessary."""
    # A letter may have 64 KiB: no character is examined twice, and only few that are not shown.
    head = text[: width + 1]
    if len(text) == len(head) and breadth(head) <= width:
        return text
    while breadth(head) > max(width - 1, 0):
        head = head[:-1]
    return head + "…"


def fold(text: str, width: int, most: int) -> list[str]:
    """The text in lines of this width, broken between words if possible."""
    pieces, rest = list[str](), text
    while len(pieces) < most - 1:
        head = rest[: width + 1]
        if len(rest) == len(head) and breadth(head) <= width:
            break
        while breadth(head) > width:
            head = head[:-1]
        if not head:
            break
        space = -1 if rest[len(head)] == " " else head.rfind(" ")
        head = head[:space] if space > 0 else head
        pieces.append(head)
        rest = rest[len(head) :].removeprefix(" ")
    return [*pieces, cut(rest, width)]


def _without_paint(word: str, shown: str) -> str:
    del word
    return shown


def table(
    cells: Cells,
    width: int | None,
    paint: Paint = _without_paint,
    whole: Container[str] = (),
    lines: int = _LINES,
) -> Iterator[str]:
    """Lines for rows, the first of which has the headings; without a width each row is one line.

    `paint` colours a padded cell by its word. Columns with the headings in `whole` are never
    folded. The last column is cut after `lines` lines.
    """
    most = None if width is None else width + 1
    natural = [max(breadth(row[at][:most]) for row in cells) for at in range(len(cells[0]))]
    if width is None or _sum(natural) <= width:
        natural[-1] = 0
        yield from _aligned_rows(cells, natural, None, paint)
        return
    least = [
        room if cells[0][at] in whole else _least_width(cells, at, room)
        for at, room in enumerate(natural)
    ]
    need = least[-1] if natural[-1] <= _LEAST else max(_LEAST, least[-1])
    rooms = _shrink(natural[:-1], least, width - need - _GAP)
    below = _shrink(natural[:-1], least, width)
    if _sum(rooms) + _GAP + need <= width:
        yield from _aligned_rows(cells, [*rooms, width - _GAP - _sum(rooms)], lines, paint)
    elif _sum(below) <= width:
        yield from _below(cells, below, width, paint, lines)
    else:
        yield from _records(cells, width, max(lines, _FOLDED))


def _sum(rooms: Sequence[int]) -> int:
    """The width of columns with their gaps; negative for no columns, as these have no gap."""
    return sum(rooms) + _GAP * (len(rooms) - 1)


def _shrink(natural: Sequence[int], least: Sequence[int], most: int) -> list[int]:
    """Shrink headings and columns of several words, the widest first."""
    rooms = list(natural)
    while _sum(rooms) > most:
        wide = [at for at, room in enumerate(rooms) if room > least[at]]
        if not wide:
            break
        rooms[max(wide, key=rooms.__getitem__)] -= 1
    return rooms


def _below(
    cells: Cells, rooms: Sequence[int], width: int, paint: Paint, lines: int
) -> Iterator[str]:
    for number, row in enumerate(cells):
        colour = paint if number else _without_paint
        yield from _aligned_rows([row[:-1]], rooms, _FOLDED, colour, heading=False)
        if row[-1] not in _NOTHING:
            for piece in fold(row[-1], width - _INDENT, lines):
                yield " " * _INDENT + piece


def _least_width(cells: Cells, at: int, natural: int) -> int:
    """The longest word of a column; text that begins with a digit, a time or an id, stays whole."""
    heading, *values = (row[at][: 2 * natural] for row in cells)
    whole = any(value[:1].isdigit() for value in values)
    words = [word for text in (heading, *([] if whole else values)) for word in text.split(" ")]
    return min(max(map(breadth, [*words, *(values if whole else [])])), natural, 2 * _LEAST)


def _aligned_rows(
    cells: Cells, rooms: Sequence[int], lines: int | None, paint: Paint, *, heading: bool = True
) -> Iterator[str]:
    """Rows of as many lines as their longest cell; the last column is as long as it likes where
    `lines` is None."""
    for number, row in enumerate(cells):
        colour = _without_paint if heading and not number else paint
        if lines is None:
            folded = [[cell] for cell in row]
        else:
            most = [*[_FOLDED] * (len(row) - 1), lines]
            folded = [fold(*cell) for cell in zip(row, rooms, most, strict=True)]
        for at in range(max(map(len, folded))):
            pieces = [cell[at] if at < len(cell) else "" for cell in folded]
            shown = [
                colour(word, pad(piece, room))
                for word, piece, room in zip(row, pieces, rooms, strict=True)
            ]
            yield "  ".join(shown).rstrip()


def _records(cells: Cells, width: int, lines: int) -> Iterator[str]:
    """Show each row as lines of heading and value, with an empty line between rows."""
    headings, *rows = cells
    label = max(map(breadth, headings))
    for number, row in enumerate(rows):
        if number:
            yield ""
        for heading, text in zip(headings, row, strict=True):
            if text in _NOTHING:
                continue
            head = pad(heading.lower(), label)
            for piece in fold(text, max(width - label - _GAP, _LEAST), lines):
                yield f"{head}  {piece}"
                head = " " * label
