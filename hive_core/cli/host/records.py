"""`hive logs` and `hive events`: what was written down, and what is being written."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import click

from hive_core.agent.reconnect import camel
from hive_core.cli.core.output import (  # fmt: skip
    Column,
    Listing,
    Row,
    block,
    coloured,
    echo,
    moment,
    output_option,
    say,
    words,
)
from hive_core.cli.core.session import Session, complete_agent, entries


def _verdict(value: object) -> str:
    return {True: "allowed", False: "refused"}.get(bool(value), "-") if value is not None else "-"


EVENTS: Final = Listing(
    "seq",
    (Column("seq"), Column("time", words=moment), Column("kind"), Column("caller"),
     Column("operation"), Column("target"), Column("allowed", "verdict", _verdict),
     Column("reason")),
    "nothing happened yet",
)  # fmt: skip


_NONE_SUCH: Final = "no event is like that"
_AGO: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """A time as people say it, in seconds since 1970."""
    if value is None:
        return None
    unit = _AGO.get(value[-1:])
    try:
        return time.time() - float(value[:-1]) * unit if unit else float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither seconds nor such as 30m") from None


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
        echo(f"{moment(row.get('time'))} {words(row.get('unit'))}: {block(str(row.get('text')))}")


@click.command
@click.option("-f", "--follow", is_flag=True, help="Go on as things happen.")
@click.option("-n", "--lines", type=click.IntRange(1), help="Only so many of the last events.")
@click.option("--after", type=click.IntRange(0), help="Only events behind this number.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND",
              help="Only this kind; own.* are all that begin so. May be repeated.")  # fmt: skip
@click.option("--agent", "agents", multiple=True, shell_complete=complete_agent,
              help="Only what it did, or what was done to it. May be repeated.")  # fmt: skip
@click.option(
    "--since", metavar="TIME", callback=_moment,
    help="Only from then on: seconds since 1970, or how long ago, such as 30m, 2h or 1d.",
)  # fmt: skip
@output_option
@click.pass_obj
def events(
    session: Session, /, style: str, *, follow: bool, lines: int | None, **given: object
) -> None:
    """Show what was done, what was refused and what happened, oldest first."""
    wanted = {key: list(value) if isinstance(value, tuple) else value
              for key, value in given.items() if value not in ((), None)}  # fmt: skip
    after = wanted.pop("after", None)
    start = None if after is None else str(after)
    # The daemon's `last` counts all events; of those that are asked for it has to be found out.
    last, most = (None, lines) if wanted else (lines, None)
    rows: Iterator[Row] = session.rows("list_events", "events", last=last, after=start, **wanted)
    if most is not None:
        rows = iter(deque(rows, most))
    if not follow:
        (EVENTS if not wanted else replace(EVENTS, empty=_NONE_SUCH)).show(rows, style)
        return
    known = list(rows)
    at = str(known[-1]["seq"]) if known else start
    for row in itertools.chain(known, _coming(session, at, wanted)):
        if style == "table":
            echo(_line(row))
        else:
            EVENTS.show([row], "name" if style == "name" else "jsonl")


def _coming(session: Session, after: str | None, wanted: dict[str, object]) -> Iterator[Row]:
    """What happens from now on; a part that was pruned before it could be read is said."""
    given = wanted if after is None else {**wanted, "after": after}
    for page in session.link.stream(camel("list_events"), given):
        if isinstance(gap := page.get("gap"), dict):
            say(f"events {gap.get('from')} to {gap.get('to')} are not kept any more")
        yield from entries(page, "events")


def _line(row: Row) -> str:
    """One event while following: no column can wait for the widest."""
    verdict = coloured(_verdict(row.get("allowed")))
    what = " ".join(words(row.get(key)) for key in ("caller", "operation", "target"))
    reason = f": {words(row.get('reason'))}" if row.get("reason") else ""
    return f"{moment(row.get('time'))} {words(row.get('kind'))} {what} {verdict}{reason}"
