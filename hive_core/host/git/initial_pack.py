"""Builds a pack and its index from a few objects, for the first commit of a new repository.

https://git-scm.com/docs/gitformat-pack, version 2 of both; no object is a delta.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from hashlib import sha1
from itertools import accumulate
from typing import Final

_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_TABLE: Final = b"\377tOc\0\0\0\2"


def object_name(kind: str, data: bytes) -> str:
    """The name (SHA-1) of an object."""
    return sha1(b"%s %d\0%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()


def build_pack(objects: Iterable[tuple[str, bytes]]) -> tuple[bytes, bytes]:
    """The pack and its index for these objects, each given as kind and content."""
    unique = {object_name(kind, data): (kind, data) for kind, data in objects}
    parts, rows, at = [struct.pack(">4sII", b"PACK", 2, len(unique))], [], 12
    for name, (kind, data) in unique.items():
        part = _head(_KINDS[kind], len(data)) + zlib.compress(data)
        rows.append((bytes.fromhex(name), zlib.crc32(part), at))
        parts.append(part)
        at += len(part)
    body = b"".join(parts)
    sign = _sum(body)
    return body + sign, _table(sorted(rows), sign)


def _head(kind: int, size: int) -> bytes:
    header, size = [kind << 4 | size & 0xF], size >> 4
    while size:
        header[-1] |= 0x80
        header.append(size & 0x7F)
        size >>= 7
    return bytes(header)


def _table(rows: list[tuple[bytes, int, int]], sign: bytes) -> bytes:
    counts = [0] * 256
    for name, _, _ in rows:
        counts[name[0]] += 1
    body = b"".join((
        _TABLE, struct.pack(">256I", *accumulate(counts)), *(name for name, _, _ in rows),
        *(struct.pack(">I", crc) for _, crc, _ in rows),
        *(struct.pack(">I", at) for _, _, at in rows), sign,
    ))  # fmt: skip
    return body + _sum(body)


def _sum(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()


def pack_fault(pack: bytes, table: bytes) -> str:
    """Check a pack and its index; return the fault, empty if both are whole and belong together."""
    if not pack.startswith(b"PACK\0\0\0\2") or _sum(pack[:-20]) != pack[-20:]:
        return "the pack is damaged"
    if not table.startswith(_TABLE) or _sum(table[:-20]) != table[-20:]:
        return "the index of the pack is damaged"
    return "" if table[-40:-20] == pack[-20:] else "the index belongs to another pack"
