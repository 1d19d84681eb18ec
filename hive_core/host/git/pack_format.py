"""git's pack format: reads one entry, and builds or checks a small pack with its index.

https://git-scm.com/docs/gitformat-pack, version 2 of both. Nothing in a pack that is read is
trusted: every length is a limit until it is confirmed, and the caller compares the hash at the end.
No entry of a pack that is built is a delta.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from hashlib import sha1
from itertools import accumulate
from typing import Final, NamedTuple

LIMIT: Final = 64 << 20
_HEAD: Final = 64  # Two numbers and a name; the headers of valid entries take half of this.
_SPARE: Final = 512
_SIGN, _REST = 0x80, 0x7F
_NAME: Final = 20
_KINDS: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_NUMBERS: Final = {kind: number for number, kind in _KINDS.items()}
_BY_OFFSET, _BY_NAME = 6, 7
_INDEX_MAGIC: Final = b"\377tOc\0\0\0\2"
_ALL: Final = 0x10000  # The length that a copy without a length takes


class TooLarge(Exception):
    """The object is larger than the limit of this module."""


class EntryHeader(NamedTuple):
    """The header of an entry. `kind` is empty for a delta.

    The base of a delta is named by `base`, or starts `back` bytes before the delta.
    """

    kind: str
    size: int
    start: int
    back: int = 0
    base: bytes = b""


def read_header(handle: int, at: int) -> EntryHeader:
    """Read the header before the packed bytes; ValueError if it is not valid."""
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
        raise ValueError(f"unknown kind of entry: {kind}")
    back, here = data[here] & _REST, here + 1
    while data[here - 1] & _SIGN:
        back, here = back + 1 << 7 | data[here] & _REST, here + 1
    if not 0 < back < at:
        raise ValueError("the delta has no base")
    return EntryHeader("", size, at + here, back)


def inflate(handle: int, header: EntryHeader) -> bytes:
    """Inflate exactly as many bytes as the header declares.

    TooLarge is raised only for content that is really too large: a flipped bit may declare any
    size.
    """
    most = min(header.size, LIMIT)
    inflate, at, parts, left = zlib.decompressobj(), header.start, [b""], most
    while not inflate.eof:
        packed = os.pread(handle, most + _SPARE, at)
        at += len(packed)
        if not packed:
            raise ValueError("cut short")
        try:
            parts.append(inflate.decompress(packed, left + 1))  # A limit of 0 would mean no limit.
        except zlib.error as error:
            raise ValueError(str(error)) from error
        left -= len(parts[-1])
        if left < 0 and header.size > LIMIT:
            raise TooLarge
        if left < 0:
            break
    if left or header.size > LIMIT:
        raise ValueError("the size differs from the declared one")
    return b"".join(parts)


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """Apply a delta to its base."""
    try:
        return _apply_delta(base, delta)
    except IndexError as error:
        raise ValueError("the delta is cut short") from error


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    size, at = _number(delta, 0)
    if size != len(base):
        raise ValueError("the delta belongs to another base")
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
            raise ValueError("the delta is not valid")
        parts.append(part)
    if left:
        raise ValueError("the delta is cut short")
    return b"".join(parts)


def _copy(delta: bytes, order: int, at: int) -> tuple[int, int, int]:
    """The start and the length of a copied part, and the position of the next instruction."""
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


def object_name(kind: str, data: bytes) -> str:
    """The name (SHA-1) of an object."""
    return sha1(b"%s %d\0%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()


def build_pack(objects: Iterable[tuple[str, bytes]]) -> tuple[bytes, bytes]:
    """The pack and its index for these objects, each given as kind and content."""
    unique = {object_name(kind, data): (kind, data) for kind, data in objects}
    parts, rows, at = [struct.pack(">4sII", b"PACK", 2, len(unique))], [], 12
    for name, (kind, data) in unique.items():
        part = _entry_header(_NUMBERS[kind], len(data)) + zlib.compress(data)
        rows.append((bytes.fromhex(name), zlib.crc32(part), at))
        parts.append(part)
        at += len(part)
    body = b"".join(parts)
    sign = _checksum(body)
    return body + sign, _index(sorted(rows), sign)


def _entry_header(kind: int, size: int) -> bytes:
    header, size = [kind << 4 | size & 0xF], size >> 4
    while size:
        header[-1] |= 0x80
        header.append(size & 0x7F)
        size >>= 7
    return bytes(header)


def _index(rows: list[tuple[bytes, int, int]], sign: bytes) -> bytes:
    counts = [0] * 256
    for name, _, _ in rows:
        counts[name[0]] += 1
    body = b"".join((
        _INDEX_MAGIC, struct.pack(">256I", *accumulate(counts)), *(name for name, _, _ in rows),
        *(struct.pack(">I", crc) for _, crc, _ in rows),
        *(struct.pack(">I", at) for _, _, at in rows), sign,
    ))  # fmt: skip
    return body + _checksum(body)


def _checksum(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()


def pack_fault(pack: bytes, table: bytes) -> str:
    """Check a pack and its index; return the fault, empty if both are whole and belong together."""
    if not pack.startswith(b"PACK\0\0\0\2") or _checksum(pack[:-20]) != pack[-20:]:
        return "the pack is damaged"
    if not table.startswith(_INDEX_MAGIC) or _checksum(table[:-20]) != table[-20:]:
        return "the index of the pack is damaged"
    return "" if table[-40:-20] == pack[-20:] else "the index belongs to another pack"
