"""Commands that change the tree: destroy, restore, move."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.core.options import no_wait_option, yes_option
from hive_core.cli.core.output import Column, Listing, Row, moment, one, output_option, say, words
from hive_core.cli.core.parameters import DurationType
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import WAIT, Session, complete_agent, complete_archive

ARCHIVES: Final = Listing(
    "id",
    (Column("id"), Column("name"), Column("destroyed_at", "destroyed", moment, priority=1),
     Column("expires_at", "kept until", moment)),
    "no destroyed agents",
)  # fmt: skip


def _confirm(session: Session, name: str, *, recursive: bool) -> None:
    rows = list(session.rows("list_agents", "agents", root=name))
    children = [str(row.get("name")) for row in rows if row.get("parent") == name]
    count = len(rows) - 1
    below = f" and its {count} descendant{'s' * (count > 1)}" if recursive and count else ""
    text = f"Destroy {name}{below}? `hive restore` brings it back within 24 hours (by default)."
    if children and not recursive:
        text += f" Its children move up to its parent: {', '.join(children)}."
    click.confirm(text, abort=True, err=True)


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.option("--recursive", is_flag=True, help="Destroy its descendants too.")
@yes_option
@no_wait_option
@click.pass_obj
def destroy(session: Session, name: str, *, recursive: bool, yes: bool, no_wait: bool) -> None:
    """Destroy NAME: stop it and remove it from the tree.

    Its files are kept for 24 hours (unless hive.toml says otherwise), and `hive restore` brings it
    back. Without --recursive its children move up to its parent.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("standard input is not a terminal: destroy needs --yes")
        _confirm(session, name, recursive=recursive)
    reply = session.change("destroy", agent=name, recursive=recursive)
    session.finish(reply, f"destroying {name}", wait=not no_wait)


def _archive_id(session: Session, word: str) -> str:
    """The ID of the only archive with this name; any other word is passed to the daemon."""
    rows = list(session.rows("list_archives", "archives"))
    ids = [str(row["id"]) for row in rows if row.get("name") == word]
    if len(ids) > 1:
        raise click.UsageError(f"{len(ids)} destroyed agents had the name {word}; use the ID")
    return ids[0] if ids else word


@click.command
@click.argument("archive", metavar="[NAME|ID]", required=False, shell_complete=complete_archive)
@output_option
@no_wait_option
@click.pass_obj
def restore(session: Session, archive: str | None, style: str, *, no_wait: bool) -> None:
    """Bring a destroyed agent back; without an argument, list the destroyed agents.

    Use the ID when several destroyed agents had the same name.
    """
    if archive is None:
        ARCHIVES.show(session.rows("list_archives", "archives"), style)
        return
    reply = session.change("restore", id=_archive_id(session, archive))
    say(f"restored {reply.get('name')}")
    for key, reason in (
        ("lost", "its parent does not hold it, or it was revoked from an ancestor"),
        ("disallowed", "its parent may not write to them"),
    ):
        if reply.get(key):
            say(f"restored without {words(reply[key])}: {reason}")
    if reply.get("restarts"):
        say(f"restarts {words(reply['restarts'])}, which had access to its files")
    session.finish(reply, "restoring", wait=not no_wait)


def _move_lines(reply: Row) -> Iterator[str]:
    """The effects of a move on running agents."""
    restarts = reply.get("restarts")
    yield f"restarts  {words(restarts)}" if restarts else "live      no agent is restarted"
    for key, text in (("gaining", "gains"), ("left", "may hold")):
        if reply.get(key):
            yield f"{text:<9} {words(reply[key])}"


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.option(
    "--parent",
    required=True,
    shell_complete=complete_agent,
    help='New parent; "" makes NAME a root.',
)
@click.option("--dry-run", is_flag=True, help="Print what the move would restart; change nothing.")
@click.option(
    "--when-idle",
    type=DurationType(0, 86_400),
    help="Wait at most this long until the agents that lose access are idle.",
)
@click.option(
    "--no-restart",
    is_flag=True,
    help="Do not restart agents that lose access; they keep the files that they have open.",
)
@no_wait_option
@output_option
@click.pass_obj
def move(  # noqa: PLR0913 - one parameter for each word of the command line
    session: Session, name: str, parent: str, style: str, when_idle: float | None, *,
    dry_run: bool, no_restart: bool, no_wait: bool,
) -> None:  # fmt: skip
    """Move NAME with all its descendants under another parent.

    NAME and its descendants keep running. Agents that are no longer above NAME may hold files of
    NAME open: the daemon restarts them, with their descendants that do not move along. The command
    returns when their access has ended.

    Prints the agents that are restarted and those that gain access to NAME's files. After a move
    with --no-restart, `hive status` lists the agents that may still hold files of NAME, until they
    are restarted.
    """
    params: dict[str, object] = {"agent": name, "parent": parent, "no_restart": no_restart}
    if when_idle is not None:
        params["when_idle"] = when_idle
    if dry_run:
        reply = session.ask("move", **params, dry_run=True)
    else:
        with working(f"moving {name}"):
            reply = session.change("move", **params, wait=0 if no_wait else WAIT)
        session.finish(reply, f"moving {name}", wait=not no_wait)
    one(reply, style, "agent", lambda: _move_lines(reply))
