"""`hive todo`: everything that waits for you, and the command that settles each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import click

from hive_core.cli.core.output import Column, Listing, Row, output_option, say, words
from hive_core.cli.core.session import Session, entries

# What settles each kind; {id} is that of the row.
SETTLED_BY: Final[Mapping[str, str]] = {
    "alarm": "hive doctor",
    "escalation": "hive question answer {id} TEXT",
    "question": "hive question answer {id} TEXT...",
    "plan": "hive plan show {id}",
    "approval": "hive approvals show {id}",
    "parked": "hive logs {id}; hive start {id}",
    "failed": "hive logs {id}; hive start {id}",
    "refused_commit": "hive status",
    "mail": "hive inbox",
    "dead_letters": "hive inbox {id} --dead",
}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"))


def span(seconds: object) -> str:
    """So long, in the largest whole unit."""
    if not isinstance(seconds, int | float):
        return "-"
    for size, unit in _UNITS:
        if abs(seconds) >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def age(since: object) -> str:
    """How long ago that was."""
    return span(max(0.0, time.time() - since)) if isinstance(since, int | float) else "-"


WAITING: Final = Listing(
    "id",
    (Column("kind"), Column("id"), Column("agent"), Column("since", "age", age), Column("text"),
     Column("settle", "settled by", whole=True)),
    "nothing waits for you",
)  # fmt: skip


def settled(row: Row) -> Row:
    """The row with the command that settles it."""
    command = SETTLED_BY.get(str(row.get("kind")), "").format(id=words(row.get("id")))
    return {**row, "settle": command.replace("inbox operator", "inbox")}


@click.command
@output_option
@click.pass_obj
def todo(session: Session, style: str) -> None:
    """List everything that waits for you, with the command that settles each.

    Escalations, questions, plans and approvals to decide, alarms, agents that are parked or failed,
    mail and dead letters. The exit status is 0 whether there is something or not.
    """
    found = session.ask("todo")
    WAITING.show(map(settled, entries(found, "todo")), style)
    if more := found.get("more"):
        say(f"and {more} more")
