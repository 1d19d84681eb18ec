"""How data is printed: a table for people, JSON and bare names for programs.

A table is bent for the reader (times in words, hostile characters spelled out); JSON is what the
daemon said.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import click

from hive_core.agent import layout
from hive_core.agent.output import as_json, plain
from hive_core.cli.core.progress import cleared

Row = Mapping[str, object]

FORMATS: Final = ("table", "json", "jsonl", "name")
LINES: Final = 3  # of a last column: it has what others wrote, of any length
WIDTH: Final = 80  # where the output is no terminal
COLOURS: Final = {
    "running": "green", "starting": "yellow", "stopping": "yellow", "deploying": "yellow",
    "degraded": "magenta", "failed": "red", "parked": "red", "sleeping": "cyan",
    "stopped": "bright_black", "absent": "bright_black", "allowed": "green", "refused": "red",
}  # fmt: skip
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")

output_option: Final = click.option(
    "-o", "--output", "style", type=click.Choice(FORMATS), default="table", show_default=True,
    help="How to print: for people, or for programs.",
)  # fmt: skip


def words(value: object) -> str:
    """A value for people, on one line."""
    match value:
        case None | "" | []:
            text = "-"
        case {} if not value:  # the pattern alone fits every mapping
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case str():
            text = plain(value).replace("\n", "⏎").replace("\t", " ")
        case list() if all(isinstance(each, str) for each in value):
            text = ", ".join(map(words, value))
        case _:
            text = as_json(value)
    return text


@dataclass(frozen=True)
class Column:
    """One column of a table: the field, its heading and how a value is put in words.

    A `whole` one is never folded: it is to be copied.
    """

    field: str
    heading: str = ""
    words: Callable[[object], str] = words
    whole: bool = False

    @property
    def title(self) -> str:
        return (self.heading or self.field).upper().replace("_", " ")

    def cell(self, row: Row) -> str:
        return self.words(row.get(self.field))


def moment(value: object) -> str:
    """Seconds since 1970 as local time."""
    if not isinstance(value, int | float):
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    except (OverflowError, ValueError, OSError):  # in a year that the machine does not know
        return f"{value:g}"


def block(text: str) -> str:
    """A text of others as it is, its further lines indented: none stands where ours begin."""
    return plain(text).replace("\n", "\n    ")


def echo(text: str) -> None:
    """A line of data. Of what acts on a terminal colours alone get through."""
    parts = _COLOUR.split(text)
    with cleared():
        click.echo("".join(part if at % 2 else plain(part) for at, part in enumerate(parts)))


def say(text: str) -> None:
    """A line of talk."""
    with cleared():
        click.echo(block(text), err=True)


def coloured(word: str, shown: str = "") -> str:
    """A state in its colour; click drops the colour where the output is no terminal."""
    return click.style(shown or word, fg=COLOURS[word]) if word in COLOURS else shown or word


def columns_of(terminal: bool | None = None) -> int:  # noqa: FBT001 - None asks the stream
    """How wide a line may be."""
    if not (sys.stdout.isatty() if terminal is None else terminal):
        return WIDTH
    # Imported here by name: it brings archives along, which a program that reads us does not need.
    from shutil import get_terminal_size  # noqa: PLC0415

    return get_terminal_size((WIDTH, 24)).columns


def table(
    rows: Iterable[Row], columns: Sequence[Column], width: int | None, lines: int = LINES
) -> Iterator[str]:
    """Aligned lines below a heading."""
    cells = [[column.title for column in columns]]
    cells += [[column.cell(row) for column in columns] for row in rows]
    whole = {column.title for column in columns if column.whole}
    return layout.table(cells, width, coloured, whole, lines)


@dataclass(frozen=True)
class Listing:
    """How one kind of row is listed; `name` is the field that `-o name` prints.

    Of the last column a terminal gets at most so many `lines`.
    """

    name: str
    columns: Sequence[Column]
    empty: str = "nothing to list"
    lines: int = LINES

    def show(self, rows: Iterable[Row], style: str) -> None:
        """Print the rows; JSON lines are printed as they come."""
        if style in ("jsonl", "name"):
            for row in rows:
                echo(as_json(row) if style == "jsonl" else words(row.get(self.name)))
            return
        found = list(rows)
        if style == "json":
            echo(as_json(found, 2))
        elif not found:
            say(self.empty)
        else:
            width = columns_of() if sys.stdout.isatty() else None
            for line in table(found, self.columns, width, self.lines):
                echo(line)


def one(row: Row, style: str, name: str, lines: Callable[[], Iterable[str]]) -> None:
    """Print a single thing: as JSON, as its name, or as the lines made for people."""
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
