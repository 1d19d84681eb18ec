"""`hive logs` and `hive events`: past entries, and new ones as they come."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

import click

from hive_core.agent.reconnect import wire_name
from hive_core.cli.core.output import (  # fmt: skip
    Column,
    Listing,
    Row,
    block,
    colour,
    echo,
    moment,
    output_option,
    say,
    words,
)
from hive_core.cli.core.parameters import SINCE
from hive_core.cli.core.session import Session, complete_agent, entries, session_of
from hive_core.cli.work.live_text import LiveLines, follow_turns
from hive_core.errors import HiveError
from hive_core.model.names import agent_unit
from hive_core.model.wire.event_subject import subject_of


def _verdict(value: object) -> str:
    return {True: "allowed", False: "refused"}.get(bool(value), "-") if value is not None else "-"


EVENTS: Final = Listing(
    "seq",
    (Column("seq", priority=2), Column("time", words=moment, priority=1),
     Column("kind", priority=3), Column("caller"), Column("operation"), Column("target"),
     Column("allowed", "verdict", _verdict), Column("reason")),
    "no events yet",
)  # fmt: skip


def _complete_kind(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete with the kinds of the newest events."""
    kinds = session_of(ctx).values("list_events", "events", "kind", last=500)
    return [kind for kind in dict.fromkeys(kinds) if kind.startswith(incomplete)]


_NO_MATCH: Final = "no such events"
_LAST: Final = 10
# Events of these operations are frequent and rarely useful: every message that is read has an
# `ack`.
_ROUTINE: Final = frozenset({"ack", "hello"})
_TURN: Final = "turn"  # what stands in place of a unit before the text of a turn
_MOST_AT_ONCE: Final = 64  # agents whose logs are followed at once


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_agent)
@click.option("--all", "everyone", is_flag=True, help="Logs of all agents.")
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written.")
@click.option("-n", "--lines", type=click.IntRange(1, 1000), default=_LAST, show_default=True,
              help="Number of most recent lines to show.")  # fmt: skip
@click.option(
    "--since", type=SINCE, help="Only lines since TIME: a time, or an age such as 30m, 2h or 1d."
)
@click.option("--grep", metavar="TEXT", help="Only lines that contain this text.")
@output_option
@click.pass_obj
def logs(
    session: Session, /, names: tuple[str, ...], style: str, *, everyone: bool, follow: bool,
    **filters: object,
) -> None:  # fmt: skip
    """Show the last log lines of NAME, or of several agents, merged by time.

    Lines of units inside a booted container are included. With --follow, a table also has the text
    of running turns as it is written, as lines of `turn`. Times are local.
    """
    if everyone:
        names = tuple(str(row["name"]) for row in session.rows("list_agents", "agents"))
    if not names:
        raise click.UsageError("name one or more agents, or use --all")
    live = style == "table" and not filters.get("grep")
    rows = (
        _stream_lines(session, names, filters, live=live)
        if follow
        else _last_lines(session, names, filters)
    )
    if style != "table":
        Listing("text", ()).show(rows, style)
        return
    for row in rows:
        echo(_log_line(row, several=len(names) > 1))


def _last_lines(
    session: Session, names: Sequence[str], filters: Mapping[str, object]
) -> Iterator[Row]:  # fmt: skip
    """The last lines of all these agents together, the oldest first."""
    if len(names) == 1:
        return iter(entries(session.ask("get_logs", agent=names[0], **filters), "lines"))
    rows = [row for name in names for row in _log_rows(session, name, filters)]
    rows.sort(key=lambda row: float(str(row.get("time") or 0)))
    most = filters.get("lines")
    return iter(rows[-most:] if isinstance(most, int) else rows)


def _log_rows(session: Session, name: str, filters: Mapping[str, object]) -> list[Row]:
    lines = entries(session.ask("get_logs", agent=name, **filters), "lines")
    return [{"agent": name, **line} for line in lines]


def _stream_lines(
    session: Session, names: Sequence[str], filters: Mapping[str, object], *, live: bool
) -> Iterator[Row]:
    """Lines as they are written; each of several agents has its own connection.

    `live`: also the text of running turns.
    """
    if len(names) == 1 and not live:
        return session.follow("get_logs", "lines", agent=names[0], **filters)
    if len(names) > _MOST_AT_ONCE:
        raise click.UsageError(f"at most {_MOST_AT_ONCE} agents can be followed at once")
    return _merge_logs(session.socket, names, filters, live=live)


def follow_logs(session: Session, name: str) -> Iterator[str]:
    """The last lines of an agent's log, and new ones as they are written."""
    for row in _stream_lines(session, (name,), {"lines": _LAST}, live=True):
        yield _log_line(row, several=False)


# Lines of several logs; None where one ends, an error where it broke.
_Lines = queue.SimpleQueue[Row | HiveError | None]


def _follow_log(socket: str, name: str, filters: Mapping[str, object], lines: _Lines) -> None:
    try:
        with closing(Session(socket)) as session:
            for row in session.follow("get_logs", "lines", agent=name, **filters):
                lines.put({"agent": name, **row})
    except HiveError as error:
        lines.put(error)
    else:
        lines.put(None)


def _follow_text(socket: str, name: str, lines: _Lines) -> None:
    """Text of running turns; its end does not end the log."""
    live = LiveLines()
    with closing(Session(socket)) as session:
        for part in follow_turns(session, name):
            for line in live.lines(part):
                lines.put({"agent": name, "time": time.time(), "unit": _TURN, "text": line})


