"""Reads packs without libgit2, which crashes on damaged packs. Any damage is an exception here.

An object is trusted only if its content has the hash that names it. So the only part of a pack that
is checked beforehand is its index, because a damaged index would hide objects. The files that git
adds for speed (multi-pack-index, bitmap, rev, commit-graph) are not read.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1
from pathlib import Path
from threading import Lock
from typing import Final

from hive_core.host.git.pack_format import EntryHeader, apply_delta, inflate, read_header

_MAGIC: Final = b"\377tOc\0\0\0\2"
_FAN: Final = struct.Struct(">256I")
_NAMES: Final = len(_MAGIC) + _FAN.size
_HASH: Final = 20
_NUMBER: Final = struct.Struct(">I")
_WIDE: Final = struct.Struct(">Q")
_FAR: Final = 1 << 31
_START: Final = struct.Struct(">4sII")
_DEPTH: Final = 4095  # the longest chain that git makes: https://git-scm.com/docs/git-pack-objects
_KEPT: Final = 8 << 20
_LARGEST: Final = 1 << 20

Content = tuple[str, bytes]
Chain = list[tuple[int, bytes]]
Sign = tuple[str, int, int, int]


class DeltaBases:
    """Caches contents that later deltas may build on, so that they are inflated only once."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Pack, int], Content] = OrderedDict()
        self._size = 0

    def get(self, pack: Pack, at: int) -> Content | None:
        content = self._known.get((pack, at))
        if content is not None:
            self._known.move_to_end((pack, at))
        return content

    def put(self, pack: Pack, at: int, content: Content) -> None:
        if len(content[1]) > _LARGEST or (pack, at) in self._known:
            return
        self._known[pack, at] = content
        self._size += len(content[1])
        while self._size > _KEPT:
            self._size -= len(self._known.popitem(last=False)[1][1])


