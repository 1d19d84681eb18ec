"""The page on which the operator decides: hive's own words, and behind a bar those of agents.

Everything that an agent wrote stands behind `│`, spelled out and cut by us at the width of the
terminal; what goes on in the next line stands behind `┊`. So nothing of it can look like a word of
hive, or like a line that it is not (attack 22). It is never folded.
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
    "config": "a new configuration of {agent}", "rollback": "the way back of {agent}",
    "update": "the update of {agent}", "inputs": "newer inputs of the flake",
}  # fmt: skip
_UNDECIDED: Final = ("received", "pending")


def page(found: Message, lines: Iterable[Row]) -> Iterator[str]:
    """All of it, line by line; `found` is the first page of `get_approval`."""
    row = _object(found, "approval")
    yield from _facts(found, row)
    yield from _block("Says", quoted(_seen(str(row.get("message") or ""))))
    yield from _block("Because", quoted(str(row.get("reason") or "")))
    yield from _block("Asks for", _marks(entries(found, "marks")))
    yield from _review(_object(found, "review"))
    yield from _block("Who follows", _follows(found))
    if row.get("kind") in ("config", "inputs") and found.get("whole"):
        yield from _block("Changes", difference(lines))
    yield from _ways(row)


UNJUDGED: Final = ("received", "refused")  # nobody has worked out what it would do


def _facts(found: Message, row: Row) -> Iterator[str]:
    review = _object(found, "review")
    what = _WHAT.get(str(row.get("kind")), "{agent}").format(agent=words(row.get("agent")))
    source = row.get("source")
    clone = f", from the clone of {words(source)}" if source else ""
    yield f"approval   {words(row.get('id'))}"
    yield f"what       {what}"
    yield f"state      {_state(row)}"
    yield f"asked by   {words(row.get('requester'))}{clone}, {moment(row.get('created'))}"
    is_lock = row.get("kind") == "inputs"
    yield f"{'lock' if is_lock else 'commit':<10} {words(row.get('commit'))}"
    yield f"instead of {words(row.get('base'))}"
    if row.get("state") not in UNJUDGED:
        yield f"effect     {words(row.get('effect'))}{_counted(found) if is_lock else ''}"
    size = ", ".join(
        f"{name} {value}"
        for name, value in review.items()
        if isinstance(value, int) and name != "more"
    )
    if size:
        yield f"size       {plain(size)}"


_EFFECTS: Final = {
    "switch": "is built anew and switched in place",
    "restart": "is built anew and started again",
    "build": "is built for the first time, and starts if it should run",
    "next start": "is built anew, and runs with it from its next start on",
}


def count_followers(found: Mapping[str, object]) -> str:
    """`3 agents follow`, of the first page of `get_approval`; empty when nobody does."""
    match found.get("followers"):
        case 1:
            return "1 agent follows"
        case int() as count if count:
            return f"{count} agents follow"
        case _:
            return ""


def _counted(found: Message) -> str:
    return f", {count}" if (count := count_followers(found)) else ""


def _follows(found: Message) -> Iterator[str]:
    rows = entries(found, "follows")
    for each in rows:
        effect = str(each.get("effect"))
        yield f"  {words(each.get('agent'))} {_EFFECTS.get(effect, words(effect))}"
    count = found.get("followers")
    if isinstance(count, int) and count > len(rows):
        yield f"  and {count - len(rows)} more"


def _state(row: Row) -> str:
    state, expires = words(row.get("state")), row.get("expires")
    if state == "pending" and isinstance(expires, int | float):
        left = max(0.0, expires - time.time())
        return f"{state}, for {left / 3600:.1f} hours yet"
    by = f" by {words(row.get('decided_by'))}" if row.get("decided_by") else ""
    return f"{state}, decided{by} {moment(row.get('decided'))}" if by else state


def _block(title: str, lines: Iterable[str]) -> Iterator[str]:
    """A heading with what is below it; nothing when there is nothing."""
    for number, line in enumerate(lines):
        if not number:
            yield ""
            yield f"{title}:"
        yield line


def _marks(marks: Iterable[Row]) -> Iterator[str]:
    for each in marks:
        gives, kind = bool(each.get("gives")), words(each.get("kind"))
        sign = "!" if gives else "-" if each.get("after") == "taken" else " "
        before, after = str(each.get("before")), str(each.get("after"))
        if kind == "command":
            yield _red(f"{sign} command ({'new' if gives else 'as it is'})", gives)
            yield from quoted(after)
            continue
        change = after if after in ("new", "held", "taken") else f"{before or 'unset'} -> {after}"
        name = "" if each.get("name") == kind else f" {words(each.get('name'))}"
        yield _red(f"{sign} {kind}{name} ({words(change)})", gives)


def _red(text: str, gives: bool) -> str:  # noqa: FBT001 - of a mark
    return click.style(text, fg="red", bold=True) if gives else text


def _review(review: Row) -> Iterator[str]:
    """What the check found beside figures. All of it is about what an agent wrote."""
    for title, key in (("Warnings", "warnings"), ("Built", "built")):
        found = review.get(key)
        lines = found if isinstance(found, list) else [found] if found else []
        yield from _block(title, (line for each in lines for line in quoted(words(each))))
    yield from _block("Inputs", _inputs(review))


def _inputs(review: Row) -> Iterator[str]:
    """Each input that is locked otherwise: its reference, revision, day and hash, old and new."""
    changes = review.get("changes")
    for each in changes if isinstance(changes, list) else ():
        if isinstance(each, dict):
            yield from quoted(words(each.get("input")))
            yield from quoted(f"  old {words(each.get('old') or '(none)')}")
            yield from quoted(f"  new {words(each.get('new') or '(none)')}")
    more = review.get("more")
    if isinstance(more, int) and more:
        yield f"  and {more} more: each is among the changes below"


def difference(lines: Iterable[Row]) -> Iterator[str]:
    """The changed lines with their numbers; each file begins with its name."""
    path, rest = None, ""
    for each in lines:
        if each.get("path") != path:
            path = each.get("path")
            yield from quoted(f"=== {path}")
        rest += str(each.get("text"))
        if each.get("part"):
            continue
        sign = str(each.get("sign"))[:1]
        number = each.get("new") or each.get("old") or ""
        line = f"{number!s:>5} {sign} {rest}".replace("\n", "⏎")
        yield from quoted(line, _SIGNS.get(sign))
        rest = ""


def quoted(text: str, colour: str | None = None) -> Iterator[str]:
    """Words of agents behind the bar, in as many lines as they need and none without it."""
    room = _room()
    width = None if room is None else max(room - len(BAR), _NARROWEST)
    for line in plain(text).split("\n") if text else ():
        for number, piece in enumerate(_pieces(line.replace("\t", "    "), width)):
            bar = GOES_ON if number else BAR
            yield bar + (click.style(piece, fg=colour) if colour else piece)


def _room() -> int | None:
    """Columns of the terminal, also of one that a pager shows it on; None when nobody looks."""
    if sys.stdout.isatty():
        return columns_of()
    return columns_of(terminal=True) if sys.stderr.isatty() else None


def _seen(text: str) -> str:
    """Words that no job has spelled out: also blanks and marks piled up over the lines of hive."""
    return "\n".join(map(escape, text.split("\n")))


def _pieces(line: str, width: int | None) -> Iterator[str]:
    """The terminal would go on at its left edge, where the bar is; so we break before."""
    while width is not None and breadth(line) > width:
        cut = width
        while breadth(line[:cut]) > width:
            cut -= 1
        yield line[:cut]
        line = line[cut:]
    yield line


def _ways(row: Row) -> Iterator[str]:
    """How to decide."""
    if row.get("state") not in _UNDECIDED or not row.get("commit"):
        return
    id_, commit = words(row.get("id")), words(row.get("commit"))
    yield ""
    yield "To let it run with exactly this, or to refuse it:"
    yield f"  hive approval approve {id_} --commit {commit[:DIGITS]}"
    yield f"  hive approval deny {id_} --reason TEXT"
    if row.get("kind") == "config":
        repo = f"hive::{words(row.get('agent'))}"
        yield "Or with git, in any repository, by a key of /etc/hive/allowed_signers:"
        yield f"  git fetch {repo} proposals/{id_}"
        yield f"  git tag -s -m approved approve/{id_} {commit}"
        yield f"  git push {repo} approve/{id_}"


def _object(found: Row, key: str) -> Row:
    value = found.get(key)
    return value if isinstance(value, dict) else {}
