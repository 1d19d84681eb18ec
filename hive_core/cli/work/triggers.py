"""`hive trigger`: what happens by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, Row, echo, moment, output_option, say, words
from hive_core.cli.core.session import Session, complete_agent, entries


def _result(value: object) -> str:
    """The last fire in a few words."""
    if not isinstance(value, dict):
        return "-"
    status = f", {value['status']}" if value.get("status") else ""
    return f"{value.get('state')}{status} {moment(value.get('at'))}"


TRIGGERS: Final = Listing(
    "id",
    (Column("id"), Column("agent"), Column("name"), Column("action"), Column("next", words=moment),
     Column("last", words=_result), Column("enabled", "on"), Column("explained", "when")),
    "no triggers",
)  # fmt: skip
FIRES: Final = Listing(
    "id",
    (Column("id"), Column("at", words=moment), Column("due", words=moment), Column("count"),
     Column("state"), Column("status"), Column("exit"), Column("duration"), Column("detail"),
     Column("output")),
    "it has not fired yet",
)  # fmt: skip


@click.group(cls=ListGroup, invoke_without_command=True)
def trigger() -> None:
    """What happens by itself: by the clock, once, or when a webhook is called."""


@trigger.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def list_(session: Session, name: str | None, style: str) -> None:
    """List the triggers that fire for NAME, or all."""
    TRIGGERS.show(session.rows("list_triggers", "triggers", agent=name), style)


@trigger.command
@click.argument("id_", metavar="ID")
@output_option
@click.pass_obj
def fires(session: Session, id_: str, style: str) -> None:
    """List the last fires of a trigger, the newest first."""
    FIRES.show(entries(session.ask("list_fires", trigger=id_), "fires"), style)


@trigger.command("set")
@click.argument("name", shell_complete=complete_agent)
@click.argument("called", metavar="TRIGGER")
@click.argument("text")
@click.option("--cron", help="Five fields as in crontab(5), or six with seconds in front.")
@click.option("--zone", help="Time zone of --cron and --at; UTC when absent.")
@click.option("--every", type=float, help="Seconds between two fires.")
@click.option("--at", help="Once: ISO 8601, or seconds since 1970.")
@click.option("--webhook", is_flag=True, help="When its address is called.")
@click.option("--path", help="Of the webhook: its address is /hook/NAME/PATH; an id when absent.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="HTTP method that the webhook accepts; POST when absent.",
)
@click.option(
    "--strict", is_flag=True, help="The webhook accepts only signatures over the whole request."
)
@click.option(
    "--secret-stdin",
    is_flag=True,
    help="Read the secret of the webhook; one is made and printed when absent.",
)
@click.option(
    "--action",
    type=click.Choice(["message", "wake", "task", "spawn"]),
    default="message",
    show_default=True,
    help="What it does when it fires.",
)
@click.option("--agent", "agent_name", help="For spawn: what the new agents are called.")
@click.option("--role", default="task", show_default=True, help="For spawn: their role.")
@click.option("--command", multiple=True, help="For spawn: a word of what they run; repeatable.")
@click.option("--deadline", type=float, help="Seconds that a task may take.")
@click.option(
    "--missed",
    type=click.Choice(["skip", "latest", "all"]),
    default="latest",
    show_default=True,
    help="Which of the times are made up for at which the daemon did not run.",
)
@click.option("--off", is_flag=True, help="Create it switched off.")
@click.pass_obj
def set_(session: Session, /, name: str, called: str, text: str, **said: object) -> None:
    """Create or replace the trigger TRIGGER for agent NAME; TEXT is the message or the task.

    Prints the id of the trigger. One of yours with the same name is replaced.
    """
    when = {key: said[key] for key in ("cron", "zone", "every", "at") if said[key] is not None}
    if said["webhook"]:
        when["webhook"] = _webhook(said)
    found = session.change(
        "set_trigger", name=called, agent=name, when=when, action=_action(text, said),
        missed=said["missed"], enabled=not said["off"],
    )  # fmt: skip
    say(f"{found.get('explained')}; next: {moment(found.get('next'))}")
    if found.get("path"):
        say(f"address: {found['path']} on hooks.sock, where [triggers] webhooks = true")
    if found.get("secret"):
        say(f"secret, shown once: {found['secret']}")
    echo(words(found.get("id")))


def _webhook(said: Row) -> dict[str, object]:
    found: dict[str, object] = {}
    methods = said["methods"]
    found |= {key: said[key] for key in ("path", "strict") if said[key]}
    if isinstance(methods, tuple) and methods:
        found["methods"] = list(methods)
    if said["secret_stdin"]:
        found["secret"] = sys.stdin.read().removesuffix("\n")
    return found


def _action(text: str, said: Row) -> dict[str, object]:
    found: dict[str, object] = {"kind": said["action"], "text": text}
    if said["deadline"] is not None:
        found["deadline"] = said["deadline"]
    if said["action"] == "spawn":
        command = said["command"]
        found["agent"] = {
            "name": said["agent_name"] or "helper", "role": said["role"],
            "command": list(command) if isinstance(command, tuple) else [],
        }  # fmt: skip
    return found


@trigger.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def rm(session: Session, ids: tuple[str, ...]) -> None:
    """Remove triggers. What they have begun goes on."""
    for name in _removed(session, ids):
        say(f"removed {name}")


def _removed(session: Session, ids: tuple[str, ...]) -> Iterator[str]:
    for each in ids:
        yield words(session.change("remove_trigger", trigger=each).get("name"))
