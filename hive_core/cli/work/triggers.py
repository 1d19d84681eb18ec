"""`hive trigger`: list, show, set and remove triggers of agents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    echo,
    moment,
    one,
    output_option,
    say,
    stamp,
    words,
)
from hive_core.cli.core.parameters import DURATION
from hive_core.cli.core.session import Session, complete_agent, complete_trigger, entries
from hive_core.cli.core.units import format_duration
from hive_core.errors import NotFound


def _last_fire(value: object) -> str:
    """The last fire, in short."""
    if not isinstance(value, dict):
        return "-"
    status = f", {value['status']}" if value.get("status") else ""
    return f"{value.get('state')}{status} {moment(value.get('at'))}"


def _duration(value: object) -> str:
    return format_duration(value) if isinstance(value, int | float) else "-"


TRIGGERS: Final = Listing(
    "id",
    (Column("id"), Column("agent"), Column("name"), Column("action", priority=2),
     Column("next", words=moment, priority=1),
     Column("last", words=_last_fire, priority=3), Column("enabled", "on", priority=4),
     Column("explained", "when")),
    "no triggers",
)  # fmt: skip
FIRES: Final = Listing(
    "id",
    (Column("id"), Column("at", words=moment), Column("due", words=moment, priority=5),
     Column("count", priority=4), Column("state"), Column("status", priority=1),
     Column("exit", priority=3), Column("duration", words=_duration, priority=2),
     Column("detail", priority=6), Column("output")),
    "no fires yet",
)  # fmt: skip


@click.group(cls=ListGroup)
def trigger() -> None:
    """List, show, set and remove triggers, which fire on a schedule, once, or by webhook."""


@trigger.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_triggers(session: Session, name: str | None, style: str) -> None:
    """List the triggers of NAME, or of all agents."""
    TRIGGERS.show(session.rows("list_triggers", "triggers", agent=name), style)


@trigger.command("show")
@click.argument("id_", metavar="ID", shell_complete=complete_trigger)
@output_option
@click.pass_obj
def show_trigger(session: Session, id_: str, style: str) -> None:
    """Show a trigger: its rule, its action, and its last fire."""
    rows = session.rows("list_triggers", "triggers")
    row = next((row for row in rows if row.get("id") == id_), None)
    if row is None:
        raise NotFound(f"no trigger {id_}; `hive trigger` lists them")
    one(row, style, "id", lambda: _page(row))


def _page(row: Row) -> Iterator[str]:
    for key, value in row.items():
        text = {"next": stamp, "last": _last_fire}.get(key, words)(value)
        yield f"{key:<10} {text}"


@trigger.command
@click.argument("id_", metavar="ID", shell_complete=complete_trigger)
@output_option
@click.pass_obj
def fires(session: Session, id_: str, style: str) -> None:
    """List the last fires of a trigger, the newest first."""
    FIRES.show(entries(session.ask("list_fires", trigger=id_), "fires"), style)


@trigger.command("set")
@click.argument("name", shell_complete=complete_agent)
@click.argument("trigger_name", metavar="TRIGGER")
@click.argument("text")
@click.option("--cron", help="Schedule: five fields as in crontab(5), or six with seconds first.")
@click.option("--zone", help="Time zone of --cron and --at; by default UTC.")
@click.option("--every", type=DURATION, help="Time between two fires.")
@click.option("--at", help="Time of the only fire: ISO 8601, or seconds since 1970.")
@click.option(
    "--webhook", is_flag=True, help="Fire when a request comes to the address of the webhook."
)
@click.option(
    "--path", help="Path of the webhook, whose address is /hook/NAME/PATH; by default an id."
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="HTTP method that the webhook accepts (repeatable); by default POST.",
)
@click.option("--strict", is_flag=True, help="Accept only signatures over the whole request.")
@click.option(
    "--secret-stdin",
    is_flag=True,
    help="Read the secret of the webhook from standard input; by default one is made and printed.",
)
@click.option(
    "--action",
    type=click.Choice(["message", "wake", "task", "spawn"]),
    default="message",
    show_default=True,
    help="Action of a fire.",
)
@click.option("--agent", "agent_name", help="For spawn: name of the new agents.")
@click.option(
    "--role", default="task", show_default=True, help="For spawn: role of the new agents."
)
@click.option("--command", multiple=True, help="For spawn: one word of their command (repeatable).")
@click.option("--deadline", type=DURATION, help="Maximum working time of a task.")
@click.option(
    "--missed",
    type=click.Choice(["skip", "latest", "all"]),
    default="latest",
    show_default=True,
    help="What to do about fires that were due while the daemon did not run.",
)
@click.option("--off", is_flag=True, help="Create the trigger disabled.")
@click.pass_obj
def set_(session: Session, /, name: str, trigger_name: str, text: str, **options: object) -> None:
    """Create or replace trigger TRIGGER for agent NAME; TEXT is the message or the task.

    The command prints the id of the trigger. It replaces a trigger of yours for NAME with the same
    name.
    """
    when = {
        key: options[key] for key in ("cron", "zone", "every", "at") if options[key] is not None
    }
    if options["webhook"]:
        when["webhook"] = _webhook(options)
    reply = session.change(
        "set_trigger", name=trigger_name, agent=name, when=when, action=_action(text, options),
        missed=options["missed"], enabled=not options["off"],
    )  # fmt: skip
    due = f"; next: {stamp(reply['next'])}" if reply.get("next") else ""
    say(f"{reply.get('explained')}{due}")
    if reply.get("path"):
        hooks = Path(session.socket).with_name("hooks.sock")
        say(f"address: {reply['path']} on {hooks}")
        if not hooks.exists():
            say(
                "hived takes no webhooks yet: set `webhooks = true` in [triggers] of"
                " /etc/hive/hive.toml, then `systemctl reload hived`"
            )
    if reply.get("secret"):
        say(f"secret, shown once: {reply['secret']}")
    echo(words(reply.get("id")))


def _webhook(options: Row) -> dict[str, object]:
    methods = options["methods"]
    webhook: dict[str, object] = {key: options[key] for key in ("path", "strict") if options[key]}
    if isinstance(methods, tuple) and methods:
        webhook["methods"] = list(methods)
    if options["secret_stdin"]:
        webhook["secret"] = sys.stdin.read().removesuffix("\n")
    return webhook


def _action(text: str, options: Row) -> dict[str, object]:
    action: dict[str, object] = {"kind": options["action"], "text": text}
    if options["deadline"] is not None:
        action["deadline"] = options["deadline"]
    if options["action"] == "spawn":
        command = options["command"]
        action["agent"] = {
            "name": options["agent_name"] or "helper", "role": options["role"],
            "command": list(command) if isinstance(command, tuple) else [],
        }  # fmt: skip
    return action


@trigger.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True,
                shell_complete=complete_trigger)  # fmt: skip
@click.pass_obj
def rm(session: Session, ids: tuple[str, ...]) -> None:
    """Remove triggers. Work that they started continues."""
    for id_ in ids:
        say(f"removed {words(session.change('remove_trigger', trigger=id_).get('name'))}")
