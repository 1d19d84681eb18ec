"""One connection: bytes in, frames to the broker, bytes out, within its limits."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from typing_extensions import override

from hive_core.broker.connection import ClientConnection
from hive_core.errors import BadFrame
from hive_core.model.wire.record import OPERATOR
from hive_core.varlink import FrameReader

# What a connection may have asked and not got answered before reading stops, and goes on again.
_FRAMES_MOST, _FRAMES_FEW = 256, 64
_HELD_MOST, _HELD_FEW = 1 << 18, 1 << 16
# Who holds less than this is not held up for what others of its party hold.
LITTLE: Final = 1 << 14
_BUFFER: Final = 1 << 16
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
class PeerTimeouts:
    """How long, in seconds, a peer may take for its first frame, for one begun, and to read."""

    first: float = 10.0
    begun: float = 30.0
    deaf: float = 60.0
    # How often it is looked who is late.
    look: float = 1.0


PATIENCE: Final = PeerTimeouts()


class ConnectionHost(Protocol):
    """What a connection needs of the daemon's side."""

    patience: PeerTimeouts

    def feed(self, line: ClientConnection, frames: list[bytes | BadFrame]) -> None: ...

    def on_drained(self, line: ClientConnection) -> None: ...

    def on_closed(self, connection: PeerConnection, line: ClientConnection) -> None: ...

    def on_memory_change(self, connection: PeerConnection, line: ClientConnection) -> None:
        """What it holds of our memory has changed: the host may `hush` or `choke` it."""
        ...

    def on_ending(self, connection: PeerConnection) -> None:
        """Call `finish` after each turn from now on."""
        ...

    def set_deadline(self, connection: PeerConnection, seconds: float | None) -> None:
        """Abort the connection after that time; None: it is in no hurry any more."""
        ...


# The line of a peer (uid, pid), or None: closed without a word.
Admit = Callable[["PeerConnection", int, int], ClientConnection | None]


class PeerConnection(asyncio.BufferedProtocol):
    """Plain recv: descriptors that a peer attaches (SCM_RIGHTS) are closed by the kernel, unseen.

    No per-call work happens here but cutting frames. One buffer serves all connections, because
    what was read is copied out at once; a fresh one for each read costs more than the read.
    """

    def __init__(self, host: ConnectionHost, admit: Admit) -> None:
        self._host = host
        self._admit = admit
        self._reader = FrameReader()
        # What was read and is not cut into frames yet: one read may bring very many small ones.
        self._uncut = b""
        self._line: ClientConnection | None = None
        self._stuck = self._together = self._hurried = False
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
        if self._line is not None and not self._line.closing:
            self._take(self._line, _ROOM[:nbytes].tobytes())

    def _take(self, line: ClientConnection, data: bytes) -> None:
        frames: list[bytes | BadFrame] = []
        try:
            frames.extend(self._reader.feed(self._whole_frames(data)))
        except BadFrame as fault:
            frames.append(fault)
        hurried = self._hurried
        # Whole frames of a peer in no hurry, which is what most reads bring, put it in none.
        if (hurried or self._reader.pending) and (frames or not hurried):
            self._hurry_if_slow()
        if frames:
            self._host.feed(line, frames)
            if line.bytes_held > _HELD_MOST or len(line.frames) > _FRAMES_MOST or self._uncut:
                self.pause_read()
        if self.unread > LITTLE:
            self._host.on_memory_change(self, line)

    def _whole_frames(self, data: bytes) -> bytes:
        """As much as holds only so many frames; the rest waits until these are answered."""
        if data.count(b"\0") <= _FRAMES_MOST:
            return data
        self._uncut = data.split(b"\0", _FRAMES_MOST)[-1]
        return data[: len(data) - len(self._uncut)]

    def send(self, data: bytes, close: bool) -> None:  # noqa: FBT001 - as Line.send
        transport, line = self.transport, self._line
        if transport is None or line is None or transport.is_closing():
            return
        transport.write(data)
        if close:
            transport.close()
            return
        if line.full:
            self.resume_read()
        self._host.on_memory_change(self, line)

    @property
    def unread(self) -> int:
        """Bytes that came in: frames that wait for their answers, and one that is not whole."""
        held = self._reader.size + len(self._uncut)
        return held + (self._line.bytes_held if self._line is not None else 0)

    @property
    def unsent(self) -> int:
        """Bytes that a peer who does not read has yet to read."""
        return self.transport.get_write_buffer_size() if self.transport and self._stuck else 0

    @property
    def gone(self) -> bool:
        """Whether the peer has closed, which asyncio does not notice while nothing is read."""
        if self.transport is None:
            return True
        look = select.poll()
        look.register(self.transport.get_extra_info("socket").fileno(), 0)
        return any(seen & select.POLLHUP for _, seen in look.poll(0))

    def pause_read(self, *, together: bool = False) -> None:
        """Read no more for now; `together`: because of what the whole party holds."""
        line = self._line
        self._together |= together
        if self.transport is not None and line is not None and not line.full:
            line.full = True
            self.transport.pause_reading()
            self._hurry_if_slow()

    def resume_read(self, *, together: bool = False) -> None:
        """Read on, if neither its own frames nor those of the party are too many."""
        line = self._line
        self._together &= not together
        if self.transport is None or line is None or not line.full or self._together:
            return
        if line.bytes_held < _HELD_FEW and len(line.frames) < _FRAMES_FEW:
            line.full = False
            if self._uncut and not line.closing:
                uncut, self._uncut = self._uncut, b""
                self._take(line, uncut)
                if line.full:
                    return
            self.transport.resume_reading()
            self._hurry_if_slow()

    def pause_calls(self) -> None:
        """Ask nothing more for it until `breathe`."""
        if self._line is not None:
            self._line.write_blocked = True

    def resume_calls(self) -> None:
        """Go on, unless its own peer is what it waits for."""
        if self._line is not None and self._line.write_blocked and not self._stuck:
            self._host.on_drained(self._line)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    @override
    def pause_writing(self) -> None:
        self._stuck = True
        self.pause_calls()
        self._hurry_if_slow()

    @override
    def resume_writing(self) -> None:
        self._stuck = False
        self._hurry_if_slow()
        if self._line is not None:
            self._host.on_memory_change(self, self._line)

    @override
    def eof_received(self) -> bool:
        """The peer has said all (`printf ... | nc -U`): what was asked is still answered."""
        self._host.on_ending(self)
        return True

    def finish(self) -> None:
        """Close a connection whose peer asks no more and is owed nothing."""
        line = self._line
        if self.transport is not None and (line is None or (line.is_useless and not self._uncut)):
            self.transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._hurry(None)
        if self._line is not None:
            self._host.on_closed(self, self._line)
            self._line = None

    def _hurry_if_slow(self) -> None:
        """A frame that was begun must end, and what is written must be read.

        The operator may look at a log in a pager for as long as it takes.
        """
        line = self._line
        if line is None:
            return
        late = self._reader.pending and not (line.full and line.bytes_held)
        deaf = self._stuck and line.party != OPERATOR
        patience = self._host.patience
        # While nothing is read, only a look now and then tells that the peer has gone.
        times = [inf] * line.full + [patience.begun] * late + [patience.deaf] * deaf
        self._hurry(min(times, default=None))

    def _hurry(self, seconds: float | None) -> None:
        if seconds is not None or self._hurried:
            self._hurried = seconds is not None
            self._host.set_deadline(self, seconds)
