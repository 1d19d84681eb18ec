"""`hive converge` and `hive gc`: the next steps of the daemon, and orphaned files."""

from __future__ import annotations

from typing import Final

import click

from hive_core.agent.output import as_json
from hive_core.cli.core.output import Column, Listing, echo, output_option, say
from hive_core.cli.core.session import Session, entries

STEPS: Final = Listing(
    "agent",
    (Column("agent"), Column("action"), Column("reason")),
    "nothing to do: the machine is as the hive specifies",
)
ORPHANS: Final = Listing(
    "name", (Column("kind"), Column("name"), Column("detail")), "no orphaned files"
)


@click.command
@click.option("--dry-run", is_flag=True, help="Print what the next pass would do; change nothing.")
@output_option
@click.pass_obj
def converge(session: Session, style: str, *, dry_run: bool) -> None:
    """Reconcile the machine with the specified state now.

    The daemon also does this continuously by itself.
    """
    if dry_run:
        result = session.ask("converge", dry_run=True)
    else:
        result = session.finish(session.change("converge"), "converging")
    if style == "json":
        echo(as_json(result, 2))
        return
    STEPS.show(entries(result, "steps"), style)
    drift = result.get("drift")
    for line in drift if isinstance(drift, list) else []:
        say(f"drift: {line}")


@click.command
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@output_option
@click.pass_obj
def gc(session: Session, style: str, *, dry_run: bool) -> None:
    """Remove orphaned files, mounts and uid ranges, which belong to no agent.

    The command removes expired archives with their uid ranges, and secrets and generations of
    agents that cannot be restored. It lists unknown units, mounts and files without removing them.
    """
    result = session.ask("gc", dry_run=True) if dry_run else session.change("gc")
    ORPHANS.show(entries(result, "items"), style)
