"""`hive todo`: everything that waits for the operator, with the command that settles each item."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import click

from hive_core.cli.core.output import Column, Listing, Row, output_option, say, words
from hive_core.cli.core.session import Session, entries
from hive_core.cli.core.units import format_duration

# The command that settles each kind; {id} is that of the row.
SETTLED_BY: Final[Mapping[str, str]] = {
    "alarm": "hive doctor",
    "quarantine": "hive quarantine {id} --lift",
    "escalation": "hive question answer {id} TEXT",
    "question": "hive question answer {id} TEXT...",
    "plan": "hive plan show {id}",
    "judgement": "hive task judge {id} accept|retry FEEDBACK",
    "approval": "hive approval show {id}",
    "parked": "hive logs {id}; hive start {id}",
    "failed": "hive logs {id}; hive start {id}",
    "refused_commit": "hive status",
    "mail": "hive inbox; hive inbox clear",
    "dead_letters": "hive inbox {id} --dead; hive inbox clear --dead --agent {id}",
}


def age(since: object) -> str:
    """The time since then."""
    if not isinstance(since, int | float):
        return "-"
    return format_duration(max(0, int(time.time() - since)))


WAITING: Final = Listing(
    "id",
    (Column("kind"), Column("id", priority=2), Column("agent", priority=1),
     Column("since", "age", age, priority=3), Column("settle", "settled by", whole=True),
     Column("text")),
    "nothing waits for you",
)  # fmt: skip


def with_command(row: Row) -> Row:
    """The row with the command that settles it."""
    command = SETTLED_BY.get(str(row.get("kind")), "").format(id=words(row.get("id")))
    command = command.replace(" --agent operator", "").replace("inbox operator", "inbox")
    return {**row, "settle": command}


@click.command
@output_option
@click.pass_obj
def todo(session: Session, style: str) -> None:
    """List everything that waits for you, with the command that settles each item.

    The list has escalations, questions, plans and approvals to decide, alarms, quarantines, agents
    that are parked or failed, mail, and the dead letters of the last 7 days. The exit status is 0
    also when the list is empty.
    """
    reply = session.ask("todo")
    WAITING.show(map(with_command, entries(reply, "todo")), style)
    if more := reply.get("more"):
        say(f"and {more} more")
