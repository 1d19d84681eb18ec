"""Compares two versions of `flake.lock`: which inputs change, and which lines. Pure.

Nix writes the file from the inputs in hive.toml. Its texts may come from anywhere, so they are
shown escaped. https://nix.dev/manual/nix/latest/command-ref/new-cli/nix3-flake
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from hive_core.errors import InvalidArgument

_FILE: Final = "flake.lock"
_CONTEXT: Final = 3


class InputChange(NamedTuple):
    """One input with its old and its new lock; empty where the file does not have it."""

    input: str
    old: str
    new: str


class LockDiffLine(NamedTuple):
    """One line of a difference, in the format of a review."""

    path: str
    old: int | None
    new: int | None
    sign: str
    text: str


def nodes(lock: bytes) -> Mapping[str, Mapping[str, object]]:
    """The locked inputs by name; InvalidArgument for anything that is not a flake.lock."""
    if not lock:
        return {}
    try:
        document = json.loads(lock)
        top, every = document["root"], document["nodes"]
        return {str(name): dict(node) for name, node in every.items() if name != top}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgument("this is not a flake.lock file", field=_FILE) from error


def changes(before: bytes, after: bytes) -> list[InputChange]:
    """The inputs whose lock changes, in one line each."""
    old, new = nodes(before), nodes(after)
    names = sorted(old.keys() | new.keys())
    rows = (InputChange(_plain(name), _text(old.get(name)), _text(new.get(name))) for name in names)
    return [row for row in rows if row.old != row.new]


def difference(before: bytes, after: bytes) -> list[LockDiffLine]:
    """The lines of the file that change, with their context."""
    old, new = _lines(before), _lines(after)
    rows: list[LockDiffLine] = []
    for group in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_grouped_opcodes(
        _CONTEXT
    ):
        first, last = group[0], group[-1]
        passage = f"{first[1] + 1}-{last[2]} of before, {first[3] + 1}-{last[4]} of after"
        rows.append(LockDiffLine(_FILE, None, None, "@", passage))
        for kind, a, b, c, d in group:
            if kind == "equal":
                rows += [
                    LockDiffLine(_FILE, a + n + 1, c + n + 1, " ", old[a + n]) for n in range(b - a)
                ]
            else:
                rows += [LockDiffLine(_FILE, n + 1, None, "-", old[n]) for n in range(a, b)]
                rows += [LockDiffLine(_FILE, None, n + 1, "+", new[n]) for n in range(c, d)]
    return rows


def as_jsonl(lines: list[LockDiffLine]) -> bytes:
    """The lines in the format in which a proposal stores them."""
    rows = (json.dumps(line._asdict(), ensure_ascii=True) for line in lines)
    return "".join(f"{row}\n" for row in rows).encode()


def _lines(data: bytes) -> list[str]:
    return [_plain(line) for line in data.decode("utf-8", "replace").splitlines()]


def _text(node: Mapping[str, object] | None) -> str:
    """`github:NixOS/nixpkgs 4f1b2c3d 2026-01-31 sha256-...`: source, date and hash."""
    if node is None:
        return ""
    locked = node.get("locked")
    if not isinstance(locked, Mapping):
        return "follows others"
    where = "/".join(str(locked[key]) for key in ("owner", "repo", "url", "path") if key in locked)
    words = [f"{locked.get('type', '?')}:{where}", str(locked.get("rev", ""))[:40], _day(locked)]
    words.append(str(locked.get("narHash", "")))
    return _plain(" ".join(word for word in words if word))[:500]


def _day(locked: Mapping[str, object]) -> str:
    at = locked.get("lastModified")
    if not isinstance(at, int) or not 0 <= at < 1 << 40:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _plain(text: str) -> str:
    """Printable ASCII; other characters as their code."""
    return "".join(
        char
        if " " <= char <= "~"
        else f"\N{MATHEMATICAL LEFT ANGLE BRACKET}U+{ord(char):04X}"
        "\N{MATHEMATICAL RIGHT ANGLE BRACKET}"
        for char in text
    )
