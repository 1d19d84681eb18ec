"""Rows of pages as they were drawn and compressed: tabs that load equal rows at once share them.

When the tree takes another shape, each tab that shows it loads its rows again; when hive-web was
restarted, each tab loads its page. Rows do not depend on the login, so what one request drew is the
answer to the others.
"""

from __future__ import annotations

import gzip
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.web.frames import FrameLog

KEPT: Final = 64
KEPT_BYTES: Final = 4 << 20
_LEVEL: Final = 5


@dataclass(frozen=True, slots=True)
class PackedRows:
    """`basis` is what they were drawn from: with another one they are old.

    They hold all changes up to the frame `newest`.
    """

    basis: tuple[object, ...]
    newest: str
    packed: bytes
    size: int  # bytes that are kept, with the address and the basis

    @property
    def plain(self) -> bytes:
        return gzip.decompress(self.packed)


@dataclass(slots=True)
class DrawnRows:
    """The rows that were drawn last, by the address that they answer. `count`: how often."""

    count: int = 0
    _kept: OrderedDict[str, PackedRows] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def find(
        self, address: str, basis: tuple[object, ...], frames: FrameLog, draw: Callable[[], str]
    ) -> PackedRows:
        """The rows of an address, drawn anew where they were drawn from something else.

        So are those behind which a stream can no longer begin: the page would load itself again,
        and get the same rows.
        """
        rows = self._kept.get(address)
        if rows is not None and rows.basis == basis and frames.has_all_after(rows.newest):
            return rows
        self.count += 1
        newest = frames.newest
        packed = gzip.compress(draw().encode(), _LEVEL, mtime=0)
        rows = PackedRows(basis, newest, packed, size_of((address, basis, newest, packed)))
        self._forget(address)
        if rows.size > KEPT_BYTES:
            return rows
        self._kept[address] = rows
        self._bytes += rows.size
        while len(self._kept) > KEPT or self._bytes > KEPT_BYTES:
            self._forget(next(iter(self._kept)))
        return rows

    def forget_all(self) -> None:
        """Draw all rows anew: somebody has made a change and wants to see it."""
        self._kept.clear()
        self._bytes = 0

    def _forget(self, address: str) -> None:
        before = self._kept.pop(address, None)
        self._bytes -= 0 if before is None else before.size


def size_of(value: object) -> int:
    """The memory of a value in bytes, at most: what has several places in it counts in each."""
    size, values = 0, [value]
    while values:
        part = values.pop()
        size += sys.getsizeof(part)
        if isinstance(part, Mapping):
            values += [*part.keys(), *part.values()]
        elif isinstance(part, tuple | list):
            values += part
    return size
