"""A model of a disk that loses power: what was made durable is there, the rest is there or not.

A file system may write what was not synced in any order or not at all (Pillai et al., "All File
Systems Are Not Created Equal", OSDI 2014). Names belong to their directory and become durable with
it; bytes belong to a file and become durable with that. A rename happens as a whole or not.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")
SECTOR = 512


class Op(NamedTuple):
    """One change, as it was recorded."""

    kind: str
    path: str
    other: str
    at: int
    data: bytes


def read(record: Path) -> Iterator[Op]:
    with record.open("rb") as file:
        while line := file.readline():
            kind, path, other, at, size = line.rstrip(b"\n").decode().split("\t")
            data = file.read(int(size))
            file.read(1)
            yield Op(kind, path, other, int(at), data)


@dataclass(eq=False)
class File:
    kept: bytes = b""
    # (offset, bytes), or (size, None) for a truncation.
    late: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        self.kept = _apply_writes(self.kept, self.late)
        self.late.clear()

    def surviving_bytes(self, chance: random.Random) -> bytes:
        """What the disk may have of it."""
        some = _some(self.late, chance)
        if some and (last := some[-1][1]) and chance.random() < 0.3:
            # The last one may be torn, at a sector.
            cut = chance.randrange(0, len(last) + 1, SECTOR)
            some = [*some[:-1], (some[-1][0], last[:cut])]
        return _apply_writes(self.kept, some)


@dataclass(eq=False)
class Change:
    """Names that change together: directory, name and what it stands for then."""

    parts: list[tuple[Folder, str, File | Folder | None]]
    durable: bool = False


@dataclass(eq=False)
class Folder:
    live: dict[str, File | Folder] = field(default_factory=dict)
    kept: dict[str, File | Folder] = field(default_factory=dict)


class Disk:
    """Follows a record; `image` writes down what a crash at this moment may leave."""

    def __init__(self, base: Path, root: str) -> None:
        self._root = root
        self._top = _load(base)
        self._changes: list[Change] = []

    def follow(self, op: Op) -> None:
        match op.kind:
            case "create" | "mkdir" | "unlink" | "link":
                self._name(op.path, self._new_node(op))
            case "write":
                self._file(op.path).late.append((op.at, op.data))
            case "truncate":
                self._file(op.path).late.append((op.at, None))
            case "sync":
                self._sync(op.path)
            case "mode":
                pass
            case "rename":
                self._rename(op.other, op.path)
            case _:
                raise AssertionError(op.kind)

    def _new_node(self, op: Op) -> File | Folder | None:
        if op.kind == "link":
            return self._find(op.other)
        made: dict[str, File | Folder] = {"create": File(), "mkdir": Folder()}
        return made.get(op.kind)

    def image(self, target: Path, chance: random.Random) -> None:
        """An image with part of the data that is not durable: the first names, or any subset."""
        late = [change for change in self._changes if not change.durable]
        names: dict[Folder, dict[str, File | Folder]] = {}
        for change in _some(late, chance):
            for folder, name, node in change.parts:
                setdefault = names.setdefault(folder, dict(folder.kept))
                setdefault.pop(name, None)
                if node is not None:
                    setdefault[name] = node
        _save(self._top, target, names, chance)

    def _parent(self, path: str) -> tuple[Folder, str]:
        *steps, name = path.removeprefix(self._root).strip("/").split("/")
        at = self._top
        for step in steps:
            result = at.live[step]
            assert isinstance(result, Folder), path
            at = result
        return at, name

    def _find(self, path: str) -> File | Folder:
        if path == self._root:
            return self._top
        folder, name = self._parent(path)
        return folder.live[name]

    def _file(self, path: str) -> File:
        result = self._find(path)
        assert isinstance(result, File), path
        return result

    def _name(self, path: str, node: File | Folder | None) -> None:
        self._change([(*self._parent(path), node)])

    def _rename(self, old: str, new: str) -> None:
        node = self._find(old)
        self._change([(*self._parent(old), None), (*self._parent(new), node)])

    def _change(self, parts: list[tuple[Folder, str, File | Folder | None]]) -> None:
        self._changes.append(Change(parts))
        for folder, name, node in parts:
            if node is None:
                folder.live.pop(name, None)
            else:
                folder.live[name] = node

    def _sync(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, File):
            node.sync()
            return
        for change in self._changes:
            if not change.durable and any(folder is node for folder, _, _ in change.parts):
                change.durable = True
                for folder, name, entry in change.parts:
                    folder.kept.pop(name, None)
                    if entry is not None:
                        folder.kept[name] = entry
        self._changes = [change for change in self._changes if not change.durable]


def _some(late: list[T], chance: random.Random) -> list[T]:
    """All of it, nothing, a prefix, or any part."""
    how = chance.randrange(4)
    if how < 2:
        return late if how else []
    if how == 2:
        return late[: chance.randint(0, len(late))]
    return [change for change in late if chance.random() < 0.5]


def _apply_writes(data: bytes, late: list[tuple[int, bytes | None]]) -> bytes:
    content = bytearray(data)
    for at, more in late:
        if more is None:
            content = content[:at] + bytes(max(0, at - len(content)))
        else:
            content += bytes(max(0, at - len(content)))
            content[at : at + len(more)] = more
    return bytes(content)


def _load(base: Path) -> Folder:
    folder = Folder()
    for path in base.iterdir():
        if path.is_dir():
            folder.live[path.name] = _load(path)
        elif path.is_file():
            folder.live[path.name] = File(path.read_bytes())
    folder.kept = dict(folder.live)
    return folder


def _save(
    folder: Folder, target: Path, names: dict[Folder, dict[str, File | Folder]],
    chance: random.Random,
) -> None:  # fmt: skip
    target.mkdir()
    for name, node in names.get(folder, folder.kept).items():
        if isinstance(node, File):
            (target / name).write_bytes(node.surviving_bytes(chance))
            os.utime(target / name, (0, 0))  # from before the host started again
        else:
            _save(node, target / name, names, chance)
