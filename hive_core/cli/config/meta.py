"""`hive meta log|show|diff`: a look at the meta repository, as the daemon itself reads it.

To work in it, clone it: `git clone hive::meta`. No git ever runs in the daemon's own repositories
for people, since whoever can set one up can have it run programs (attack 59).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import click

from hive_core.cli.config.approval_page import difference, quoted
from hive_core.cli.core.lazy import Group
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    echo,
    moment,
    one,
    output_option,
    say,
    words,
)
from hive_core.cli.core.session import Session

LOG: Final = Listing(
    "commit",
    (Column("commit", words=lambda value: words(value)[:12]), Column("time", words=moment),
     Column("author"),
     Column("message", "subject", lambda value: words(str(value).partition("\n")[0]))),
    "nothing was committed yet",
)  # fmt: skip


@click.group(cls=Group)
def meta() -> None:
    """Look into the meta repository; `git clone hive::meta` makes a clone to work in."""


@meta.command
@click.argument("commit", required=False)
@click.option("-n", "--lines", type=click.IntRange(1), default=20, show_default=True,
              help="Commits at most.")  # fmt: skip
@output_option
@click.pass_obj
def log(session: Session, commit: str | None, lines: int, style: str) -> None:
    """List the commits from COMMIT back, the newest first; without it from what is in force."""
    rows = session.rows("meta_log", "commits", after=commit, limit=min(lines, 200))
    LOG.show(islice(rows, lines), style)


@meta.command
@click.argument("commit", required=False)
@output_option
@click.pass_obj
def show(session: Session, commit: str | None, style: str) -> None:
    """Show COMMIT, or the one in force: who, when, what for, and which lines it changes."""
    (found,) = _entries(session.ask("meta_log", after=commit, limit=1))
    rows = session.follow("meta_diff", "lines", new=found["commit"])
    if style == "table":
        one(found, style, "commit", lambda: _page(found, rows))
    else:
        one({**found, "lines": [*rows]}, style, "commit", tuple)


@meta.command
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.pass_obj
def diff(session: Session, old: str | None, new: str | None) -> None:
    """Show which lines differ between two commits.

    Without NEW it is what is in force, without OLD what was before that.
    """
    rows = session.follow("meta_diff", "lines", old=old, new=new)
    empty = True
    for line in difference(rows):
        empty = False
        echo(line)
    if empty:
        say("they are the same")


def _page(found: Row, rows: Iterable[Row]) -> Iterator[str]:
    yield f"Commit:  {words(found.get('commit'))}"
    yield f"Author:  {words(found.get('author'))}"
    yield f"Date:    {moment(found.get('time'))}"
    yield ""
    yield from quoted(str(found.get("message")).rstrip("\n"))
    yield ""
    yield from difference(rows)


def _entries(reply: Row) -> list[Row]:
    found = reply.get("commits")
    return found if isinstance(found, list) else []
