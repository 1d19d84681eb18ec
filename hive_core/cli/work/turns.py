"""`hive turn`: what the sessions of agents have recorded of their turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.config.approval_page import quote
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    moment,
    one,
    output_option,
    stamp,
    words,
)
from hive_core.cli.core.session import Session, complete_agent
from hive_core.errors import NotFound

TURNS: Final = Listing(
    "number",
    (
        Column("number"), Column("ended", words=moment, priority=1),
        Column("conversation", priority=2), Column("turn", priority=3), Column("status"),
        Column("task", priority=2), Column("text"),
    ),
    "no turns recorded",
)  # fmt: skip
ROOT: Final = "root"
_LAST: Final = 20


@click.group(cls=ListGroup)
def turn() -> None:
    """List and show the turns that agents have recorded: what they were asked and answered."""


@turn.command("list")
@click.argument("name", default=ROOT, shell_complete=complete_agent)
@click.option("-n", "--lines", type=click.IntRange(1, 200), default=_LAST, show_default=True,
              help="Number of most recent turns to show.")  # fmt: skip
@click.option("--conversation", metavar="ID", help="Only turns of this conversation.")
@output_option
@click.pass_obj
def list_turns(
    session: Session, name: str, lines: int, conversation: str | None, style: str
) -> None:
    """List the last turns of NAME (by default root), the newest first.

    The daemon keeps the last 200 turns of an agent, in 4 MiB. The text is what the agent said.
    """
    TURNS.show(_turns(session, name, lines, conversation), style)


def _turns(
    session: Session, name: str, most: int, conversation: str | None = None
) -> Iterator[Row]:
    rows = session.rows(
        "list_turns", "turns", agent=name, conversation=conversation, limit=min(most, 100)
    )
    return (row for row, _ in zip(rows, range(most), strict=False))


@turn.command("show")
@click.argument("name", shell_complete=complete_agent)
@click.argument("number", type=click.IntRange(1), required=False)
@output_option
@click.pass_obj
def show_turn(session: Session, name: str, number: int | None, style: str) -> None:
    """Show turn NUMBER of NAME with its whole texts; without NUMBER, the last one.

    Text of agents follows a bar, with control characters escaped.
    """
    rows = session.rows("list_turns", "turns", agent=name)
    row = next((row for row in rows if number in (None, row.get("number"))), None)
    if row is None:
        missing = f"no turn {number} of {name}" if number else f"no turns of {name}"
        raise NotFound(f"{missing}; `hive turn list {name}` lists them")
    one(row, style, "number", lambda: _page(row))


def _page(row: Row) -> Iterator[str]:
    yield f"turn         {words(row.get('turn'))} of conversation {words(row.get('conversation'))}"
    yield f"number       {words(row.get('number'))}"
    yield f"status       {words(row.get('status'))}"
    if row.get("task"):
        yield f"task         {words(row.get('task'))}"
    if row.get("began") is not None:
        yield f"began        {stamp(row.get('began'))}"
    yield f"ended        {stamp(row.get('ended'))}"
    if row.get("cut"):
        yield "shortened    yes: the daemon keeps 64 KiB of a turn"
    for field in ("error", "system", "input", "text"):
        if text := str(row.get(field) or ""):
            yield ""
            yield f"{field}:"
            yield from quote(text)
