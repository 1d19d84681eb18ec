"""`hive role` and `hive tools`: what roles are like, and what an agent may execute."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, Row, one, output_option, words
from hive_core.cli.core.session import Session, complete_agent, entries

NAMES: Final = ("daemon", "agent", "architect", "lead", "worker", "task")
ROLES: Final = Listing(
    "role",
    (Column("role"), Column("lifetime"), Column("behaviour"), Column("creates"),
     Column("restarts"), Column("after_task"), Column("highest_tier"), Column("tools")),
)  # fmt: skip
TOOLS: Final = Listing(
    "tool", (Column("tool"), Column("kind"), Column("allowed"), Column("entries"), Column("why"))
)


@click.group(cls=ListGroup, invoke_without_command=True)
def role() -> None:
    """What each role may do, and how it ends."""


@role.command("list")
@output_option
@click.pass_obj
def list_(session: Session, style: str) -> None:
    """List the roles."""
    ROLES.show(entries(session.ask("list_roles"), "roles"), style)


@role.command
@click.argument("name", type=click.Choice(NAMES), metavar="ROLE")
@output_option
@click.pass_obj
def show(session: Session, name: str, style: str) -> None:
    """Show all that is known of one role."""
    (row,) = entries(session.ask("list_roles", role=name), "roles")
    one(row, style, "role", lambda: _lines(row))


def _lines(row: Row) -> list[str]:
    width = max(map(len, row))
    return [f"{key.replace('_', ' '):<{width}}  {words(value)}" for key, value in row.items()]


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def tools(session: Session, name: str | None, style: str) -> None:
    """Show what NAME may execute, with which arguments, and why not the rest."""
    TOOLS.show(entries(session.ask("list_tools", agent=name), "tools"), style)
