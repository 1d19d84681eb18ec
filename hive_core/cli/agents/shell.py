"""`hive shell`: root inside an agent's container."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.agents import enter
from hive_core.cli.core.output import say
from hive_core.cli.core.session import Session, complete_agent

# Starts in the agent's own working directory. PROMPT_COMMAND replaces a prompt that files of the
# container may set for bash.
_CHANGE: Final = f"cd {enter.STATE} 2>/dev/null; unset OLDPWD; "
_COMMAND: Final = ("/bin/sh", "-c", _CHANGE + 'exec "$@"', "sh")
_SHELL: Final = (
    "/bin/sh",
    "-c",
    _CHANGE + 'export PS1="$HIVE_NAME# ";'
    " export PROMPT_COMMAND='PS1=\"$HIVE_NAME# \"';"
    " command -v bash >/dev/null && exec bash; exec sh",
)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", shell_complete=complete_agent)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shell(session: Session, name: str, command: tuple[str, ...]) -> int:
    """Open a shell in the container of NAME, or run COMMAND there.

    Only root may do this. The shell starts in the home and working directory of the agent,
    /tree/state. Its processes count as the agent's: the agent's limits apply to them, and they end
    when the agent stops.
    """
    place = enter.locate(session, name, "enter")
    if not command:
        say(f"in {name}; `exit` leaves")
        return enter.run(place, _SHELL)
    return enter.run(place, [*_COMMAND, *command])
