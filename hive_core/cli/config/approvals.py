"""`hive approval`: list, show, approve and deny configurations that wait for the operator."""

from __future__ import annotations

import itertools
import sys
from typing import Final

import click

from hive_core.agent.output import as_json
from hive_core.agent.reconnect import wire_name
from hive_core.cli.config.approval_page import UNJUDGED, count_followers, page
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.options import no_wait_option, reason_option
from hive_core.cli.core.output import Column, Listing, Row, echo, moment, output_option, say, words
from hive_core.cli.core.parameters import CommitDigits
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, complete_approval, entries
from hive_core.errors import Conflict
from hive_core.varlink import Message

APPROVALS: Final = Listing(
    "id",
    (Column("id"), Column("state"), Column("kind", priority=2), Column("agent"),
     Column("requester", priority=4), Column("effect"),
     Column("commit", words=lambda value: words(value)[:12], priority=3),
     Column("expires", words=moment, priority=1)),
    "nothing waits for you",
)  # fmt: skip
_all: Final = click.option("--all", "all_", is_flag=True, help="Include those that have ended.")


@click.group(cls=ListGroup, aliases={"reject": "deny"})
def approval() -> None:
    """List, show, approve and deny configurations that agents request."""


@approval.command("list")
@_all
@output_option
@click.pass_obj
def list_approvals(session: Session, style: str, *, all_: bool) -> None:
    """List the requests that wait for you, the newest first."""
    rows = session.rows("list_approvals", "approvals", all=all_ or None)
    APPROVALS.show(map(_without_unknown_effect, rows) if style == "table" else rows, style)


def _without_unknown_effect(row: Row) -> Row:
    """The row without its effect, which is unknown while the request is being checked."""
    return {**row, "effect": None} if row.get("state") in UNJUDGED else row


@approval.command
@click.argument("id_", metavar="ID", shell_complete=complete_approval)
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show a request: its requester, the requested rights, and each changed line.

    Text that an agent wrote follows a bar, with control characters escaped; all of it is shown. A !
    marks rights that are new to the agent.
    """
    pages = session.link.stream(wire_name("get_approval"), {"id": id_})
    with working(f"reading {id_}"):
        first = next(pages)
    replies = itertools.chain([first], pages)
    lines = (line for reply in replies for line in entries(reply, "lines"))
    match style:
        case "table":
            for line in page(first, lines):
                echo(line)
        case "name":
            echo(id_)
        case _:
            whole = {**first, "lines": list(lines), "next": None}
            echo(as_json(whole, 2 if style == "json" else None))


@approval.command
@click.argument("id_", metavar="ID", shell_complete=complete_approval)
@click.option("--commit", required=True, type=CommitDigits(), metavar="HEX8",
              help="First 8 digits of its commit, or more.")  # fmt: skip
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask about new privileges or about other agents that change too.",
)
@no_wait_option
@click.pass_obj
def approve(session: Session, id_: str, commit: str, *, yes: bool, no_wait: bool) -> None:
    """Approve a request: the agent runs with exactly the commit that was shown.

    The command returns when the commit is deployed and the agent is healthy. If the agent does not
    become healthy, the daemon deploys its former configuration again, and the exit status is not 0.
    """
    if not yes and sys.stdin.isatty():
        _confirm(session, id_)
    reply = session.change("approve", id=id_, commit=commit)
    about = words(reply.get("agent")) if reply.get("agent") else "the inputs"
    say(f"approved: {about}, commit {reply.get('commit')}, effect {reply.get('effect')}")
    await_deploy(session, reply, f"deploying {about}, and watching its health", wait=not no_wait)
    if not no_wait:
        say(f"deployed: {about}")


def await_deploy(session: Session, reply: Message, doing: str, *, wait: bool) -> None:
    """Wait for a deploy; a failure names the command that shows what the agent wrote."""
    try:
        session.finish(reply, doing, wait=wait)
    except Conflict as error:
        agent = words(reply.get("agent")) if reply.get("agent") else ""
        hint = f"; `hive logs {agent}` shows what it wrote" if agent else ""
        raise Conflict(error.reason + hint) from error


def _confirm(session: Session, id_: str) -> None:
    """Ask about new privileges separately (attack 23)."""
    reply = session.ask("get_approval", id=id_, limit=1)
    value = reply.get("approval")
    row = value if isinstance(value, dict) else {}
    if row.get("state") == "received":  # the new rights are not known yet
        raise Conflict(f"cannot approve {id_}: it is still being checked")
    if row.get("state", "pending") != "pending":
        return  # the daemon refuses the approval with a reason
    if follow := count_followers(reply):
        click.confirm(f"{follow} these inputs. Continue?", abort=True, err=True)
    new = [
        " ".join(dict.fromkeys(words(mark.get(key)) for key in ("kind", "name")))
        for mark in entries(reply, "marks")
        if mark.get("gives")
    ]
    if new:
        agent = words(row.get("agent")) or "it"
        click.confirm(f"This gives {agent}: {', '.join(new)}. Continue?", abort=True, err=True)


@approval.command
@click.argument("id_", metavar="ID", shell_complete=complete_approval)
@reason_option("Reason shown to the requester and to its parent.", required=True)
@click.pass_obj
def deny(session: Session, id_: str, reason: str) -> None:
    """Deny a request for a configuration."""
    session.change("deny", id=id_, why=reason)
