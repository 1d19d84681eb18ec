"""`hive meta log|show|diff`: the meta repository, as the daemon reads it.

To work in it, clone it: `git clone hive::meta`. The git of a user never runs in the daemon's own
repositories, since the configuration of a repository can name programs to run (attack 59).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import click

from hive_core.cli.config.approval_page import difference, quote
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    echo,
    moment,
    one,
    output_option,
    say,
    stamp,
    words,
)
from hive_core.cli.core.session import Session, entries

_COMMIT: Final = re.compile(r"[0-9a-f]{4,40}", re.ASCII)


def _commit(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A commit by its digits; HEAD is the one in force."""
    if value in (None, "HEAD"):
        return None
    if not _COMMIT.fullmatch(value):
        raise click.BadParameter(
            "a commit is 4 to 40 of its hexadecimal digits; see `hive meta log`"
        )
    return value


LOG: Final = Listing(
    "commit",
    (Column("commit", words=lambda value: words(value)[:12]),
     Column("time", words=moment, priority=1), Column("author", priority=2),
     Column("message", "subject", lambda value: words(str(value).partition("\n")[0]))),
    "no commits yet",
)  # fmt: skip


@click.group(cls=ListGroup, aliases={"list": "log", "ls": "log"})
def meta() -> None:
    """Show the meta repository; `git clone hive::meta` makes a clone to work in."""


@meta.command
@click.argument("commit", required=False, callback=_commit)
@click.option("-n", "--lines", type=click.IntRange(1), default=20, show_default=True,
              help="Maximum number of commits.")  # fmt: skip
@output_option
@click.pass_obj
def log(session: Session, commit: str | None, lines: int, style: str) -> None:
    """List COMMIT and the commits before it, the newest first; by default from the one in force."""
    rows = session.rows("meta_log", "commits", after=commit, limit=min(lines, 200))
    LOG.show(islice(rows, lines), style)


@meta.command
@click.argument("commit", required=False, callback=_commit)
@output_option
@click.pass_obj
def show(session: Session, commit: str | None, style: str) -> None:
    """Show the author, time, message and changed lines of COMMIT, or of the commit in force."""
    (row,) = entries(session.ask("meta_log", after=commit, limit=1), "commits")
    lines = session.follow("meta_diff", "lines", new=row["commit"])
    if style == "table":
        one(row, style, "commit", lambda: _page(row, lines))
    else:
        one({**row, "lines": [*lines]}, style, "commit", tuple)


@meta.command
@click.argument("old", required=False, callback=_commit)
@click.argument("new", required=False, callback=_commit)
@click.pass_obj
def diff(session: Session, old: str | None, new: str | None) -> None:
    """Show the lines that differ between two commits.

    NEW is the commit in force by default, and OLD the one before NEW.
    """
    rows = session.follow("meta_diff", "lines", old=old, new=new)
    empty = True
    for line in difference(rows):
        empty = False
        echo(line)
    if empty:
        say("no difference")


def _page(row: Row, lines: Iterable[Row]) -> Iterator[str]:
    yield f"Commit:  {words(row.get('commit'))}"
    yield f"Author:  {words(row.get('author'))}"
    yield f"Date:    {stamp(row.get('time'))}"
    yield ""
    yield from quote(str(row.get("message")).rstrip("\n"))
    yield ""
    yield from difference(lines)
