"""`hive shell`: root inside an agent's container."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.agents import enter
from hive_core.cli.core.output import say
from hive_core.cli.core.session import Session, complete_agent

_SHELL: Final = (
    "/bin/sh",
    "-c",
    "cd /tree/state; command -v bash >/dev/null && exec bash; exec sh",
)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", shell_complete=complete_agent)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shell(session: Session, name: str, command: tuple[str, ...]) -> int:
    """Open a shell in the container of NAME, or run COMMAND there.

    For root only. What runs there counts as the agent's: its limits hold, and it ends when the
    agent stops.
    """
    place = enter.locate(session, name, "enter")
    if not command:
        say(f"in {name}; `exit` leaves")
    return enter.run(place, command or _SHELL)
