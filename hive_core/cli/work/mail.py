"""`hive send` and `hive inbox`."""

from __future__ import annotations

import sys
from typing import Final

import click

from hive_core.agent.exchange import answer, check_delivered
from hive_core.agent.output import plain
from hive_core.cli.core.output import Column, Listing, Row, echo, moment, output_option, say
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, complete_agent
from hive_core.errors import NotFound, TimedOut

_FIRST: Final = (
    Column("id"), Column("sent_at", "sent", moment), Column("from"), Column("relation"),
)  # fmt: skip
INBOX: Final = Listing("id", (*_FIRST, Column("body")), "no messages")
DEAD: Final = Listing("id", (*_FIRST, Column("dead_why", "why"), Column("body")), "no dead letters")


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("text")
@click.option("--kind", help="A word for programs, such as report.")
@click.option("--thread", help="Conversation that it belongs to.")
@click.option("--reply-to", help="ID of the message that it answers.")
@click.option("--priority", type=click.IntRange(0, 3), help="0 critical, 1, 2 (default), 3 low.")
@click.option("--ttl", type=float, help="Seconds after which it is not delivered any more.")
@click.option("--wait", type=click.FloatRange(1, 300), metavar="SECONDS",
              help="Wait for the answer, and print that instead.")  # fmt: skip
@click.pass_obj
def send(session: Session, /, name: str, text: str, wait: float | None, **given: object) -> None:
    """Send TEXT to NAME as the operator.

    Printed is the message's id. - reads the text from standard input. With --wait the exit status
    is 124 when no answer came in time, and 1 when the message could not be delivered.
    """
    body = sys.stdin.read() if text == "-" else text
    sent = session.change("send", to=name, body=body, reply_within=wait, **given)
    if wait is None:
        echo(str(sent.get("id")))
        return
    with working(f"waiting for an answer from {name}"):
        reply = answer(session.link, str(sent.get("id")), wait)
    if reply is None:
        raise TimedOut(f"no answer to {sent.get('id')} from {name}; a late one comes as mail")
    check_delivered(reply)
    echo(plain(str(reply.get("body"))))


def _take_out(session: Session, ids: tuple[str, ...]) -> None:
    """One after the other, so that one that is not there can be named: it may be misspelt."""
    unknown = [each for each in ids if not session.ask("ack", ids=[each]).get("acked")]
    if done := len(ids) - len(unknown):
        say(f"{done} taken out")
    if unknown:
        where = "in your inbox or taken out of a queue"
        raise NotFound(f"no such message {where}: {', '.join(unknown)}; `hive inbox` lists yours")


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--dead", is_flag=True, help="List dead letters: messages that were given up.")
@click.option("--done", "ids", multiple=True, metavar="ID",
              help="Take this message out of the operator's inbox; may be repeated.")  # fmt: skip
@output_option
@click.pass_obj
def inbox(
    session: Session, name: str | None, style: str, *, dead: bool, ids: tuple[str, ...]
) -> None:
    """List what waits for NAME, or for the operator.

    Looking takes nothing away. Long texts are cut short on a terminal; -o json has all of them.
    """
    if ids:
        if name is not None:
            raise click.UsageError("only the operator's own messages can be taken out")
        _take_out(session, ids)
        return
    rows = session.rows("list_messages", "messages", agent=name, dead=dead or None)
    (DEAD if dead else INBOX).show(map(_labelled, rows) if style == "table" else rows, style)


def _labelled(row: Row) -> Row:
    """`self (forge)`: what caused a wake stands beside what the sender is, never in its place."""
    source = row.get("source")
    return {**row, "relation": f"{row.get('relation')} ({source})"} if source else row
