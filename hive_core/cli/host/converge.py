"""`hive converge` and `hive gc`: what the daemon would do next, and what is left over."""

from __future__ import annotations

from typing import Final

import click

from hive_core.agent.output import as_json
from hive_core.cli.core.output import Column, Listing, echo, output_option, say
from hive_core.cli.core.session import Session, entries

STEPS: Final = Listing(
    "agent",
    (Column("agent"), Column("action"), Column("reason")),
    "nothing to do: the machine is as the hive says",
)
LEFT: Final = Listing(
    "name", (Column("kind"), Column("name"), Column("detail")), "nothing is left over"
)


@click.command
@click.option("--dry-run", is_flag=True, help="Print what the next pass would do, and do nothing.")
@output_option
@click.pass_obj
def converge(session: Session, style: str, *, dry_run: bool) -> None:
    """Make the machine what the hive says, now.

    The daemon does so by itself all the time.
    """
    if dry_run:
        found = session.ask("converge", dry_run=True)
    else:
        found = session.finish(session.change("converge"), "converging")
    if style == "json":
        echo(as_json(found, 2))
        return
    STEPS.show(entries(found, "steps"), style)
    drift = found.get("drift")
    for each in drift if isinstance(drift, list) else []:
        say(f"drift: {each}")


@click.command
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@output_option
@click.pass_obj
def gc(session: Session, style: str, *, dry_run: bool) -> None:
    """Remove what belongs to no agent any more.

    That is archives past their time and their uid ranges, secrets and generations of agents that
    will not come back. Strange units, mounts and files are listed and left to you.
    """
    found = session.ask("gc", dry_run=True) if dry_run else session.change("gc")
    LEFT.show(entries(found, "items"), style)
