"""The page on which the operator decides: hive's own text, and text of agents after a bar.

Each line that an agent wrote follows a `│`, with control characters escaped, and is broken at the
width of the terminal; a continued line follows a `┊`. So no text of an agent can look like text of
hive, or like another line (attack 22). No part of it is omitted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import click

from hive_core.agent.layout import breadth
from hive_core.agent.output import plain
from hive_core.cli.core.output import Row, columns_of, moment, words
from hive_core.cli.core.session import entries
from hive_core.plan.printable import escape
from hive_core.varlink import Message

BAR, GOES_ON = "│ ", "┊ "
DIGITS: Final = 8
_NARROWEST: Final = 20
_SIGNS: Final = {"+": "green", "-": "red", "@": "cyan"}
_WHAT: Final = {
    "config": "a new configuration of {agent}", "rollback": "the rollback of {agent}",
    "update": "the update of {agent}", "inputs": "newer inputs of the flake",
}  # fmt: skip


def page(reply: Message, lines: Iterable[Row]) -> Iterator[str]:
    """All lines of the page; `reply` is the first page of `get_approval`."""
    row = _object(reply, "approval")
    yield from _facts(reply, row)
    yield from _block("Says", quote(_spell_out(str(row.get("message") or ""))))
    yield from _block("Because", quote(str(row.get("reason") or "")))
    yield from _block("Asks for", _marks(entries(reply, "marks")))
    yield from _review(_object(reply, "review"))
    yield from _block("Who follows", _follows(reply))
    if row.get("kind") in ("config", "inputs") and reply.get("whole"):
        yield from _block("Changes", difference(lines))
    yield from _ways(row)


UNJUDGED: Final = ("received", "refused")  # states in which its effect is unknown


def _facts(reply: Message, row: Row) -> Iterator[str]:
    review = _object(reply, "review")
    subject = _WHAT.get(str(row.get("kind")), "{agent}").format(agent=words(row.get("agent")))
    source = row.get("source")
    clone = f", from the clone of {words(source)}" if source else ""
    yield f"approval   {words(row.get('id'))}"
    yield f"what       {subject}"
    yield f"state      {_state(row)}"
    yield f"asked by   {words(row.get('requester'))}{clone}, {moment(row.get('created'))}"
    is_lock = row.get("kind") == "inputs"
    yield f"{'lock' if is_lock else 'commit':<10} {words(row.get('commit'))}"
    yield f"instead of {words(row.get('base'))}"
    if row.get("state") not in UNJUDGED:
        yield f"effect     {words(row.get('effect'))}{_follower_count(reply) if is_lock else ''}"
    if size := _size(review):
        yield f"size       {size}"
    if models := reply.get("models"):
        yield f"models     {words(models)}"
    if row.get("state") == "failed" and row.get("agent"):
        yield f"its log    hive logs {words(row.get('agent'))}"


def _size(review: Row) -> str:
    """The extent of the change, of the figures that the review has."""
    titles = {
        "files": "files", "bytes": "bytes", "changed": "files changed", "added": "lines added",
        "removed": "lines removed",
    }  # fmt: skip
    figures = ((title, review.get(name)) for name, title in titles.items())
    return ", ".join(f"{title} {figure}" for title, figure in figures if isinstance(figure, int))


_EFFECTS: Final = {
    "switch": "is rebuilt and switched in place",
    "restart": "is rebuilt and restarted",
    "build": "is built for the first time, and starts if it should run",
    "next start": "is rebuilt, and runs with the new system from its next start",
}


def count_followers(reply: Mapping[str, object]) -> str:
    """`3 agents follow`, from the first page of `get_approval`; empty for none."""
    match reply.get("followers"):
        case 1:
            return "1 agent follows"
        case int() as count if count:
            return f"{count} agents follow"
        case _:
            return ""


def _follower_count(reply: Message) -> str:
    return f", {count}" if (count := count_followers(reply)) else ""


def _follows(reply: Message) -> Iterator[str]:
    rows = entries(reply, "follows")
    for follower in rows:
        effect = str(follower.get("effect"))
        yield f"  {words(follower.get('agent'))} {_EFFECTS.get(effect, words(effect))}"
    count = reply.get("followers")
    if isinstance(count, int) and count > len(rows):
        yield f"  and {count - len(rows)} more"


def _state(row: Row) -> str:
    state, expires = words(row.get("state")), row.get("expires")
    if state == "pending" and isinstance(expires, int | float):
        left = max(0.0, expires - time.time())
        return f"{state}, {left / 3600:.1f} hours left"
    if state == "received":
        return f"{state}: it is being checked, and can be approved after that"
    by = f" by {words(row.get('decided_by'))}" if row.get("decided_by") else ""
    return f"{state}, decided{by} {moment(row.get('decided'))}" if by else state


def _block(title: str, lines: Iterable[str]) -> Iterator[str]:
    """A heading with the lines below it; empty without lines."""
    for number, line in enumerate(lines):
        if not number:
            yield ""
            yield f"{title}:"
        yield line


def _marks(marks: Iterable[Row]) -> Iterator[str]:
    for mark in marks:
        gives, kind = bool(mark.get("gives")), words(mark.get("kind"))
        sign = "!" if gives else "-" if mark.get("after") == "taken" else " "
        before, after = str(mark.get("before")), str(mark.get("after"))
        if kind == "command":
            yield _red(f"{sign} command ({'new' if gives else 'unchanged'})", gives)
            yield from quote(after)
            continue
        change = after if after in ("new", "held", "taken") else f"{before or 'unset'} -> {after}"
        name = "" if mark.get("name") == kind else f" {words(mark.get('name'))}"
        yield _red(f"{sign} {kind}{name} ({words(change)})", gives)


def _red(text: str, gives: bool) -> str:  # noqa: FBT001 - of a mark
    return click.style(text, fg="red", bold=True) if gives else text


def _review(review: Row) -> Iterator[str]:
    """The findings of the check. They quote what an agent wrote."""
    for title, key in (("Warnings", "warnings"), ("Built", "built")):
        value = review.get(key)
        texts = value if isinstance(value, list) else [value] if value else []
        yield from _block(title, (line for text in texts for line in quote(words(text))))
    yield from _block("Inputs", _inputs(review))


def _inputs(review: Row) -> Iterator[str]:
    """Each input whose lock changes: its reference, revision, day and hash, old and new."""
    changes = review.get("changes")
    for change in changes if isinstance(changes, list) else ():
        if isinstance(change, dict):
            yield from quote(words(change.get("input")))
            yield from quote(f"  old {words(change.get('old') or '(none)')}")
            yield from quote(f"  new {words(change.get('new') or '(none)')}")
    more = review.get("more")
    if isinstance(more, int) and more:
        yield f"  and {more} more, all among the changes below"


def difference(lines: Iterable[Row]) -> Iterator[str]:
    """The changed lines with their numbers; each file begins with its name."""
    path, rest = None, ""
    for line_part in lines:
        if line_part.get("path") != path:
            path = line_part.get("path")
            yield from quote(f"=== {path}")
        rest += str(line_part.get("text"))
        if line_part.get("part"):
            continue
        sign = str(line_part.get("sign"))[:1]
        number = line_part.get("new") or line_part.get("old") or ""
        line = f"{number!s:>5} {sign} {rest}".replace("\n", "⏎")
        yield from quote(line, _SIGNS.get(sign))
        rest = ""


def quote(text: str, colour: str | None = None) -> Iterator[str]:
    """Text of agents, in as many lines as it needs, each after the bar."""
    room = _room()
    width = None if room is None else max(room - len(BAR), _NARROWEST)
    for line in plain(text).split("\n") if text else ():
        for number, piece in enumerate(_pieces(line.replace("\t", "    "), width)):
            bar = GOES_ON if number else BAR
            yield bar + (click.style(piece, fg=colour) if colour else piece)


def _room() -> int | None:
    """Columns of the terminal, also with a pager; None without a terminal."""
    if sys.stdout.isatty():
        return columns_of()
    return columns_of(terminal=True) if sys.stderr.isatty() else None


def _spell_out(text: str) -> str:
    """Escape text that no job has escaped, also blanks and stacked combining marks."""
    return "\n".join(map(escape, text.split("\n")))


def _pieces(line: str, width: int | None) -> Iterator[str]:
    """Break a line before the terminal does, which would continue it in the column of the bar."""
    while width is not None and breadth(line) > width:
        cut = width
        while breadth(line[:cut]) > width:
            cut -= 1
        yield line[:cut]
        line = line[cut:]
    yield line


def _ways(row: Row) -> Iterator[str]:
    """The commands that decide."""
    if row.get("state") != "pending" or not row.get("commit"):
        return
    id_, commit = words(row.get("id")), words(row.get("commit"))
    yield ""
    yield "To approve exactly this commit, or to deny it:"
    yield f"  hive approval approve {id_} --commit {commit[:DIGITS]}"
    yield f"  hive approval deny {id_} --reason TEXT"
    if row.get("kind") == "config":
        repo = f"hive::{words(row.get('agent'))}"
        yield "Or with git, in any repository, signed with a key of /etc/hive/allowed_signers:"
        yield f"  git fetch {repo} proposals/{id_}"
        yield f"  git tag -s -m approved approve/{id_} {commit}"
        yield f"  git push {repo} approve/{id_}"


def _object(row: Row, key: str) -> Row:
    value = row.get(key)
    return value if isinstance(value, dict) else {}
