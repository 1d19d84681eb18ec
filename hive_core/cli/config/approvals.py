"""`hive approvals`: what waits for the operator, what it would do, yes or no."""

from __future__ import annotations

import contextlib
import itertools
import sys
from typing import Final

import click

from hive_core.agent.output import as_json
from hive_core.agent.reconnect import camel
from hive_core.cli.config.approval_page import UNJUDGED, count_followers, page
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.options import reason_option
from hive_core.cli.core.output import Column, Listing, Row, echo, moment, output_option, say, words
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, entries
from hive_core.errors import Conflict, HiveError

APPROVALS: Final = Listing(
    "id",
    (Column("id"), Column("state"), Column("kind"), Column("agent"), Column("requester"),
     Column("effect"), Column("commit", words=lambda value: words(value)[:12]),
     Column("expires", words=moment)),
    "nothing waits for you",
)  # fmt: skip
_all: Final = click.option("--all", "all_", is_flag=True, help="Also list those that have ended.")


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    session = Session(str(ctx.find_root().params.get("socket")))
    with contextlib.closing(session), contextlib.suppress(HiveError):
        rows = session.rows("list_approvals", "approvals")
        return [id_ for row in rows if (id_ := str(row.get("id"))).startswith(incomplete)]
    return []


@click.group(cls=ListGroup)
def approvals() -> None:
    """What agents want to become: list, show, approve, deny."""


@approvals.command("list")
@_all
@output_option
@click.pass_obj
def listed(session: Session, style: str, *, all_: bool) -> None:
    """List what waits for you, the newest first."""
    rows = session.rows("list_approvals", "approvals", all=all_ or None)
    APPROVALS.show(map(_judged, rows) if style == "table" else rows, style)


def _judged(row: Row) -> Row:
    """Nobody has worked out yet what a request does that is still being checked."""
    return {**row, "effect": None} if row.get("state") in UNJUDGED else row


@approvals.command
@click.argument("id_", metavar="ID", shell_complete=_complete)
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show who asks for what, and each line that it changes.

    What agents wrote stands behind a bar, odd characters spelled out; all of it is shown. Marked
    with ! is what the agent could not do before.
    """
    pages = session.link.stream(camel("get_approval"), {"id": id_})
    with working(f"reading {id_}"):
        first = next(pages)
    lines = (line for each in itertools.chain([first], pages) for line in entries(each, "lines"))
    match style:
        case "table":
            for line in page(first, lines):
                echo(line)
        case "name":
            echo(id_)
        case _:
            whole = {**first, "lines": list(lines), "next": None}
            echo(as_json(whole, 2 if style == "json" else None))


@approvals.command
@click.argument("id_", metavar="ID", shell_complete=_complete)
@click.option("--commit", required=True, metavar="HEX8",
              help="The first 8 digits of its commit, or more.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask about new privileges and agents that follow.")
@click.option("--no-wait", is_flag=True, help="Return once it is recorded.")
@click.pass_obj
def approve(session: Session, id_: str, commit: str, *, yes: bool, no_wait: bool) -> None:
    """Let an agent run with exactly the commit that was shown.

    Returns when it is deployed and healthy. If it is not, the agent is back to what it ran with,
    and the exit status is not 0.
    """
    if not yes and sys.stdin.isatty():
        _confirm(session, id_)
    reply = session.change("approve", id=id_, commit=commit)
    about = words(reply.get("agent")) if reply.get("agent") else "the inputs"
    say(f"approved: {about}, commit {reply.get('commit')}, effect {reply.get('effect')}")
    session.finish(reply, f"deploying {about}, and watching it for a while", wait=not no_wait)
    if not no_wait:
        say(f"deployed: {about}")


def _confirm(session: Session, id_: str) -> None:
    """New privileges are confirmed on their own (attack 23)."""
    found = session.ask("get_approval", id=id_, limit=1)
    about = found.get("approval")
    row = about if isinstance(about, dict) else {}
    if row.get("state") == "received":  # until it is approved it may be checked, and give anything
        raise Conflict(f"cannot approve {id_}: it is still being checked")
    if row.get("state", "pending") != "pending":
        return  # nothing is given: the daemon says why
    if follow := count_followers(found):
        click.confirm(f"{follow} these inputs. Go on?", abort=True, err=True)
    new = [
        " ".join(dict.fromkeys(words(each.get(key)) for key in ("kind", "name")))
        for each in entries(found, "marks")
        if each.get("gives")
    ]
    if new:
        agent = words(row.get("agent")) or "it"
        click.confirm(f"This gives {agent}: {', '.join(new)}. Go on?", abort=True, err=True)


@approvals.command
@click.argument("id_", metavar="ID", shell_complete=_complete)
@reason_option("Reason shown to the requester and to its parent.", required=True)
@click.pass_obj
def deny(session: Session, id_: str, reason: str) -> None:
    """Refuse what an agent wants to become."""
    session.change("deny", id=id_, why=reason)
