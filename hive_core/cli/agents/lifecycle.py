"""start, stop, restart, kill, sleep, resume, update: about machines; the tree stays as it is."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.output import say
from hive_core.cli.core.session import Session, complete_agent

_DOING: Final = {
    "start": "starting", "stop": "stopping", "restart": "restarting", "kill": "killing",
    "sleep": "putting to sleep", "resume": "waking", "update": "updating",
}  # fmt: skip
_HELP: Final = {
    "start": "Start NAME, also if it waits after a failure or was parked.",
    "stop": "Stop NAME; it is killed if it does not end within --grace.",
    "restart": "Stop NAME and start it afresh.",
    "kill": "End NAME at once.",
    "sleep": "Put NAME to sleep: its container is stopped, its mail waits.",
    "resume": "Wake NAME, which sleeps.",
    "update": "Rebuild NAME from its spec and image as they are now.",
}
_GRACE_MAX: Final = 30


def _extra(operation: str) -> list[click.Parameter]:
    if operation in ("stop", "sleep"):
        return [click.Option(["--grace"], type=click.FloatRange(0, _GRACE_MAX),
                             help="Seconds until it is killed.  [default: 5]")]  # fmt: skip
    if operation == "kill":
        return [click.Option(["--reason"], help="Reason, kept in the event log.")]
    if operation == "resume":
        return [click.Option(["--body"], help="A message that it finds when it wakes.")]
    return []


def _lifecycle(operation: str) -> click.Command:
    """They differ in their words and in one option."""

    @click.pass_obj
    def act(session: Session, /, names: tuple[str, ...], *, no_wait: bool, **given: object) -> None:
        wanted = {key: value for key, value in given.items() if value}
        if given.get("grace") is not None:
            wanted["grace"] = given["grace"]
        replies = [(name, session.change(operation, agent=name, **wanted)) for name in names]
        for name, reply in replies:
            hit = reply.get("agents")
            if isinstance(hit, list) and len(hit) > 1:
                say(f"{operation}: {', '.join(map(str, hit))}")
            session.finish(reply, f"{_DOING[operation]} {name}", wait=not no_wait)

    params: list[click.Parameter] = [
        click.Argument(["names"], nargs=-1, required=True, metavar="NAME...",
                       shell_complete=complete_agent),
        click.Option(["--recursive"], is_flag=True, help="Also its descendants, the lowest first."),
        click.Option(["--no-wait"], is_flag=True, help="Return once it is recorded."),
        *_extra(operation),
    ]  # fmt: skip
    return click.Command(operation, callback=act, params=params, help=_HELP[operation])


start, stop, restart, kill, sleep, resume, update = map(_lifecycle, _DOING)
