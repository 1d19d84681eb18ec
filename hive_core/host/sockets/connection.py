"""One connection: bytes in, frames to the broker, bytes out, within its limits."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from typing_extensions import override

from hive_core.broker.connection import ClientConnection
from hive_core.errors import BadFrame
from hive_core.model.wire.record import EGRESS, MODEL, OPERATOR
from hive_core.varlink import FrameReader

# Limits on requests of a connection without an answer: reading stops at the first value and resumes
# at the second. Frames, then bytes.
_FRAMES_MOST, _FRAMES_FEW = 256, 64
_HELD_MOST, _HELD_FEW = 1 << 18, 1 << 16
# A connection that holds less than this is not paused for what other connections of its party hold.
LITTLE: Final = 1 << 14
# Services beside hived, which keep a connection.
SERVICES: Final = frozenset({MODEL, EGRESS})
_BUFFER: Final = 1 << 16
_ROOM: Final = memoryview(bytearray(1 << 18))
# struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS: Final = struct.Struct("iII")


def peer(connected: socket.socket) -> tuple[int, int]:
    """The uid and pid of the connected process, as recorded by the kernel; -1 if it recorded none.

    The uid is mapped into this user namespace: a container's uids arrive as host uids of its range.
    The pid may name another process by now, so it is for logs only (attack 33).
    """
    size = _CREDENTIALS.size
    pid, uid, _ = _CREDENTIALS.unpack(
        connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return uid, pid


@dataclass(frozen=True, slots=True)
class PeerTimeouts:
    """Seconds that a peer has for its first frame, to complete a frame, and to read replies."""

    first: float = 10.0
    begun: float = 30.0
    deaf: float = 60.0
    # The interval at which late peers are looked for.
    look: float = 1.0


PATIENCE: Final = PeerTimeouts()


class ConnectionHost(Protocol):
    """The methods of the server that a connection calls."""

    patience: PeerTimeouts

    @property
    def pressed(self) -> Collection[object]:
        """The parties that hold too much: an answer to one of them may let it go on."""
        ...

    def feed(self, line: ClientConnection, frames: Sequence[bytes | BadFrame]) -> None: ...

    def on_drained(self, line: ClientConnection) -> None: ...

    def on_closed(self, connection: PeerConnection, line: ClientConnection) -> None: ...

    def on_memory_change(self, connection: PeerConnection, line: ClientConnection) -> None:
        """Called when the memory that the connection holds has changed.

        May pause reads or calls.
        """
        ...

    def on_ending(self, connection: PeerConnection) -> None:
        """Call `finish` of the connection after each batch from now on."""
        ...

    def set_deadline(self, connection: PeerConnection, seconds: float | None) -> None:
        """Abort the connection after `seconds`; None removes the deadline."""
        ...


# Returns the connection of a peer (uid, pid) to the broker; None closes it without a reply.
Admit = Callable[["PeerConnection", int, int], ClientConnection | None]


class PeerConnection(asyncio.BufferedProtocol):
    """One client connection: receives bytes, cuts frames, passes them to the broker, sends replies.

    It uses plain recv, so the kernel closes descriptors that a peer attaches (SCM_RIGHTS). All
    connections share one buffer, because received bytes are copied out at once; a new buffer for
    each read costs more than the read.
    """

    def __init__(self, host: ConnectionHost, admit: Admit) -> None:
        self._host = host
        self._admit = admit
        self._reader = FrameReader()
        # Bytes that were received and are not cut into frames yet: one read may bring many small
        # frames.
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
        if self._line.party not in SERVICES:  # they may have nothing to say
            self._hurry(self._host.patience.first)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return _ROOM

    @override
    def buffer_updated(self, nbytes: int) -> None:
        if self._line is not None and not self._line.closing:
            self._take(self._line, _ROOM[:nbytes].tobytes())

    def _take(self, line: ClientConnection, data: bytes) -> None:
        frames: Sequence[bytes | BadFrame]
        if len(data) > _FRAMES_MOST:  # else it cannot hold more frames
            data = self._whole_frames(data)
        try:
            frames = self._reader.feed(data)
        except BadFrame as fault:
            frames = (fault,)
        hurried, pending = self._hurried, self._reader.pending
        # A connection without a deadline that got only whole frames, the usual case, needs none.
        if (hurried or pending) and (frames or not hurried):
            self._hurry_if_slow()
        if frames:
            self._host.feed(line, frames)
            if line.bytes_held > _HELD_MOST or len(line.frames) > _FRAMES_MOST or self._uncut:
                self.pause_read()
        if (pending or self._uncut or line.bytes_held > LITTLE) and self.unread > LITTLE:
            self._host.on_memory_change(self, line)

    def _whole_frames(self, data: bytes) -> bytes:
        """The bytes that hold at most so many frames. The rest waits until these are answered."""
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
        if self._stuck or line.write_blocked or self._host.pressed:
            self._host.on_memory_change(self, line)

    @property
    def unread(self) -> int:
        """Bytes received and not answered: frames that wait for a reply, and incomplete ones."""
        held = self._reader.size + len(self._uncut)
        return held + (self._line.bytes_held if self._line is not None else 0)

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent to a peer that does not read."""
        return self.transport.get_write_buffer_size() if self.transport and self._stuck else 0

    @property
    def gone(self) -> bool:
        """Whether the peer has closed. asyncio does not notice this while reading is paused."""
        if self.transport is None:
            return True
        look = select.poll()
        look.register(self.transport.get_extra_info("socket").fileno(), 0)
        return any(seen & select.POLLHUP for _, seen in look.poll(0))

    def pause_read(self, *, together: bool = False) -> None:
        """Pause reading. `together`: because of what all connections of the party hold."""
        line = self._line
        self._together |= together
        if self.transport is not None and line is not None and not line.full:
            line.full = True
            self.transport.pause_reading()
            self._hurry_if_slow()

    def resume_read(self, *, together: bool = False) -> None:
        """Resume reading, unless this connection or its party still holds too much."""
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
        """Pause the broker's calls for this connection until `resume_calls`."""
        if self._line is not None:
            self._line.write_blocked = True

    def resume_calls(self) -> None:
        """Resume the broker's calls, unless the peer itself does not read."""
        if self._line is not None and self._line.write_blocked and not self._stuck:
            self._host.on_drained(self._line)

    def close_without_login(self, is_open: Callable[[str], bool]) -> None:
        """Close a connection of login.sock whose login has ended; what was answered is sent."""
        line = self._line
        if line is None or line.seat is None or not line.seat.login:
            return
        if self.transport is not None and not is_open(line.seat.login):
            line.closing = True
            self.transport.close()

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
        """The peer has closed its sending side (`printf ... | nc -U`).

        Pending calls are still answered.
        """
        self._host.on_ending(self)
        return True

    def finish(self) -> None:
        """Close the connection if its peer has closed and no reply is pending."""
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
        """Set a deadline for an incomplete frame and for unread replies.

        The operator has no deadline for reading, because a pager may show a log for any time.
        """
        line = self._line
        if line is None:
            return
        late = self._reader.pending and not (line.full and line.bytes_held)
        deaf = self._stuck and line.party != OPERATOR
        patience = self._host.patience
        # While reading is paused, only the regular check notices that the peer has closed.
        times = [inf] * line.full + [patience.begun] * late + [patience.deaf] * deaf
        self._hurry(min(times, default=None))

    def _hurry(self, seconds: float | None) -> None:
        if seconds is not None or self._hurried:
            self._hurried = seconds is not None
            self._host.set_deadline(self, seconds)