def _merge_logs(
    socket: str, names: Sequence[str], filters: Mapping[str, object], *, live: bool
) -> Iterator[Row]:
    lines = _Lines()
    for name in names:
        followed = (socket, name, filters, lines)
        threading.Thread(target=_follow_log, args=followed, daemon=True).start()
        if live:
            watched = (socket, name, lines)
            threading.Thread(target=_follow_text, args=watched, daemon=True).start()
    following = len(names)
    while following:
        line = lines.get()
        if isinstance(line, HiveError):
            raise line
        if line is None:
            following -= 1
        else:
            yield line


def _log_line(row: Row, *, several: bool) -> str:
    unit = words(row.get("unit"))
    own = unit == agent_unit(str(row.get("agent")))
    source = unit if not several else words(row.get("agent")) + ("" if own else f" {unit}")
    return f"{moment(row.get('time'))} {source}: {block(str(row.get('text')))}"


@click.command
@click.option("-f", "--follow", is_flag=True,
              help="Show the last 10 events, then new events as they happen.")  # fmt: skip
@click.option("-n", "--lines", type=click.IntRange(1), help="Number of most recent events to show.")
@click.option("--all", "everything", is_flag=True,
              help="Include the events of ack and hello, which a table omits.")  # fmt: skip
@click.option("--after", type=click.IntRange(0), metavar="SEQ",
              help="Only events after this number.")  # fmt: skip
@click.option("--kind", "kinds", multiple=True, metavar="KIND", shell_complete=_complete_kind,
              help="Only this kind; a * at the end matches any rest (repeatable).")  # fmt: skip
@click.option("--agent", "agents", multiple=True, shell_complete=complete_agent,
              help="Only events with this agent as caller or target (repeatable).")  # fmt: skip
@click.option(
    "--since", type=SINCE, help="Only events since TIME: a time, or an age such as 30m, 2h or 1d."
)
@output_option
@click.pass_obj
def events(
    session: Session, /, style: str, *, follow: bool, lines: int | None, everything: bool,
    **options: object,
) -> None:  # fmt: skip
    """Show events of the audit log, the oldest first: operations, refusals and state changes.

    A table omits the events of ack and hello, unless --all or --kind selects them; other formats
    have all events. Times are local.
    """
    filters = {key: list(value) if isinstance(value, tuple) else value
               for key, value in options.items() if value not in ((), None)}  # fmt: skip
    after = filters.pop("after", None)
    start = None if after is None else str(after)
    routine = everything or style != "table" or "kinds" in filters
    if follow and lines is None and start is None and not filters:
        lines = _LAST
    rows = _past_events(session, lines, start, filters, routine=routine)
    if not follow:
        listing = replace(EVENTS, empty=_NO_MATCH) if filters else EVENTS
        shown = (row for row in rows if routine or not _is_routine(row))
        listing.show(map(_add_subject, shown) if style == "table" else shown, style)
        return
    past = list(rows)
    newest = str(past[-1]["seq"]) if past else start
    for row in itertools.chain(past, _coming(session, newest, filters)):
        if not routine and _is_routine(row):
            continue
        if style == "table":
            echo(_line(_add_subject(row)))
        else:
            EVENTS.show([row], "name" if style == "name" else "jsonl")


def _add_subject(row: Row) -> Row:
    """The event for a table: the thing that it is about stands beside its target."""
    subject, target = subject_of(row.get("fields")), row.get("target")
    if subject is None:
        return row
    named = f"{subject[0]} {words(subject[1])}"
    return {**row, "target": f"{words(target)} ({named})" if target else named}


def _is_routine(row: Row) -> bool:
    return row.get("operation") in _ROUTINE and row.get("allowed") is not False


def _past_events(
    session: Session, lines: int | None, after: str | None, filters: dict[str, object], *,
    routine: bool,
) -> Iterator[Row]:  # fmt: skip
    """The past events; with `lines` only the last ones, not counting hidden ones.

    The daemon's `last` counts all events, so the number for a selection has to be computed.
    """
    if lines is None or after is not None or filters:
        rows = session.rows("list_events", "events", after=after, **filters)
        return rows if lines is None else iter(deque(rows, lines))
    asked = lines
    while True:
        page = list(session.rows("list_events", "events", last=asked))
        shown = [at for at, row in enumerate(page) if routine or not _is_routine(row)]
        if len(shown) >= lines:
            return iter(page[shown[-lines] :])
        if len(page) < asked:
            return iter(page)
        asked *= 8


def _coming(session: Session, after: str | None, filters: dict[str, object]) -> Iterator[Row]:
    """New events; a gap of events that were deleted meanwhile is reported."""
    params = filters if after is None else {**filters, "after": after}
    for page in session.link.stream(wire_name("list_events"), params):
        if isinstance(gap := page.get("gap"), dict):
            say(f"events {gap.get('from')} to {gap.get('to')} were pruned")
        yield from entries(page, "events")


def _line(row: Row) -> str:
    """One event of a stream, without aligned columns."""
    verdict = colour(_verdict(row.get("allowed")))
    call = f"{words(row.get('caller'))} {words(row.get('operation'))} {words(row.get('target'))}"
    reason = f": {words(row.get('reason'))}" if row.get("reason") else ""
    return f"{moment(row.get('time'))} {words(row.get('kind'))} {call} {verdict}{reason}"
