"""The lines that an approval would change, in pages that fit into a frame. No line is left out."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import Field

from hive_core.agent.output import plain
from hive_core.broker.operation import Result
from hive_core.errors import Internal
from hive_core.model.config.review import DiffLine
from hive_core.operations.pages import REPLY_BYTES

CURSOR: Final = r"^[0-9]{1,12}\.[0-9]{1,12}$"
ROOM: Final = REPLY_BYTES - 200_000  # the rest of a page is not lines
_ENTRY: Final = 200  # bytes of an entry beside its text and its path
_WORST: Final = 8  # bytes that JSON takes for one character: two times four


class LineRow(Result):
    path: str = Field(description="The file.")
    old: int | None = Field(description="Line number in the deployed file.")
    new: int | None = Field(description="Line number in the proposed file.")
    sign: str = Field(description="+, - or a space; @ begins a file or a part of it.")
    text: str = Field(description="The line, with control characters escaped; untrusted text.")
    part: bool = Field(description="Whether the line continues in the next entry.")


class DiffPosition(NamedTuple):
    """Where a page begins: a byte of the file, and a character of the line that begins there."""

    at: int
    skip: int

    @classmethod
    def of(cls, text: str | None) -> DiffPosition:
        at, _, skip = (text or "0.0").partition(".")
        return cls(int(at), int(skip))

    @property
    def text(self) -> str:
        return f"{self.at}.{self.skip}"


def diff_page(data: bytes, mark: DiffPosition, most: int) -> tuple[list[LineRow], DiffPosition]:
    """The lines from the position on, as many as fit, and where the next page begins.

    A line that is larger than a frame is split.
    """
    rows, left = list[LineRow](), ROOM
    at, skip = mark
    for raw in data.splitlines(keepends=True):
        line = _parse_line(raw)
        text = _fitting_prefix(line.text[skip:], left - _size(line.path))
        part = skip + len(text) < len(line.text)
        if len(rows) == most or (rows and part):
            return rows, DiffPosition(at, skip)
        rows.append(_row(line, text, part=part))
        if part:
            return rows, DiffPosition(at, skip + len(text))
        left -= _size(text) + _size(line.path) + _ENTRY
        at, skip = at + len(raw), 0
    return rows, DiffPosition(at, skip)


def _row(line: DiffLine, text: str, *, part: bool) -> LineRow:
    return LineRow(path=line.path, old=line.old, new=line.new, sign=line.sign, text=text, part=part)


def _parse_line(raw: bytes) -> DiffLine:
    """Parse a line of the job's output; refuse unescaped control characters."""
    line = DiffLine.read(raw)
    if plain(line.text) != line.text or plain(line.path) != line.path:
        raise Internal("the diff contains control characters: deny this request")
    return line


def _fitting_prefix(text: str, room: int) -> str:
    """The beginning of the text that fits."""
    if _size(text) + _ENTRY <= room:
        return text
    return text[: max(0, room - _ENTRY) // _WORST]


def _size(text: str) -> int:
    """Size in JSON, in bytes: a quotation mark takes two."""
    return 2 * len(text.encode())
