"""`hive top`: all agents with what they do and use, as it changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import click

from hive_core.cli.agents import top_screen as look
from hive_core.cli.agents.survey import needs_attention
from hive_core.cli.agents.top_rows import TopLine, TopMirror, TopView
from hive_core.cli.core.output import Column, Listing, Row, output_option, words
from hive_core.cli.core.session import Session
from hive_core.cli.start import EVERY
from hive_core.errors import Internal

BATCH_EVERY: Final = 2.0

TOP: Final = Listing(
    "name",
    (Column("name"), *(
        Column(column.title.lower(), column.title, words, priority=column.rank)
        for column in look.COLUMNS
    ), Column("doing")),
    "no agents",
)  # fmt: skip


@click.command
@click.option("-b", "--batch", is_flag=True, help="Print tables one after the other, for programs.")
@click.option("-n", "--number", type=click.IntRange(1), metavar="N",
              help="With --batch: end after N tables.  [default: until Ctrl-C]")  # fmt: skip
@click.option("--noted", is_flag=True,
              help="Only agents that need attention: failed, parked or degraded ones.")  # fmt: skip
@output_option
@click.pass_obj
def top(
    session: Session, style: str, *, batch: bool, number: int | None, noted: bool
) -> None:  # fmt: skip
    """Show all agents with what they do and use, and refresh that until `q` or Ctrl-C.

    Keys: `n` `s` `c` `m` `t` `$` `i` `a` sort by name, state, processor, memory, tokens, cost,
    inbox and age, the greatest and the oldest first; `/` filters, `f` folds the agents below the
    selected one into sums, `w` lists what waits for you, `l` shows the logs of the selected agent,
    Enter watches it, `S` and `R` stop and resume it after a question. Tokens and cost are those of
    today (UTC). Without a terminal, or with an output format, one table is printed.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and style == "table"
    if batch or not terminal:
        _print_tables(session, style, number or (None if batch else 1), noted=noted)
    else:
        from hive_core.cli.agents.agent_follower import AgentFollower  # noqa: PLC0415
        from hive_core.cli.agents.top_terminal import TopTerminal  # noqa: PLC0415 - for terminals

        follower = AgentFollower(session.socket, EVERY)
        follower.start()
        chosen = partial(_rows_to_show, noted=noted)
        TopTerminal(follower, lambda: session, chosen).run()


def _print_tables(session: Session, style: str, number: int | None, *, noted: bool) -> None:
    """Print the whole table each time; what changed between two is asked for in one stream."""
    mirror, printed = TopMirror(), 0
    for page in _pages(session, mirror):
        mirror.take(page)
        if not mirror.synced:
            continue
        lines = TopView().lines(_rows_to_show(mirror.rows.values(), noted=noted))
        if style == "table":
            TOP.show([_printed_row(line) for line in lines], style)
        else:
            TOP.show([line.row for line in lines], style)
        sys.stdout.flush()
        printed += 1
        if number is not None and printed >= number:
            return


def _pages(session: Session, mirror: TopMirror) -> Iterator[Row]:
    """Pages at each interval, also without a change: programs count on the interval."""
    while True:
        began, before = time.monotonic(), mirror.cursor
        yield (page := session.ask("watch_agents", after=mirror.cursor, figures=True))
        if not page.get("synced") and page.get("next") == before:
            raise Internal("cannot show agents: hived says that more follow, and sends none")
        if page.get("synced"):
            time.sleep(max(0.0, BATCH_EVERY - (time.monotonic() - began)))


def _rows_to_show(rows: Iterable[Row], *, noted: bool) -> list[Row]:
    return [row for row in rows if not noted or needs_attention(row)]


def _printed_row(line: TopLine) -> Row:
    cells: dict[str, object] = {
        column.title.lower(): column.cell(line.row) for column in look.COLUMNS
    }
    name = "  " * line.depth + words(line.row.get("name"))
    return {**cells, "name": name, "doing": look.doing(line.row)}
