"""start, stop, restart, kill, sleep, resume, update: they change machines, not the tree."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.output import say
from hive_core.cli.core.parameters import DurationType
from hive_core.cli.core.session import Session, complete_agent

_DOING: Final = {
    "start": "starting {}", "stop": "stopping {}", "restart": "restarting {}",
    "kill": "killing {}", "sleep": "putting {} to sleep", "resume": "waking {}",
    "update": "updating {}",
}  # fmt: skip
_HELP: Final = {
    "start": "Start NAME, also when it failed or is parked.",
    "stop": "Stop NAME; kill it if it does not end within --grace.",
    "restart": "Stop NAME and start it again.",
    "kill": "Kill NAME at once.",
    "sleep": "Put NAME to sleep: stop its container and keep its mail.",
    "resume": "Wake NAME from sleep.",
    "update": "Rebuild NAME from its current spec and image.",
}
_GRACE_MAX: Final = 30


def _own_options(operation: str) -> list[click.Parameter]:
    if operation in ("stop", "sleep"):
        help_ = "Time until it is killed, at most 30s.  [default: 5s]"
        return [click.Option(["--grace"], type=DurationType(0, _GRACE_MAX), help=help_)]
    if operation == "kill":
        return [click.Option(["--reason"], help="Reason, kept in the event log.")]
    if operation == "resume":
        return [click.Option(["--body"], help="Message that NAME receives when it wakes.")]
    return []


def _lifecycle(operation: str) -> click.Command:
    """Make one of the commands, which differ in texts and in one option."""

    @click.pass_obj
    def act(
        session: Session, /, names: tuple[str, ...], *, no_wait: bool, **options: object
    ) -> None:
        params = {
            key: value
            for key, value in options.items()
            if value or (key == "grace" and value is not None)
        }
        replies = [(name, session.change(operation, agent=name, **params)) for name in names]
        for name, reply in replies:
            agents = reply.get("agents")
            if isinstance(agents, list) and len(agents) > 1:
                say(f"{operation}: {', '.join(map(str, agents))}")
            session.finish(reply, _DOING[operation].format(name), wait=not no_wait)

    params: list[click.Parameter] = [
        click.Argument(["names"], nargs=-1, required=True, metavar="NAME...",
                       shell_complete=complete_agent),
        click.Option(["--recursive"], is_flag=True, help="Include its descendants, deepest first."),
        click.Option(["--no-wait"], is_flag=True, help="Return once the change is recorded."),
        *_own_options(operation),
    ]  # fmt: skip
    return click.Command(operation, callback=act, params=params, help=_HELP[operation])


start, stop, restart, kill, sleep, resume, update = map(_lifecycle, _DOING)
