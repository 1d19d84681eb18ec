"""Parses commits and trees, more strictly than git does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hive_core.jobs.outcome import JobRefused
from hive_core.plan.printable import escape_bytes

FOLDER: Final = b"40000"
FILES: Final = {b"100644": False, b"100755": True}
_ENTRY: Final = re.compile(rb"([0-9]+) ([^\0]+)\0(.{20})", re.DOTALL)
_ELSE: Final = {b"120000": "a symbolic link", b"160000": "a submodule", b"100664": "an odd mode"}
_COMMIT: Final = re.compile(
    rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)"
    rb"author ([^\n]*)\ncommitter ([^\n]*)\n(?:[^\n]+\n)*\n(.*)", re.DOTALL,
)  # fmt: skip
_WHO: Final = re.compile(rb"(.*) ([0-9]{1,12}) ([+-][0-9]{4})", re.DOTALL)


class ParsedEntry(NamedTuple):
    """One entry of a tree."""

    name: str
    mode: bytes
    oid: str


class CommitObject(NamedTuple):
    """A parsed commit. `author` is a name with an address, `when` seconds since 1970."""

    tree: str
    parents: tuple[str, ...]
    author: bytes
    when: int
    message: bytes


def commit(data: bytes) -> CommitObject:
    header = _COMMIT.fullmatch(data)
    who = header and _WHO.fullmatch(header[3])
    if not header or not who:
        raise JobRefused("commit", "the commit is not in the format of git")
    parents = tuple(header[2].decode().replace("parent ", "").split())
    return CommitObject(header[1].decode(), parents, who[1], int(who[2]), header[5])


def entries(data: bytes, where: str) -> Iterator[ParsedEntry]:
    """The entries of a tree; refuses unusual modes and a wrong order."""
    at, before = 0, b""
    names: set[bytes] = set()
    while at < len(data):
        match = _ENTRY.match(data, at)
        if match is None:
            raise JobRefused("tree", "the folder is not in the format of git", where)
        mode, name, oid = match.groups()
        at, path = match.end(), where + escape_bytes(name)
        if mode != FOLDER and mode not in FILES:
            raise JobRefused("mode", f"is {_ELSE.get(mode, f'of mode {mode.decode()}')}", path)
        place = name + b"/" * (mode == FOLDER)
        if place <= before or name in names:
            raise JobRefused("tree", "occurs twice or out of order", path)
        before = place
        names.add(name)
        yield ParsedEntry(name.decode("utf-8", "surrogateescape"), mode, oid.hex())