class Pack:
    """One pack and its index; ValueError if the index is damaged."""

    def __init__(self, table: Path) -> None:
        data = table.read_bytes()
        self.path = table.with_suffix(".pack")
        if data[: len(_MAGIC)] != _MAGIC or len(data) < _NAMES + 2 * _HASH:
            raise ValueError(f"{table.name} is not an index of a pack" if data else "empty")
        if sha1(data[:-_HASH], usedforsecurity=False).digest() != data[-_HASH:]:
            raise ValueError(f"{table.name} is damaged")
        self._fan = _FAN.unpack_from(data, len(_MAGIC))
        self.count = self._fan[-1]
        ends = [_NAMES + self.count * width for width in (_HASH, _HASH + 4, _HASH + 8)]
        self._names = data[_NAMES : ends[0]]
        self._places = data[ends[1] : ends[2]]
        self._far = data[ends[2] : -2 * _HASH]
        self._sum = data[-2 * _HASH : -_HASH]
        if len(data) < ends[2] + 2 * _HASH or list(self._fan) != sorted(self._fan):
            raise ValueError(f"{table.name} is not a valid index")

    def names(self) -> Iterator[bytes]:
        """The names of all objects in the pack."""
        return (self._names[at : at + _HASH] for at in range(0, len(self._names), _HASH))

    def place(self, name: bytes) -> int | None:
        """The offset of an object in the pack; None if the pack does not have the object."""
        first, end = self._fan[name[0] - 1] if name[0] else 0, self._fan[name[0]]
        at = self._names.find(name, first * _HASH, end * _HASH)
        while at % _HASH and at > 0:  # a match across two names
            at = self._names.find(name, at + 1, end * _HASH)
        if at < 0:
            return None
        place = int(_NUMBER.unpack_from(self._places, at // _HASH * 4)[0])
        if place < _FAR:
            return place
        try:
            return int(_WIDE.unpack_from(self._far, (place - _FAR) * 8)[0])
        except struct.error as error:
            raise ValueError(f"the index of {self.path.name} is not valid") from error

    def read(self, name: bytes, place: int, bases: DeltaBases) -> Content:
        """Kind and content of the object at `place`; ValueError unless its hash is `name`."""
        with _open_file(self.path) as handle:
            chain, at, content = self._chain(handle, place, bases)
        contents = {at: content} if chain else {}
        for at, delta in reversed(chain):
            content = content[0], apply_delta(content[1], delta)
            contents[at] = content
        kind, data = content
        raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
        if sha1(raw, usedforsecurity=False).digest() != name:
            raise ValueError("its content has another hash")
        for at, base in contents.items():
            bases.put(self, at, base)
        return content

    def _chain(self, handle: int, at: int, bases: DeltaBases) -> tuple[Chain, int, Content]:
        """The deltas at `at`, last one first, and the offset and content of their base."""
        chain: Chain = []
        while (known := bases.get(self, at)) is None:
            header = read_header(handle, at)
            data = inflate(handle, header)
            if header.kind:
                return chain, at, (header.kind, data)
            chain.append((at, data))
            if len(chain) > _DEPTH:
                raise ValueError("the chain of deltas is too long")
            at = self._base(header, at)
        return chain, at, known

    def _base(self, header: EntryHeader, at: int) -> int:
        place = self.place(header.base) if header.base else at - header.back
        if place is None:
            raise ValueError("the delta has no base")
        return place

    def fault(self) -> str:
        """The fault that the first and last bytes of the pack show; empty if none.

        The rest is not read.
        """
        with _open_file(self.path) as handle:
            start = os.pread(handle, _START.size, 0)
            end = os.pread(handle, _HASH, max(0, os.fstat(handle).st_size - _HASH))
        if start not in [_START.pack(b"PACK", version, self.count) for version in (2, 3)]:
            return "has no header of a pack"
        return "" if end == self._sum else "is cut short, or belongs to another index"


class Packs:
    """All packs in `objects/pack`. Safe in several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packs: dict[Sign, Pack] = {}
        self._faults: dict[Sign, ValueError | OSError] = {}
        self._last: Pack | None = None
        self._bases = DeltaBases()
        self._lock = Lock()

    def read(self, oid: str) -> Content:
        """Kind and content of an object. KeyError if no pack has it; otherwise the fault."""
        name = bytes.fromhex(oid)
        with self._lock:
            try:
                return self._read(name)
            except (KeyError, OSError, ValueError):
                self._look()  # another git may have repacked
                return self._read(name)

    def _read(self, name: bytes) -> Content:
        faults = list(self._faults.values())
        for pack in self._likely():
            try:
                place = pack.place(name)
                if place is not None:
                    content = pack.read(name, place, self._bases)
                    self._last = pack
                    return content
            except (OSError, ValueError) as error:
                faults.insert(0, error)
        if faults:
            raise faults[0]
        raise KeyError(name.hex())

    def _likely(self) -> Iterator[Pack]:
        """The packs, the last used one first: objects read together were mostly packed together."""
        last = self._last
        if last is not None:
            yield last
        yield from (pack for pack in self._packs.values() if pack is not last)

    def _look(self) -> None:
        packs, faults = self._packs, self._faults
        self._packs, self._faults = {}, {}
        for sign, table in _tables(self._folder):
            try:
                self._packs[sign] = packs.get(sign) or Pack(table)
            except FileNotFoundError:
                continue  # another git has just removed it
            except (OSError, ValueError) as error:
                self._faults[sign] = faults.get(sign, error)
        if self._last not in self._packs.values():
            self._last = None

    def faults(self) -> Iterator[tuple[Path, str]]:
        """Damaged packs, as far as the damage shows without reading them completely."""
        with self._lock:
            self._look()
        for sign, error in self._faults.items():
            yield self._folder / sign[0], str(error)
        for pack in self._packs.values():
            try:
                why = pack.fault()
            except FileNotFoundError:
                why = "the pack is missing" if self._misses(pack) else ""
            except OSError as error:
                why = str(error)
            if why:
                yield pack.path, why

    def _misses(self, lost: Pack) -> bool:
        """Whether an object of the missing pack is nowhere else.

        If all are elsewhere, the pack was interrupted while it was made (libgit2 names the index
        first), or another git has just removed both files.
        """
        if not lost.path.with_suffix(".idx").exists():
            return False
        others = [pack for pack in self._packs.values() if pack.path.exists()]
        return not all(
            (self._folder.parent / name.hex()[:2] / name.hex()[2:]).exists()
            or any(other.place(name) is not None for other in others)
            for name in lost.names()
        )


def _tables(folder: Path) -> Iterator[tuple[Sign, Path]]:
    try:
        tables = sorted(path for path in folder.iterdir() if path.suffix == ".idx")
    except FileNotFoundError:
        return  # nothing is packed
    for table in tables:
        with suppress(FileNotFoundError):
            status = table.stat()
            yield (table.name, status.st_ino, status.st_mtime_ns, status.st_size), table


@contextmanager
def _open_file(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)
