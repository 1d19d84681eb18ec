"""`hive inbox`: messages that wait for the operator or for an agent, and dead letters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final

import click

from hive_core.cli.config.approval_page import quote
from hive_core.cli.core.lazy import NameListGroup
from hive_core.cli.core.options import yes_option
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    moment,
    one,
    output_option,
    say,
    stamp,
    words,
)
from hive_core.cli.core.session import Session, complete_agent, complete_message, entries
from hive_core.cli.core.units import quantity
from hive_core.cli.host.todo import age
from hive_core.errors import NotFound

_FIRST: Final = (
    Column("id"), Column("sent_at", "sent", moment, priority=1), Column("from"),
    Column("relation", priority=2),
)  # fmt: skip
INBOX: Final = Listing("id", (*_FIRST, Column("body")), "no messages")
_DEAD: Final = (_FIRST[0], Column("sent_at", "age", age, priority=1), *_FIRST[2:])
DEAD: Final = Listing("id", (*_DEAD, Column("dead_why", "why"), Column("body")), "no dead letters")
_ALL_DEAD: Final = Listing(
    "id", (*_DEAD, Column("to"), Column("dead_why", "why"), Column("body")),
    "no dead letters of yours or of destroyed agents; `hive todo` names the agents that have some",
)  # fmt: skip
_AT_ONCE: Final = 100
_OPERATOR: Final = "operator"
_LIVE_OR_DEAD: Final[tuple[dict[str, bool], ...]] = ({}, {"dead": True})
_ANYWHERE: Final = (*_LIVE_OR_DEAD, {"dead": True, "archived": True})

dead_option: Final = click.option(
    "--dead", is_flag=True, help="Dead letters: messages that could not be delivered."
)


@click.group(cls=NameListGroup, aliases={"rm": "clear"})
def inbox() -> None:
    """List, show and clear messages that wait for you or for an agent."""


@inbox.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@dead_option
@click.option("--done", "ids", multiple=True, metavar="ID", hidden=True,
              help="Remove this message from the operator's inbox (repeatable).")  # fmt: skip
@output_option
@click.pass_obj
def list_messages(
    session: Session, name: str | None, style: str, *, dead: bool, ids: tuple[str, ...]
) -> None:
    """List the messages in the inbox of NAME, or in yours.

    Without NAME, --dead also lists the dead letters of destroyed agents that `hive restore` can
    bring back, each with that agent. The messages stay in the inbox. Long texts
    are cut on a terminal; `hive inbox show ID` shows a whole message.
    """
    if ids:
        if name is not None:
            raise click.UsageError("only messages in the operator's own inbox can be removed")
        _take_out(session, ids)
        return
    rows, listing = _dead(session, name) if dead else (_letters(session, name), INBOX)
    listing.show(map(_table_row, rows) if style == "table" else rows, style)


def _letters(session: Session, name: str | None, **kind: bool) -> Iterator[Row]:
    return session.rows("list_messages", "messages", agent=name, **kind)


def _dead(session: Session, name: str | None) -> tuple[Iterator[Row], Listing]:
    """Dead letters: of one agent, or of the operator and all destroyed agents."""
    if name is None:
        others = _letters(session, None, dead=True, archived=True)
        return chain(_letters(session, None, dead=True), others), _ALL_DEAD
    return _dead_letters_of(session, name), DEAD


def _dead_letters_of(session: Session, name: str) -> Iterator[Row]:
    try:
        yield from _letters(session, name, dead=True)
    except NotFound as error:
        hint = "`hive inbox --dead` also lists the dead letters of destroyed agents"
        raise NotFound(f"{error.reason}; {hint}") from error


@inbox.command("show")
@click.argument("id_", metavar="ID", shell_complete=complete_message)
@click.option("--agent", "name", shell_complete=complete_agent,
              help="Agent whose inbox has the message; by default the operator.")  # fmt: skip
@output_option
@click.pass_obj
def show_message(session: Session, id_: str, name: str | None, style: str) -> None:
    """Show an unread message or a dead letter with its whole text.

    Text that an agent wrote follows a bar, with control characters escaped.
    """
    row = _find(session, id_, name)
    one(row, style, "id", lambda: _page(row))


@inbox.command("clear")
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=complete_message)
@dead_option
@click.option("--agent", "name", shell_complete=complete_agent,
              help="With --dead: agent whose dead letters are deleted.")  # fmt: skip
@yes_option
@click.pass_obj
def clear(
    session: Session, ids: tuple[str, ...], name: str | None, *, dead: bool, yes: bool
) -> None:  # fmt: skip
    """Remove messages from the operator's inbox: those with these IDs, or all.

    With --dead the command deletes all dead letters of an agent, or of the operator. The daemon
    told their senders when the messages became dead letters. Messages that come while the command
    asks for confirmation stay.
    """
    if name is not None and not dead:
        raise click.UsageError("--agent needs --dead: of agents only dead letters can be deleted")
    if dead:
        if ids:
            raise click.UsageError("dead letters are deleted all at once; omit the IDs")
        as_of = None if yes else _confirm_dead(session, name)
        say(f"dead letters deleted: {_clear_dead(session, name, as_of)}")
    elif ids:
        _take_out(session, ids)
    else:
        _clear_all(session, yes=yes)


def _confirm_dead(session: Session, name: str | None) -> str | None:
    """Ask, since nothing brings a dead letter back; return up to which one they are deleted."""
    if not sys.stdin.isatty():
        raise click.UsageError("standard input is not a terminal: clear --dead needs --yes")
    # Read before the count: what becomes a dead letter between them is counted, and stays.
    as_of = _newest_death(session, name or _OPERATOR)
    count = sum(1 for _ in _letters(session, name, dead=True))
    whose = f"of {name}" if name else "of your inbox"
    click.confirm(f"Delete {quantity(count, 'dead letter')} {whose}?", abort=True, err=True)
    return as_of


def _newest_death(session: Session, owner: str) -> str | None:
    """What `todo` says of the owner's dead letters; it lists those of the last days alone."""
    for row in entries(session.ask("todo"), "todo"):
        if row.get("kind") == "dead_letters" and row.get("id") == owner:
            return str(row.get("as_of") or "") or None
    return None


