"""`hive send`: a message of the operator to an agent."""

from __future__ import annotations

import sys

import click

from hive_core.agent.exchange import check_delivery, wait_reply
from hive_core.agent.output import plain
from hive_core.cli.core.output import echo
from hive_core.cli.core.parameters import DURATION, DurationType
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, complete_agent, complete_message
from hive_core.errors import TimedOut


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("text")
@click.option("--kind", help="Kind of the message, for programs, such as report.")
@click.option("--thread", help="Conversation that the message belongs to.")
@click.option(
    "--reply-to", shell_complete=complete_message, help="ID of the message that this one answers."
)
@click.option("--priority", type=click.IntRange(0, 3), help="0 critical, 1, 2 (default), 3 low.")
@click.option(
    "--ttl", type=DURATION, help="Time after which an undelivered message becomes a dead letter."
)
@click.option(
    "--wait",
    type=DurationType(1, 300),
    help="Wait this long for an answer, at most 5m, and print the answer instead of the id.",
)
@click.pass_obj
def send(session: Session, /, name: str, text: str, wait: float | None, **options: object) -> None:
    """Send TEXT to NAME as the operator.

    The command prints the id of the message. - reads the text from standard input. With --wait the
    exit status is 124 when no answer came in time, and 1 when the message could not be delivered.
    """
    body = sys.stdin.read() if text == "-" else text
    sent = session.change("send", to=name, body=body, reply_within=wait, **options)
    if wait is None:
        echo(str(sent.get("id")))
        return
    with working(f"waiting for an answer from {name}"):
        reply = wait_reply(session.link, str(sent.get("id")), wait)
    if reply is None:
        raise TimedOut(
            f"no answer to {sent.get('id')} from {name}; a late answer will be in your inbox"
        )
    check_delivery(reply)
    echo(plain(str(reply.get("body"))))
