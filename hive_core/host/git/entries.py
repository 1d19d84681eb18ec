"""One entry of a pack: its head, what it inflates to, and what a delta makes of its base.

https://git-scm.com/docs/gitformat-pack. Nothing that stands in the file is believed: every length
is a bound before it is a size, and whoever asked compares the hash in the end.
"""

from __future__ import annotations

import os
import zlib
from typing import Final, NamedTuple

LIMIT: Final = 64 << 20
_HEAD: Final = 64  # two numbers and a name; those of sane entries take half of it
_SPARE: Final = 512
_SIGN, _REST = 0x80, 0x7F
_NAME: Final = 20
_KINDS: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_BY_OFFSET, _BY_NAME = 6, 7
_ALL: Final = 0x10000  # what a copy without a length takes


class TooLarge(Exception):
    """It is larger than anything that is read here."""


class EntryHeader(NamedTuple):
    """`kind` is empty in a delta, whose base is named, or lies `back` bytes before it."""

    kind: str
    size: int
    start: int
    back: int = 0
    base: bytes = b""


def read_header(handle: int, at: int) -> EntryHeader:
    """What stands before the packed bytes; ValueError when that makes no sense."""
    data = os.pread(handle, _HEAD, at)
    try:
        return _parse_header(data, at)
    except IndexError as error:
        raise ValueError("cut short") from error


def _parse_header(data: bytes, at: int) -> EntryHeader:
    kind, size, here, bits = data[0] >> 4 & 7, data[0] & 0xF, 1, 4
    while data[here - 1] & _SIGN:
        size |= (data[here] & _REST) << bits
        here, bits = here + 1, bits + 7
    if kind in _KINDS:
        return EntryHeader(_KINDS[kind], size, at + here)
    if kind == _BY_NAME:
        return EntryHeader("", size, at + here + _NAME, base=data[here : here + _NAME])
    if kind != _BY_OFFSET:
        raise ValueError(f"an entry of the kind {kind}")
    back, here = data[here] & _REST, here + 1
    while data[here - 1] & _SIGN:
        back, here = back + 1 << 7 | data[here] & _REST, here + 1
    if not 0 < back < at:
        raise ValueError("a delta without a base")
    return EntryHeader("", size, at + here, back)


def inflate(handle: int, header: EntryHeader) -> bytes:
    """Exactly as many bytes as were promised. Too large is only what really is: a flipped bit may
    promise anything.
    """
    most = min(header.size, LIMIT)
    inflate, at, parts, left = zlib.decompressobj(), header.start, [b""], most
    while not inflate.eof:
        packed = os.pread(handle, most + _SPARE, at)
        at += len(packed)
        if not packed:
            raise ValueError("cut short")
        try:
            parts.append(inflate.decompress(packed, left + 1))  # 0 would mean: without a bound
        except zlib.error as error:
            raise ValueError(str(error)) from error
        left -= len(parts[-1])
        if left < 0 and header.size > LIMIT:
            raise TooLarge
        if left < 0:
            break
    if left or header.size > LIMIT:
        raise ValueError("it has another size than it says")
    return b"".join(parts)


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """What a delta makes of its base."""
    try:
        return _apply_delta(base, delta)
    except IndexError as error:
        raise ValueError("a delta that is cut short") from error


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    size, at = _number(delta, 0)
    if size != len(base):
        raise ValueError("a delta of another base")
    left, at = _number(delta, at)
    if left > LIMIT:
        raise TooLarge
    parts = []
    while at < len(delta):
        order, at = delta[at], at + 1
        if order & _SIGN:
            start, count, at = _copy(delta, order, at)
            part = base[start : start + count]
        else:
            count = order
            part, at = delta[at : at + count], at + count
        left -= count
        if not count or len(part) != count or left < 0:
            raise ValueError("a delta that makes no sense")
        parts.append(part)
    if left:
        raise ValueError("a delta that is cut short")
    return b"".join(parts)


def _copy(delta: bytes, order: int, at: int) -> tuple[int, int, int]:
    """Which part of the base, and where the next order begins."""
    values = [0, 0]
    for bit in range(7):
        if order & 1 << bit:
            values[bit // 4] |= delta[at] << 8 * (bit % 4)
            at += 1
    return values[0], values[1] or _ALL, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = bits = 0
    while True:
        value |= (data[at] & _REST) << bits
        at, bits = at + 1, bits + 7
        if not data[at - 1] & _SIGN:
            return value, at
