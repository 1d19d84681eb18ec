"""`hive role` and `hive tool`: properties of roles, and tools that agents may execute."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup, NameListGroup
from hive_core.cli.core.output import Column, Listing, Row, one, output_option, words
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.errors import NotFound

NAMES: Final = ("daemon", "agent", "architect", "lead", "worker", "task")
ROLES: Final = Listing(
    "role",
    (Column("role"), Column("lifetime", priority=2), Column("behaviour", priority=3),
     Column("creates"), Column("restarts", priority=4), Column("after_task"),
     Column("highest_tier", priority=5), Column("tools")),
)  # fmt: skip
TOOLS: Final = Listing(
    "tool",
    (Column("tool"), Column("kind", priority=1), Column("allowed"), Column("entries", priority=2),
     Column("why")),
)  # fmt: skip


@click.group(cls=ListGroup)
def role() -> None:
    """Show what each role may do, and what its agents do after their last task."""


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
    """Show one role with all its properties."""
    (row,) = entries(session.ask("list_roles", role=name), "roles")
    one(row, style, "role", lambda: _lines(row))


def _lines(row: Row) -> list[str]:
    width = max(map(len, row))
    return [f"{key.replace('_', ' '):<{width}}  {words(value)}" for key, value in row.items()]


@click.group(cls=NameListGroup)
def tool() -> None:
    """Show which tools agents may execute."""


@tool.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_tools(session: Session, name: str | None, style: str) -> None:
    """List the tools of NAME: whether it may execute each, with which arguments, or why not."""
    TOOLS.show(entries(session.ask("list_tools", agent=name), "tools"), style)


@tool.command("show")
@click.argument("name", metavar="AGENT", shell_complete=complete_agent)
@click.argument("tool_name", metavar="TOOL")
@output_option
@click.pass_obj
def show_tool(session: Session, name: str, tool_name: str, style: str) -> None:
    """Show whether AGENT may execute TOOL, with which arguments, or why not."""
    rows = entries(session.ask("list_tools", agent=name), "tools")
    row = next((row for row in rows if row.get("tool") == tool_name), None)
    if row is None:
        raise NotFound(f"no tool {tool_name}; `hive tool list {name}` lists those of {name}")
    one(row, style, "tool", lambda: _lines(row))
