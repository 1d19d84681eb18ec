"""Printing data: a table for people, JSON and names for programs.

A table is formatted for people (times as text, hostile characters escaped); JSON is the data of the
daemon.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import click

from hive_core.agent import layout
from hive_core.agent.output import as_json, plain
from hive_core.cli.core import row_words
from hive_core.cli.core.progress import clear_line
from hive_core.cli.core.tables import Heading, lay_out
from hive_core.cli.core.units import format_time, time_zone

Row = row_words.Row
words = row_words.words
colour = row_words.colour

FORMATS: Final = ("table", "wide", "json", "jsonl", "name")
FLAT: Final = ("jsonl", "name")  # formats with one line for each row
FOLDED_LINES: Final = 100
WIDTH: Final = 80  # when the output is not a terminal
_WIDE: Final = "hive.wide"
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")


def _style(ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """`wide` is a table whose columns are all shown."""
    ctx.meta[_WIDE] = value == "wide"
    return "table" if value == "wide" else value


output_option: Final = click.option(
    "-o", "--output", "style", type=click.Choice(FORMATS), default="table", show_default=True,
    callback=_style, help="Output format; wide is a table with all columns, however long.",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column of a table: the field, its heading, and a function that formats a value.

    On a narrow terminal the column with the highest `priority` is omitted first, a column of 0
    never. A `whole` column is never cut, so that users can copy it.
    """

    field: str
    heading: str = ""
    words: Callable[[object], str] = words
    whole: bool = False
    priority: int = 0

    @property
    def title(self) -> str:
        return (self.heading or self.field).upper().replace("_", " ")

    def cell(self, row: Row) -> str:
        return self.words(row.get(self.field))


moment = format_time


def stamp(value: object) -> str:
    """Seconds since 1970 as local time with its zone, for a page about one thing."""
    return format_time(value, zone=True)


def block(text: str) -> str:
    """A text of another party, with its further lines indented to differ from lines of hive."""
    return plain(text).replace("\n", "\n    ")


def echo(text: str) -> None:
    """Print a line of data; of control sequences only colours reach the terminal."""
    parts = _COLOUR.split(text)
    with clear_line():
        click.echo("".join(part if at % 2 else plain(part) for at, part in enumerate(parts)))


def say(text: str) -> None:
    """Print a line for people, on standard error."""
    with clear_line():
        click.echo(block(text), err=True)


def columns_of(terminal: bool | None = None) -> int:  # noqa: FBT001 - None asks the stream
    """Maximum width of a line."""
    if not (sys.stdout.isatty() if terminal is None else terminal):
        return WIDTH
    # Imported here by name: it imports archive modules, which programs that use this module do not
    # need.
    from shutil import get_terminal_size  # noqa: PLC0415

    return get_terminal_size((WIDTH, 24)).columns


def table(rows: Iterable[Row], columns: Sequence[Column], width: int | None) -> Iterator[str]:
    """Yield the aligned lines of a table.

    The heading of the first time column names the time zone.
    """
    timed = next((column for column in columns if column.words is moment), None)
    headings = [
        Heading(
            f"{column.title} ({time_zone()})" if column is timed else column.title,
            column.priority, column.whole,
        )
        for column in columns
    ]  # fmt: skip
    return lay_out(headings, [[column.cell(row) for column in columns] for row in rows], width,
                   colour)  # fmt: skip


def fold_table(rows: Iterable[Row], columns: Sequence[Column], width: int | None) -> Iterator[str]:
    """Yield the lines of a table that wraps long text instead of cutting it."""
    cells = [[column.title for column in columns]]
    cells += [[column.cell(row) for column in columns] for row in rows]
    return layout.table(cells, width, colour, lines=FOLDED_LINES)


def _width() -> int | None:
    """Columns of the terminal; None: do not cut."""
    context = click.get_current_context(silent=True)
    if not sys.stdout.isatty() or (context is not None and context.meta.get(_WIDE)):
        return None
    return columns_of()


@dataclass(frozen=True)
class Listing:
    """The listing of one kind of row; `name` is the field that `-o name` prints.

    `fold`: wrap long text instead of cutting it.
    """

    name: str
    columns: Sequence[Column]
    empty: str = "nothing to list"
    fold: bool = False

    def show(self, rows: Iterable[Row], style: str) -> None:
        """Print the rows; JSON lines are printed as they come."""
        if style in FLAT:
            for row in rows:
                echo(as_json(row) if style == "jsonl" else words(row.get(self.name)))
            return
        listed = list(rows)
        if style == "json":
            echo(as_json(listed, 2))
        elif not listed:
            say(self.empty)
        else:
            draw = fold_table if self.fold else table
            for line in draw(listed, self.columns, _width()):
                echo(line)


def one(row: Row, style: str, name: str, lines: Callable[[], Iterable[str]]) -> None:
    """Print a single thing: as JSON, as its name, or as lines for people."""
    match style:
        case "json":
            echo(as_json(row, 2))
        case "jsonl":
            echo(as_json(row))
        case "name":
            echo(words(row.get(name)))
        case _:
            for line in lines():
                echo(line)
