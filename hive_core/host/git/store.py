"""Reads objects of a repository, and checks them before use.

libgit2 is not used for reading: it loops on a truncated loose object
(https://github.com/libgit2/libgit2/issues/7342) and crashes on damaged packs. Before libgit2 builds
on an object, `check_object` has read it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from hashlib import sha1
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from hive_core.errors import InvalidArgument
from hive_core.host.git.faults import guard_reads
from hive_core.host.git.pack_format import LIMIT, TooLarge
from hive_core.host.git.packs import Packs

FILES: Final = (0o100644, 0o100755)
FOLDER: Final = 0o040000
_LINE: Final = re.compile(rb"([0-7]{5,6}) ([^\0]+)\0(.{20})", re.DOTALL)
_SEPARATORS: Final = 2  # a space and a NUL in each line
_FORBIDDEN: Final = frozenset({b".", b"..", b".git"})
# A few objects can expand to countless files: https://kate.io/blog/git-bomb/ (attack 18).
ENTRIES: Final = 50_000
LEVELS: Final = 32


TreeLine = tuple[bytes, bytes, bytes]  # mode, name and hash of an entry


class TreeEntry(NamedTuple):
    """One entry of a tree."""

    mode: int
    oid: str


class GitCommit(NamedTuple):
    """The content of a commit. `author` is a name; `time` is the committer's."""

    tree: str
    parents: tuple[str, ...]
    author: str
    time: int
    message: str


class FileChange(NamedTuple):
    """A file before and after a change; None where it does not exist."""

    path: str
    old: TreeEntry | None
    new: TreeEntry | None