def _clear_dead(session: Session, name: str | None, as_of: str | None) -> int:
    total = 0
    change = partial(session.change, "clear_dead_letters", agent=name, as_of=as_of)
    while cleared := change().get("cleared"):
        total += cleared if isinstance(cleared, int) else 0
    return total


def _clear_all(session: Session, *, yes: bool) -> None:
    """Remove the listed messages only: a message that arrives meanwhile stays."""
    ids = [str(row["id"]) for row in session.rows("list_messages", "messages")]
    if not ids:
        say("no messages")
        return
    if not yes:
        question = f"Remove {quantity(len(ids), 'message')} from your inbox?"
        click.confirm(question, abort=True, err=True)
    for start in range(0, len(ids), _AT_ONCE):
        session.ask("ack", ids=ids[start : start + _AT_ONCE])
    say(f"taken out: {len(ids)}")


def _take_out(session: Session, ids: Iterable[str]) -> None:
    """Remove one after the other, to report each unknown ID."""
    wanted = list(ids)
    unknown = [id_ for id_ in wanted if not session.ask("ack", ids=[id_]).get("acked")]
    if count := len(wanted) - len(unknown):
        say(f"taken out: {count}")
    if unknown:
        place = "your inbox and what you took out of queues have no such message"
        raise NotFound(f"cannot remove {', '.join(unknown)}: {place}; `hive inbox` lists yours")


def _find(session: Session, id_: str, name: str | None) -> Row:
    for kind in _LIVE_OR_DEAD if name else _ANYWHERE:
        for row in session.rows("list_messages", "messages", agent=name, **kind):
            if row.get("id") == id_:
                return row
    command = f"hive inbox {name}" if name else "hive inbox"
    raise NotFound(f"no message {id_} waits for {name or 'the operator'}; `{command}` lists them")


def _page(row: Row) -> Iterator[str]:
    yield f"message    {words(row.get('id'))}"
    yield f"from       {words(row.get('from'))} ({words(_with_source(row).get('relation'))})"
    yield f"to         {words(_with_fate(row).get('to'))}"
    yield f"sent       {stamp(row.get('sent_at'))}"
    for label, field in (("kind", "kind"), ("thread", "thread"), ("reply to", "reply_to"),
                         ("priority", "priority"), ("dead", "dead_why")):  # fmt: skip
        if row.get(field) not in (None, ""):
            yield f"{label:<10} {words(row.get(field))}"
    yield ""
    yield from quote(str(row.get("body") or ""))


def _table_row(row: Row) -> Row:
    """Without the line for programs above a text of the daemon; an agent's text is shown whole."""
    head, _, text = str(row.get("body") or "").partition("\n")
    is_headed = row.get("relation") == "daemon" and head.startswith("{") and bool(text)
    row = _with_fate(row)
    return {**_with_source(row), "body": text} if is_headed else _with_source(row)


def _with_source(row: Row) -> Row:
    """`self (forge)`.

    The cause of a wake is shown beside the relation of the sender, not instead.
    """
    source = row.get("source")
    return {**row, "relation": f"{row.get('relation')} ({source})"} if source else row


def _with_fate(row: Row) -> Row:
    """`crusty (destroyed)` as the recipient of a dead letter of a destroyed agent."""
    gone = bool(row.get("archived"))
    return {**row, "to": f"{words(row.get('to'))} (destroyed)"} if gone else row
