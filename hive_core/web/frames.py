"""Frames of event streams: made once, compressed once, sent to all that follow their topic.

A frame is one event whose data is one line of JSON. Compressed frames are blocks of their own (full
flush), so each stream is the same blocks behind a header of gzip, from any frame on. They are kept
as chunks of HTTP/1.1, as most streams write them.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

KEPT: Final = 1000
KEPT_BYTES: Final = 8 << 20
GZIP_HEADER: Final = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255))
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Frame:
    number: int
    topic: str
    plain: bytes
    packed_chunk: bytes

    @property
    def packed(self) -> bytes:
        return self.packed_chunk[self.packed_chunk.index(b"\r\n") + 2 : -2]


def as_chunk(data: bytes) -> bytes:
    """The data, which is not empty, as a chunk of a body of HTTP/1.1 (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def make_frame(number: int, topic: str, plain: bytes) -> Frame:
    return Frame(number, topic, plain, as_chunk(pack_block(plain)))


def pack_block(data: bytes) -> bytes:
    """The data as a block of a gzip stream that needs nothing before it."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)


def event_text(id_: str, values: Mapping[str, object], event: str = "") -> bytes:
    """One event. JSON in ASCII has no line break, whatever an agent wrote."""
    name = f"event: {event}\n" if event else ""
    number = f"id: {id_}\n" if id_ else ""
    return f"{name}{number}data: {json.dumps(values, separators=(',', ':'))}\n\n".encode("ascii")


def passing_frame(topic: str, event: str, values: Mapping[str, object]) -> Frame:
    """A frame that is not kept: a stream that comes later gets the whole in another way."""
    return make_frame(0, topic, event_text("", values, event))


BEAT: Final = passing_frame("", "beat", {})  # all is well, and nothing has changed
GAP: Final = passing_frame("", "gap", {})  # frames are lost: load the page again


@dataclass(slots=True)
class FrameLog:
    """The newest frames, at most so many and so many bytes.

    An id contains the epoch of the program, so ids of an earlier run are recognized.
    """

    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    number: int = 0
    _frames: deque[Frame] = field(default_factory=deque)
    _bytes: int = 0

    @property
    def newest(self) -> str:
        return f"{self.epoch}-{self.number}"

    def add(self, topic: str, values: Mapping[str, object]) -> Frame:
        self.number += 1
        frame = make_frame(self.number, topic, event_text(self.newest, values, topic))
        self._frames.append(frame)
        self._bytes += _size(frame)
        while len(self._frames) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= _size(self._frames.popleft())
        return frame

    def after(self, id_: str, topics: frozenset[str]) -> list[Frame]:
        """The frames that follow `id_`; only GAP where some of them are no longer kept."""
        number = self._number_of(id_)
        if number is None:
            return [GAP]
        return [frame for frame in self._frames if frame.number > number and frame.topic in topics]

    def has_all_after(self, id_: str) -> bool:
        """Whether all frames that follow `id_` are kept."""
        return self._number_of(id_) is not None

    def _number_of(self, id_: str) -> int | None:
        """The number of an id; None where frames that follow it are no longer kept."""
        epoch, _, digits = id_.partition("-")
        if epoch != self.epoch or not digits.isdecimal() or len(digits) > len(str(self.number)):
            return None
        number = int(digits)
        return number if self.number - len(self._frames) <= number <= self.number else None


def _size(frame: Frame) -> int:
    return len(frame.plain) + len(frame.packed_chunk)
