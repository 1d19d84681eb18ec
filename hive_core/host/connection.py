"""One connection: bytes in, frames to the broker, bytes out, within its limits."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from typing_extensions import override

from hive_core.broker.line import Line
from hive_core.errors import BadFrame
from hive_core.varlink import FrameReader

_FRAMES_MOST, _FRAMES_FEW = 256, 64
_BUFFER: Final = 1 << 18
_ROOM: Final = memoryview(bytearray(1 << 18))
# struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS: Final = struct.Struct("iII")


def peer(connected: socket.socket) -> tuple[int, int]:
    """Uid and pid of the process that connected, as the kernel noted them; -1 when it did not.

    The uid is mapped into our user namespace: a container's uids arrive as host uids of its range.
    The pid may name another process by now, so it is for logs only (attack 33).
    """
    size = _CREDENTIALS.size
    pid, uid, _ = _CREDENTIALS.unpack(
        connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return uid, pid


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, in seconds, a peer may take for its first frame, and for one that it has begun."""

    first: float = 10.0
    begun: float = 30.0
    # How often it is looked who is late.
    look: float = 1.0


PATIENCE: Final = Patience()


class Host(Protocol):
    """What a connection needs of the daemon's side."""

    patience: Patience

    def feed(self, line: Line, frames: list[bytes | BadFrame]) -> None: ...

    def drained(self, line: Line) -> None: ...

    def left(self, connection: Connection, line: Line) -> None: ...

    def ending(self, connection: Connection) -> None:
        """Call `finish` after each turn from now on."""
        ...

    def hurry(self, connection: Connection, seconds: float | None) -> None:
        """Abort the connection after that time; None: it is in no hurry any more."""
        ...


# The line of a peer (uid, pid), or None: closed without a word.
Admit = Callable[["Connection", int, int], Line | None]


class Connection(asyncio.BufferedProtocol):
    """Plain recv: descriptors that a peer attaches (SCM_RIGHTS) are closed by the kernel, unseen.

    No per-call work happens here but cutting frames. One buffer serves all connections, because
    what was read is copied out at once; a fresh one for each read costs more than the read.
    """

    def __init__(self, host: Host, admit: Admit) -> None:
        self._host = host
        self._admit = admit
        self._reader = FrameReader()
        self._line: Line | None = None
        self._paused = self._hurried = False
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("not a stream transport")
        self.transport = transport
        uid, pid = peer(transport.get_extra_info("socket"))
        self._line = self._admit(self, uid, pid)
        if self._line is None:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=_BUFFER)
        self._hurry(self._host.patience.first)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return _ROOM

    @override
    def buffer_updated(self, nbytes: int) -> None:
        line = self._line
        if line is None or line.closing:
            return
        frames: list[bytes | BadFrame] = []
        try:
            frames.extend(self._reader.feed(_ROOM[:nbytes].tobytes()))
        except BadFrame as fault:
            frames.append(fault)
        if frames or not self._hurried:
            self._hurry_if_begun()
        if frames:
            self._host.feed(line, frames)
            if len(line.frames) > _FRAMES_MOST and self.transport is not None:
                self._paused = True
                self.transport.pause_reading()
                self._hurry(None)

    def send(self, data: bytes, close: bool) -> None:  # noqa: FBT001 - as Line.send
        transport, line = self.transport, self._line
        if transport is None or line is None or transport.is_closing():
            return
        transport.write(data)
        if close:
            transport.close()
        elif self._paused and len(line.frames) < _FRAMES_FEW:
            self._paused = False
            transport.resume_reading()
            self._hurry_if_begun()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    @override
    def pause_writing(self) -> None:
        if self._line is not None:
            self._line.choked = True

    @override
    def resume_writing(self) -> None:
        if self._line is not None:
            self._host.drained(self._line)

    @override
    def eof_received(self) -> bool:
        """The peer has said all (`printf ... | nc -U`): what was asked is still answered."""
        self._host.ending(self)
        return True

    def finish(self) -> None:
        """Close a connection whose peer asks no more and is owed nothing."""
        line = self._line
        if self.transport is not None and (line is None or line.useless):
            self.transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._hurry(None)
        if self._line is not None:
            self._host.left(self, self._line)
            self._line = None

    def _hurry_if_begun(self) -> None:
        self._hurry(self._host.patience.begun if self._reader.pending else None)

    def _hurry(self, seconds: float | None) -> None:
        if seconds is not None or self._hurried:
            self._hurried = seconds is not None
            self._host.hurry(self, seconds)
