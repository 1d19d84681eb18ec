"""`hive remind` and `hive reminder`: messages that are delivered later."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.lazy import NameListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    moment,
    one,
    output_option,
    say,
    stamp,
    words,
)
from hive_core.cli.core.parameters import DURATION, TIME
from hive_core.cli.core.session import Session, complete_agent, complete_reminder
from hive_core.errors import NotFound

REMINDERS: Final = Listing(
    "id",
    (Column("id"), Column("to"), Column("by", priority=1), Column("due", words=moment),
     Column("body")),
    "no reminders",
)  # fmt: skip


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("text")
@click.option("--in", "after", type=DURATION, help="Time from now, such as 90, 5m, 2h or 3d.")
@click.option("--at", "at", type=TIME,
              help="Time, such as 2030-01-31T09:00; local time unless it has a zone.")  # fmt: skip
@click.pass_obj
def remind(
    session: Session, name: str, text: str, after: float | None, at: float | None
) -> None:  # fmt: skip
    """Send TEXT to NAME later, and print the id of the reminder. NAME may be `operator`.

    The daemon delivers it also while the agent is stopped or asleep: the mail waits.
    """
    if (after is None) == (at is None):
        raise click.UsageError("set one of --in and --at")
    due = {"in": after} if after is not None else {"at": at}
    reply = session.change("remind", to=name, body=text, **due)
    say(f"due {stamp(reply.get('due'))}")
    click.echo(words(reply.get("reminder")))


@click.group(cls=NameListGroup, aliases={"cancel": "rm"})
def reminder() -> None:
    """List, show and remove reminders; `hive remind` creates one."""


@reminder.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_reminders(session: Session, name: str | None, style: str) -> None:
    """List the reminders for NAME, or for all agents and the operator."""
    REMINDERS.show(session.rows("list_reminders", "reminders", agent=name), style)


@reminder.command("show")
@click.argument("id_", metavar="ID", shell_complete=complete_reminder)
@click.option("--agent", "name", shell_complete=complete_agent,
              help="Recipient of the reminder; by default any.")  # fmt: skip
@output_option
@click.pass_obj
def show_reminder(session: Session, id_: str, name: str | None, style: str) -> None:
    """Show one reminder with its whole text."""
    rows = session.rows("list_reminders", "reminders", agent=name)
    row = next((row for row in rows if row.get("id") == id_), None)
    if row is None:
        raise NotFound(f"no reminder {id_}" + (f" for {name}" if name else ""))
    one(row, style, "id", lambda: _page(row))


def _page(row: Row) -> list[str]:
    due = f"due       {stamp(row.get('due'))}"
    fields = [f"{key:<9} {words(row.get(key))}" for key in ("id", "to", "by")]
    return [*fields, due, f"body      {words(row.get('body'))}"]


@reminder.command("rm")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_reminder)
@click.pass_obj
def remove_reminders(session: Session, ids: tuple[str, ...]) -> None:
    """Remove reminders before they are due."""
    for id_ in ids:
        _cancel(session, id_)


def _cancel(session: Session, id_: str) -> None:
    reply = session.change("cancel_reminder", reminder=id_)
    say(f"removed: {words(reply.get('to'))} does not get it")


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--cancel", "id_", metavar="ID", help="Remove this reminder.")
@output_option
@click.pass_obj
def reminders(session: Session, name: str | None, style: str, id_: str | None) -> None:
    """List the reminders for NAME, or for all (`hive reminder list`)."""
    if id_ is not None:
        _cancel(session, id_)
        return
    REMINDERS.show(session.rows("list_reminders", "reminders", agent=name), style)
