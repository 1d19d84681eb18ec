"""The screen of `hive top`: lines of the terminal's width, of which only changed ones are written.

No library: the first screen of one takes 18 to 50 times as long. All text of agents has the
characters that act on a terminal spelled out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hive_core.agent.layout import breadth, cut, pad
from hive_core.cli.agents.top_rows import TopLine, number
from hive_core.cli.core.durations import format_duration
from hive_core.cli.core.row_words import Row, colour, words

ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_BOLD, _REVERSE, _PLAIN = "\x1b[1m", "\x1b[7m", "\x1b[0m"
_NAME_LEAST: Final = 16
_NAME_MOST: Final = 40
_DOING_LEAST: Final = 12
_WIDE: Final = 60  # columns of a terminal that has room for what an agent does
_STEP: Final = 1000
_KIBI: Final = 1024
HELP: Final = (
    "n s c m t $ i a sort  / filter  f fold  w todo  l logs  Enter watch  S stop  R resume  q quit"
)


def short_number(value: object) -> str:
    """`1.2M` for 1,234,567; `-` for no number."""
    if not isinstance(value, int | float):
        return "-"
    left = float(value)
    for unit in ("", "k", "M", "G"):
        if abs(left) < _STEP or unit == "G":
            return f"{left:.0f}" if not unit or abs(left) >= 100 else f"{left:.1f}{unit}"  # noqa: PLR2004
        left /= _STEP
    return "-"


def short_bytes(value: object) -> str:
    """`80M`; `-` for no number."""
    if not isinstance(value, int | float):
        return "-"
    left = float(value)
    for unit in ("B", "K", "M", "G"):
        if left < _KIBI or unit == "G":
            return f"{left:.0f}{unit}" if left >= 10 or unit == "B" else f"{left:.1f}{unit}"  # noqa: PLR2004
        left /= _KIBI
    return "-"


def share(value: object) -> str:
    """`12%` of a core; `-` for no number."""
    return f"{value * 100:.0f}%" if isinstance(value, int | float) else "-"


def _percent(row: Row) -> str:
    value = row.get("percent")
    return f"{value}%" if isinstance(value, int) else ""


def _age(row: Row) -> str:
    since = row.get("since")
    return format_duration(max(0, int(time.time() - number(since))), 1) if since else "-"


def doing(row: Row) -> str:
    """What the agent does, waits for, or failed of, in one line."""
    for key in ("last", "waits_on", "doing"):
        if value := row.get(key):
            return {"waits_on": "waits: "}.get(key, "") + words(value)
    return ""


class TopColumn(NamedTuple):
    """A column. On a narrow terminal the one with the highest `rank` is left out first."""

    title: str
    width: int
    cell: Callable[[Row], str]
    rank: int
    is_number: bool = True


COLUMNS: Final = (
    TopColumn("ROLE", 9, lambda row: words(row.get("role")), 5, is_number=False),
    TopColumn("STATE", 9, lambda row: words(row.get("state")), 0, is_number=False),
    TopColumn("ACTIVITY", 8, lambda row: words(row.get("activity")), 4, is_number=False),
    TopColumn("%", 4, _percent, 6),
    TopColumn("CTX", 6, lambda row: short_number(row.get("context")), 7),
    TopColumn("TOKENS", 6, lambda row: short_number(row.get("tokens")), 3),
    TopColumn("COST", 7, lambda row: f"{number(row.get('cost')):.2f}", 3),
    TopColumn("CPU", 5, lambda row: share(row.get("cpu")), 1),
    TopColumn("MEM", 6, lambda row: short_bytes(row.get("memory")), 2),
    TopColumn("IN", 4, lambda row: short_number(row.get("inbox")), 2),
    TopColumn("AGE", 5, _age, 4),
)


def chosen_columns(width: int) -> tuple[list[TopColumn], int]:
    """The columns for this width, and the width of the name."""
    columns = list(COLUMNS)
    texts = _NAME_LEAST + (_DOING_LEAST + 1 if width >= _WIDE else 0)
    while columns and texts + sum(column.width + 1 for column in columns) > width:
        columns.remove(max(columns, key=lambda column: column.rank))
    left = width - sum(column.width + 1 for column in columns)
    name = max(_NAME_LEAST, min(_NAME_MOST, left // 2)) if width >= _WIDE else left
    return columns, max(1, name)


def heading_line(width: int) -> str:
    columns, name = chosen_columns(width)
    titles = [_fit(column.title, column.width, column.is_number) for column in columns]
    return cut(" ".join([pad("NAME", name), *titles, "DOING"]), width)


def agent_line(line: TopLine, width: int) -> str:
    """One agent; the state is coloured."""
    columns, name = chosen_columns(width)
    mark = "+ " if line.folded else ""
    parent = f" in {words(line.parent)}" if line.parent else ""
    shown = pad(cut("  " * line.depth + mark + words(line.row.get("name")) + parent, name), name)
    cells = [shown]
    for column in columns:
        cell = _fit(column.cell(line.row), column.width, column.is_number)
        cells.append(colour(cell.strip(), cell) if column.title == "STATE" else cell)
    left = width - name - sum(column.width + 1 for column in columns) - 1
    if left >= _DOING_LEAST:
        cells.append(cut(line.note or doing(line.row), left))
    return " ".join(cells)


def _fit(text: str, width: int, is_number: bool) -> str:  # noqa: FBT001 - as the column says
    shown = cut(text, width)
    return " " * (width - breadth(shown)) + shown if is_number else pad(shown, width)


class Screen:
    """What is on the terminal; `draw` returns what has to be written for the next lines."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._lines: list[str] = []

    def resize(self, width: int, height: int) -> str:
        """Take another size; the screen is written anew."""
        if (width, height) == (self.width, self.height):
            return ""
        self.width, self.height, self._lines = width, height, []
        return "\x1b[2J"

    def forget(self) -> None:
        """Something else has written to the terminal."""
        self._lines = []

    def draw(self, lines: Sequence[str]) -> str:
        """Bytes that turn what is shown into these lines."""
        wanted = [*lines[: self.height], *[""] * (self.height - len(lines))]
        changed = [
            f"\x1b[{at + 1};1H{line}{_PLAIN}\x1b[K" for at, line in enumerate(wanted)
            if at >= len(self._lines) or self._lines[at] != line
        ]  # fmt: skip
        self._lines = wanted
        return "".join(changed)


def bold(text: str) -> str:
    return f"{_BOLD}{text}"


def reverse(text: str) -> str:
    """A selected line; colours inside would end the mark."""
    return f"{_REVERSE}{text.replace(_PLAIN, _PLAIN + _REVERSE)}"
