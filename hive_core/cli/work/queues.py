"""`hive queue ...` and `hive publish`: what many agents share, as the operator sees it."""

from __future__ import annotations

import sys
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, echo, moment, output_option, say
from hive_core.cli.core.session import Session, entries

QUEUES: Final = Listing(
    "queue",
    (
        Column("queue"), Column("things"), Column("limit"), Column("dead"), Column("may_put"),
        Column("may_take"),
    ),
    "no queues",
)  # fmt: skip
THINGS: Final = Listing(
    "id",
    (
        Column("id"), Column("put_at", "put", moment), Column("from"), Column("kind"),
        Column("attempt"), Column("body"),
    ),
    "nothing to take",
)  # fmt: skip


@click.group(cls=ListGroup)
def queue() -> None:
    """Look at the queues of agents, put things in and take them out."""


@queue.command("list")
@output_option
@click.pass_obj
def _list(session: Session, style: str) -> None:
    """List all queues: how much is in each, and who may."""
    QUEUES.show(session.rows("list_queues", "queues"), style)


@queue.command
@click.argument("name", metavar="OWNER/NAME")
@click.argument("text")
@click.option("--kind", help="A word for those who take one kind only.")
@click.option("--priority", type=click.IntRange(0, 3), help="0 critical, 1, 2 (default), 3 low.")
@click.pass_obj
def put(session: Session, /, name: str, text: str, **given: object) -> None:
    """Put TEXT into a queue.

    Printed is the thing's id. - reads the text from standard input.
    """
    body = sys.stdin.read() if text == "-" else text
    echo(str(session.change("put", queue=name, body=body, **given).get("id")))


@queue.command
@click.argument("name", metavar="OWNER/NAME")
@click.option("--max", "most", type=click.IntRange(1, 100), help="Things at most; 1 if absent.")
@click.option("--kind", help="Only this kind.")
@click.option("--lease", type=float, help="Seconds until what is not done comes back.")
@click.option("--done", is_flag=True, help="Done with them at once: they do not come back.")
@output_option
@click.pass_obj
def take(
    session: Session, /, name: str, style: str, *, most: int | None, done: bool, **given: object
) -> None:
    """Take things out of a queue, under a lease of a minute.

    What is not done by then (`hive inbox --done ID`) is ready again for others.
    """
    found = entries(session.ask("take", queue=name, max=most, **given), "things")
    THINGS.show(found, style)
    if done and found:
        session.change("ack", ids=[each["id"] for each in found])


@queue.command
@click.argument("name", metavar="OWNER/NAME")
@click.pass_obj
def close(session: Session, name: str) -> None:
    """Close a queue; whoever put something in that nobody took is told."""
    left = session.change("close_queue", queue=name).get("left")
    say(f"{name} is closed; {left} things were left")


@click.command
@click.argument("topic")
@click.argument("text")
@click.option("--priority", type=click.IntRange(0, 3), help="0 critical, 1, 2 (default), 3 low.")
@click.pass_obj
def publish(session: Session, /, topic: str, text: str, priority: int | None) -> None:
    """Tell everybody who follows TOPIC.

    - reads the text from standard input.
    """
    body = sys.stdin.read() if text == "-" else text
    found = session.change("publish", topic=topic, body=body, priority=priority)
    missed = f"; {found.get('missed')} inboxes had no room" if found.get("missed") else ""
    say(f"delivered to {found.get('delivered')}{missed}")
