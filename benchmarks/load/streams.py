"""Event streams as browsers hold them: some are decoded, the others only read."""

import re
import selectors
import socket
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

FIRST_AGENT = "00000001-0000-0000-0000-000000000000"  # as fuzz.served makes agent 0
PATH = "/live?topics=tree,attention,audit"
# The row of agent 0 in a frame: its last cell is the number of letters in the inbox.
_ROW = re.compile(rb'"a-%b":"(?:[^"\\]|\\.)*?>([0-9]+)</span>"' % FIRST_AGENT.encode())


class StreamEnded(Exception):
    """The server has ended a stream."""


@dataclass
class StreamReader:
    """One event stream. `unpack`: it is decoded, and tells when agent 0's row came."""

    connection: socket.socket
    unpack: "zlib._Decompress | None"
    size: int = 0
    text: bytes = b""
    raw: bytes = b""
    has_head: bool = False
    came: list[float] = field(default_factory=list)
    letters: list[int] = field(default_factory=list)  # in the inbox of agent 0, as the rows say
    numbers: list[int] = field(default_factory=list)  # of its frames
    newest: str = ""  # the id of the last frame, or of that before the page was made
    shapes: int = 0  # frames that say that the tree has another shape
    gaps: int = 0  # one is at its begin, as it resumes after nothing

    def read(self) -> None:
        data = self.connection.recv(1 << 20)
        if not data:
            raise StreamEnded("hive-web ended a stream")
        self.size += len(data)
        if self.unpack is not None:
            self._take(data)

    def _take(self, data: bytes) -> None:
        now = time.monotonic()
        self.raw += data
        if not self.has_head:
            head, end, rest = self.raw.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 503 " in head.split(b"\r\n")[0]:
                raise StreamEnded("hive-web does not reach hived now")
            if b" 200 " not in head.split(b"\r\n")[0]:
                raise RuntimeError(head[:300].decode(errors="replace"))
            self.raw, self.has_head = rest, True
        while (chunk := self._chunk()) is not None:
            assert self.unpack is not None
            self.text += self.unpack.decompress(chunk)
        while b"\n\n" in self.text:
            event, _, self.text = self.text.partition(b"\n\n")
            self._take_event(event, now)

    def _take_event(self, event: bytes, now: float) -> None:
        self.gaps += event.startswith(b"event: gap")
        self.shapes += event.endswith(b'data: {"tree":true}')
        if b"\nid: " in event:
            self._count_frame(event.partition(b"\nid: ")[2].partition(b"\n")[0].decode())
        if FIRST_AGENT.encode() in event and b"event: tree" in event:
            self.came.append(now)
            self.letters += [int(row[1]) for row in _ROW.finditer(event)]

    def _count_frame(self, id_: str) -> None:
        epoch, _, number = id_.partition("-")
        if self.newest and not self.newest.startswith(f"{epoch}-"):
            raise RuntimeError("frames of another hive-web came without a gap before them")
        self.newest = id_
        self.numbers.append(int(number))

    def _chunk(self) -> bytes | None:
        length, end, rest = self.raw.partition(b"\r\n")
        if not end or len(rest) < (size := int(length, 16)) + 2:
            return None
        self.raw = rest[size + 2 :]
        return rest[:size]


def read_for(streams: Iterable[StreamReader], seconds: float) -> None:
    until = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.connection, selectors.EVENT_READ, stream)
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                key.data.read()


def check_frames(streams: Sequence[StreamReader], gaps: int = 1) -> None:
    """RuntimeError: a stream lacks a frame of another one, has one twice, or had too many gaps."""
    sequences = [stream.numbers for stream in streams if stream.unpack is not None]
    start = max(numbers[0] for numbers in sequences)
    until = min(numbers[-1] for numbers in sequences)
    seen = [[number for number in numbers if start <= number <= until] for numbers in sequences]
    if any(numbers != seen[0] for numbers in seen) or any(stream.gaps > gaps for stream in streams):
        raise RuntimeError("a frame is lost, or came twice")
