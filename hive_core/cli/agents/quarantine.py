"""`hive quarantine`: hold a subtree, and let it go."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.output import Column, Listing, moment, output_option, say, words
from hive_core.cli.core.session import Session, complete_agent, entries

QUARANTINES: Final = Listing(
    "agent",
    (Column("agent"), Column("agents", priority=1), Column("since", words=moment, priority=2),
     Column("by", priority=3), Column("reason")),
    "no agent is in quarantine",
)  # fmt: skip


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--lift", is_flag=True, help="End the quarantine of NAME.")
@click.option("--reason", default="", metavar="TEXT", help="Reason shown to the agents.")
@output_option
@click.pass_obj
def quarantine(session: Session, name: str | None, style: str, reason: str, *, lift: bool) -> None:
    """Hold NAME and its descendants; without NAME, list the quarantines.

    No mail, tasks, reports, tools or model calls leave a held agent until you lift the quarantine
    with --lift. Its machine runs on, and it still receives mail. The quarantine outlives restarts
    and moves.
    """
    if name is None:
        if lift or reason:
            raise click.UsageError("name the agent")
        QUARANTINES.show(entries(session.ask("status"), "quarantines"), style)
    elif lift:
        if reason:
            raise click.UsageError("--reason is for a new quarantine")
        count = words(session.change("lift_quarantine", agent=name).get("agents"))
        say(f"quarantine of {name} lifted; agents that may work again: {count}")
    else:
        count = words(session.change("quarantine", agent=name, reason=reason).get("agents"))
        say(f"{name} is in quarantine; agents held: {count}")