class ObjectStore:
    """The objects of the repository with this git directory. A new instance sees fresh damage."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder / "objects")
        self.packs = Packs(folder / "objects/pack")

    def path(self, oid: str) -> str:
        """The file of a loose object."""
        return f"{self.folder}/{oid[:2]}/{oid[2:]}"

    def read(self, oid: str, purpose: str) -> tuple[str, bytes]:
        """Kind and content of an object. DamagedRepo, with the purpose, if it cannot be read."""
        with guard_reads(f"object {oid} of {purpose}", self.folder):
            return self._read(oid)

    def check_object(self, oid: str, purpose: str) -> str:
        """Read and check an object; return its name."""
        self.read(oid, purpose)
        return oid

    def blob(self, oid: str, purpose: str) -> bytes:
        with guard_reads(f"object {oid} of {purpose}", self.folder):
            return self._read(oid, "blob")[1]

    def tree(self, oid: str, purpose: str) -> dict[str, TreeEntry]:
        """The entries of a tree by name."""
        return _entries(self._lines(oid, purpose))

    def commit(self, oid: str) -> GitCommit:
        with guard_reads(f"object {oid} of the history", self.folder):
            return _commit(self._read(oid, "commit")[1].decode("utf-8", "replace"))

    def walk(self, tree: str) -> Iterator[tuple[str, TreeEntry]]:
        """Path and entry of everything below a tree, each folder before its content."""
        stack, left = [("", tree)], ENTRIES
        while stack:
            at, oid = stack.pop()
            entries = self.tree(oid, at or "the top")
            left -= len(entries)
            _check_size(at, left)
            for name, entry in entries.items():
                yield f"{at}{name}", entry
                if entry.mode == FOLDER:
                    stack.append((f"{at}{name}/", entry.oid))

    def differences(self, old: str, new: str) -> Iterator[FileChange]:
        """The files that differ between two trees ("" is an empty one).

        Equal subtrees are not read.
        """
        for number, change in enumerate(self._differences(old, new, "")):
            _check_size("", ENTRIES - number)
            yield change

    def _differences(self, old: str, new: str, at: str) -> Iterator[FileChange]:
        _check_size(at, ENTRIES)
        before = set(self._lines(old, at or "the top")) if old else set()
        after = set(self._lines(new, at or "the top")) if new else set()
        was_here, is_here = _entries(before - after), _entries(after - before)
        for name in sorted(was_here.keys() | is_here.keys()):
            was, now = was_here.get(name), is_here.get(name)
            trees = [entry.oid if entry and entry.mode == FOLDER else "" for entry in (was, now)]
            if any(trees):
                yield from self._differences(trees[0], trees[1], f"{at}{name}/")
            files = [entry if entry and entry.mode in FILES else None for entry in (was, now)]
            if any(files):
                yield FileChange(f"{at}{name}", files[0], files[1])

    def _lines(self, oid: str, purpose: str) -> list[TreeLine]:
        with guard_reads(f"object {oid} of {purpose}", self.folder):
            lines = _split_tree(self._read(oid, "tree")[1])
        _check_names([name for _, name, _ in lines], purpose)
        return lines

    def _read(self, oid: str, kind: str = "") -> tuple[str, bytes]:
        """The content; ValueError if the object has another kind than `kind`."""
        try:
            with open(self.path(oid), "rb") as file:
                packed = file.read()
        except FileNotFoundError:
            actual, data = self._read_from_pack(oid)
        else:
            actual, data = _unpack(oid, packed)
        if kind and actual != kind:
            raise ValueError(f"is a {actual}")
        return actual, data

    def _read_from_pack(self, oid: str) -> tuple[str, bytes]:
        try:
            return self.packs.read(oid)
        except TooLarge as error:
            raise _too_large(oid) from error


def _unpack(oid: str, packed: bytes) -> tuple[str, bytes]:
    """Inflate a loose object and check its hash.

    https://git-scm.com/book/en/v2/Git-Internals-Git-Objects, "Object Storage".
    """
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(packed, LIMIT)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if inflate.unconsumed_tail:
        raise _too_large(oid)
    if not inflate.eof:
        raise ValueError("cut short" if packed else "empty")
    if sha1(raw, usedforsecurity=False).hexdigest() != oid:
        raise ValueError("its content has another hash")
    head, _, data = raw.partition(b"\0")
    kind, _, size = head.partition(b" ")
    if size != b"%d" % len(data):
        raise ValueError("the size differs from the declared one")
    return kind.decode(), data


def _split_tree(data: bytes) -> list[TreeLine]:
    """The entries of a tree; ValueError if it has any other content."""
    lines: list[TreeLine] = _LINE.findall(data)
    if sum(map(len, chain.from_iterable(lines))) + _SEPARATORS * len(lines) != len(data):
        raise ValueError("is not a tree")
    return lines


def _check_names(names: list[bytes], purpose: str) -> None:
    """Refuse names that git itself never writes, or that lead out of the work tree or into .git."""
    odd = [name for name in names if name.lower() in _FORBIDDEN or b"/" in name]
    if not _is_text(b"/".join(names)):  # all at once: there is one for each agent
        odd += [name for name in names if not _is_text(name)]
    if odd:
        raise InvalidArgument(f"{purpose} holds the name {odd[0]!r}", field="object")
    if len(set(names)) != len(names):
        raise InvalidArgument(f"{purpose} holds one name twice", field="object")


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_size(at: str, left: int) -> None:
    if left < 0:
        raise InvalidArgument(f"it holds more than {ENTRIES} files", field="object")
    if at.count("/") > LEVELS:
        raise InvalidArgument(f"its folders are deeper than {LEVELS} levels", field="object")


def _entries(lines: Iterable[TreeLine]) -> dict[str, TreeEntry]:
    return {name.decode(): TreeEntry(int(mode, 8), oid.hex()) for mode, name, oid in lines}


def _commit(text: str) -> GitCommit:
    head, _, message = text.partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.splitlines():
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    author = fields["author"][0].rpartition(" <")[0]
    time = fields["committer"][0].rsplit(" ", 2)[1]
    return GitCommit(fields["tree"][0], tuple(fields.get("parent", ())), author, int(time), message)


def _too_large(oid: str) -> InvalidArgument:
    return InvalidArgument(f"object {oid} is larger than {LIMIT} bytes", field="object")
