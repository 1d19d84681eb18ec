"""`hive agent`: list, show and change agents; it also has the other commands about agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, output_option
from hive_core.cli.core.session import Session, complete_agent

AGENTS: Final = Listing(
    "name",
    (Column("name"), Column("parent", priority=1), Column("role", priority=2), Column("state"),
     Column("activity"), Column("title")),
    "no agents; `hive agent create NAME` makes one",
)  # fmt: skip


class AgentGroup(ListGroup):
    """The group of all commands about agents; most are commands of `hive` too."""

    lazy: ClassVar[Mapping[str, str]] = {
        "list": "agents.agent:list_agents", "show": "agents.show", "create": "agents.create",
        "set": "agents.set_agent:set_", "start": "agents.lifecycle", "stop": "agents.lifecycle",
        "restart": "agents.lifecycle", "kill": "agents.lifecycle", "sleep": "agents.lifecycle",
        "resume": "agents.lifecycle", "update": "agents.lifecycle",
        "destroy": "agents.tree_changes", "restore": "agents.tree_changes",
        "move": "agents.tree_changes", "tree": "agents.tree", "logs": "host.records",
        "shell": "agents.shell", "cp": "agents.copy", "history": "config.history",
        "rollback": "config.history", "wait": "work.wait", "quarantine": "agents.quarantine",
    }  # fmt: skip
    unlisted: ClassVar[Mapping[str, str]] = {
        "rm": "agents.tree_changes:destroy", "exec": "agents.shell:shell",
        "ps": "agents.agent:list_agents", "chat": "work.chat", "send": "work.send",
    }  # fmt: skip


@click.group(cls=AgentGroup)
def agent() -> None:
    """List, show, create, change and run agents."""


@click.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_agents(session: Session, name: str | None, style: str) -> None:
    """List all agents, or NAME and its descendants."""
    AGENTS.show(session.rows("list_agents", "agents", root=name), style)
