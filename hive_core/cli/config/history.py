"""`hive history` and `hive rollback`: earlier configurations of agents."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.config.approvals import await_deploy
from hive_core.cli.core.options import no_wait_option
from hive_core.cli.core.output import Column, Listing, moment, output_option, say, words
from hive_core.cli.core.session import Session, complete_agent

HISTORY: Final = Listing(
    "number",
    (Column("agent"), Column("number"), Column("current"),
     Column("commit", words=lambda value: words(value)[:12]), Column("kind", priority=2),
     Column("requester", priority=3), Column("at", "since", moment),
     Column("approval", priority=4), Column("failed", priority=1)),
    "nothing was deployed yet",
)  # fmt: skip


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def history(session: Session, name: str | None, style: str) -> None:
    """List the configurations that NAME ran with, the newest first.

    Without NAME those of all agents.
    """
    HISTORY.show(session.rows("history", "generations", agent=name), style)


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.option(
    "--to", metavar="ID",
    help="Number from `hive history`, or ID of its approval.  [default: the previous generation]",
)  # fmt: skip
@no_wait_option
@click.pass_obj
def rollback(session: Session, name: str, to: str | None, *, no_wait: bool) -> None:
    """Deploy an earlier configuration of NAME again.

    The command returns when the configuration is deployed and NAME is healthy. Capabilities that
    NAME lost since then are not restored.
    """
    reply = session.change("rollback", agent=name, to=to)
    say(f"{name} goes back to generation {reply.get('generation')}, commit {reply.get('commit')}")
    await_deploy(
        session,
        {**reply, "agent": name},
        f"rolling {name} back, and watching its health",
        wait=not no_wait,
    )
    if not no_wait:
        say(f"deployed: {name}")
