"""`hive queue` and `hive publish`: queues and topics that agents share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
    words,
)
from hive_core.cli.core.parameters import DURATION
from hive_core.cli.core.session import Session, complete_queue, entries
from hive_core.errors import NotFound

QUEUES: Final = Listing(
    "queue",
    (
        Column("queue"), Column("things"), Column("limit", priority=2), Column("dead", priority=1),
        Column("may_put"), Column("may_take"),
    ),
    "no queues",
)  # fmt: skip
THINGS: Final = Listing(
    "id",
    (
        Column("id"), Column("put_at", "put", moment, priority=1), Column("from"), Column("kind"),
        Column("attempt", priority=2), Column("body"),
    ),
    "nothing to take",
)  # fmt: skip


@click.group(cls=ListGroup, aliases={"rm": "close"})
def queue() -> None:
    """List and show the queues of agents; put items in and take them out."""


@queue.command("list")
@output_option
@click.pass_obj
def list_queues(session: Session, style: str) -> None:
    """List all queues, with the numbers of their items and the agents that may use them."""
    QUEUES.show(session.rows("list_queues", "queues"), style)


@queue.command("show")
@click.argument("name", metavar="OWNER/NAME", shell_complete=complete_queue)
@output_option
@click.pass_obj
def show_queue(session: Session, name: str, style: str) -> None:
    """Show one queue: the number of its items, its limits, and the agents that may use it."""
    rows = session.rows("list_queues", "queues")
    row = next((row for row in rows if row.get("queue") == name), None)
    if row is None:
        raise NotFound(f"no queue {name}; `hive queue` lists them")
    one(row, style, "queue", lambda: _page(row))


def _page(row: Row) -> Iterator[str]:
    for key, value in row.items():
        yield f"{key.replace('_', ' '):<9} {words(value)}"


@queue.command
@click.argument("name", metavar="OWNER/NAME", shell_complete=complete_queue)
@click.argument("text")
@click.option("--kind", help="Kind of the item, for agents that take one kind only.")
@click.option("--priority", type=click.IntRange(0, 3), help="0 critical, 1, 2 (default), 3 low.")
@click.pass_obj
def put(session: Session, /, name: str, text: str, **options: object) -> None:
    """Put TEXT into a queue.

    The command prints the id of the item. - reads the text from standard input.
    """
    body = sys.stdin.read() if text == "-" else text
    echo(str(session.change("put", queue=name, body=body, **options).get("id")))


@queue.command
@click.argument("name", metavar="OWNER/NAME", shell_complete=complete_queue)
@click.option(
    "--max", "most", type=click.IntRange(1, 100), help="Maximum number of items; by default 1."
)
@click.option("--kind", help="Only items of this kind.")
@click.option(
    "--lease",
    type=DURATION,
    help="Time after which an unacknowledged item is ready again.  [default: 1m]",
)
@click.option(
    "--done",
    is_flag=True,
    help="Acknowledge the items at once, so that they are not delivered again.",
)
@output_option
@click.pass_obj
def take(
    session: Session, /, name: str, style: str, *, most: int | None, done: bool, **options: object
) -> None:
    """Take items out of a queue, under a lease.

    Acknowledge an item with `hive inbox clear ID`. Without that it is ready for other agents again
    when the lease ends.
    """
    rows = entries(session.ask("take", queue=name, max=most, **options), "things")
    THINGS.show(rows, style)
    if done and rows:
        session.change("ack", ids=[row["id"] for row in rows])


@queue.command
@click.argument("name", metavar="OWNER/NAME", shell_complete=complete_queue)
@click.pass_obj
def close(session: Session, name: str) -> None:
    """Close a queue. The daemon tells the senders of items that were not taken."""
    left = session.change("close_queue", queue=name).get("left")
    say(f"closed {name} with {left} items in it")


@click.command
@click.argument("topic")
@click.argument("text")
@click.option("--priority", type=click.IntRange(0, 3), help="0 critical, 1, 2 (default), 3 low.")
@click.pass_obj
def publish(session: Session, /, topic: str, text: str, priority: int | None) -> None:
    """Send TEXT to all agents that follow TOPIC.

    - reads the text from standard input.
    """
    body = sys.stdin.read() if text == "-" else text
    reply = session.change("publish", topic=topic, body=body, priority=priority)
    missed = f"; {reply.get('missed')} inboxes had no room" if reply.get("missed") else ""
    say(f"delivered to {reply.get('delivered')}{missed}")
