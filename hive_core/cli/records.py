"""`hive logs` and `hive events`: what was written down, and what is being written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import click

from hive_core.agent.show import plain
from hive_core.cli.output import (
    Column,
    Listing,
    Row,
    coloured,
    echo,
    moment,
    output_option,
    words,
)  # fmt: skip
from hive_core.cli.session import Session, complete_agent, entries


def _verdict(value: object) -> str:
    return {True: "allowed", False: "refused"}.get(bool(value), "-") if value is not None else "-"


EVENTS: Final = Listing(
    "seq",
    (Column("seq"), Column("time", words=moment), Column("kind"), Column("caller"),
     Column("operation"), Column("target"), Column("allowed", "verdict", _verdict),
     Column("reason")),
    "nothing happened yet",
)  # fmt: skip


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.option("-f", "--follow", is_flag=True, help="Go on as lines are written.")
@click.option("-n", "--lines", type=click.IntRange(1, 1000), default=50, show_default=True,
              help="How many of the last lines.")  # fmt: skip
@click.option("--since", type=float, help="Only lines after this time (seconds since 1970).")
@click.option("--grep", help="Only lines that hold this text.")
@output_option
@click.pass_obj
def logs(session: Session, /, name: str, style: str, *, follow: bool, **given: object) -> None:
    """Show what NAME wrote.

    Units inside a booted container are included.
    """
    if follow:
        rows: Iterator[Row] = session.follow("get_logs", "lines", agent=name, **given)
    else:
        rows = iter(entries(session.ask("get_logs", agent=name, **given), "lines"))
    if style != "table":
        Listing("text", ()).show(rows, style)
        return
    for row in rows:
        echo(f"{moment(row.get('time'))} {words(row.get('unit'))}: {plain(str(row.get('text')))}")


@click.command
@click.option("-f", "--follow", is_flag=True, help="Go on as things happen.")
@click.option("-n", "--lines", type=click.IntRange(1), help="Only so many of the last events.")
@output_option
@click.pass_obj
def events(session: Session, style: str, *, follow: bool, lines: int | None) -> None:
    """Show every change and every refusal, oldest first."""
    rows: Iterator[Row] = session.rows("list_events", "events", last=lines)
    if not follow:
        EVENTS.show(rows, style)
        return
    known = list(rows)
    after = str(known[-1]["seq"]) if known else None
    coming = session.follow("list_events", "events", after=after)
    for row in itertools.chain(known, coming):
        if style == "table":
            echo(_line(row))
        else:
            EVENTS.show([row], "name" if style == "name" else "jsonl")


def _line(row: Row) -> str:
    """One event while following: no column can wait for the widest."""
    verdict = coloured(_verdict(row.get("allowed")))
    what = " ".join(words(row.get(key)) for key in ("caller", "operation", "target"))
    reason = f": {words(row.get('reason'))}" if row.get("reason") else ""
    return f"{moment(row.get('time'))} {words(row.get('kind'))} {what} {verdict}{reason}"
