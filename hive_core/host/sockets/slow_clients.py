"""An HTTP connection of an untrusted client: one request, with limits on time, size and work.

The HTTP parser processes all input that it gets at once, and a body in chunks of one byte is much
work. So it gets small pieces, and other connections are served in between.
"""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS: Final = 64
WIRE_MOST: Final = 96 * 1024  # bytes of a request, including its header and the overhead of chunks
_PIECE: Final = 2048


class BoundedHttpConnection(H11Protocol):
    """A connection that ends after `life` seconds, whatever its peer does, unless it is renewed.

    `crowd` holds all open connections, oldest first. When there are more than `connections_most`,
    the oldest is aborted, so that idle connections cannot lock out others. `bytes_most` bounds what
    a request may have on the wire.
    """

    life: float = 30.0
    connections_most: int = CONNECTIONS
    bytes_most: int = WIRE_MOST
    crowd: dict[BoundedHttpConnection, None]
    _end: asyncio.TimerHandle | None = None
    _rest: bytes = b""
    _taken: int = 0
    _feeding: bool = False
    _said_all: bool = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end = asyncio.get_running_loop().call_later(self.life, transport.abort)
        self.crowd[self] = None
        if len(self.crowd) > self.connections_most:
            oldest = next(iter(self.crowd))
            del self.crowd[oldest]
            oldest.transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.crowd.pop(self, None)
        self._rest = b""
        if self._end is not None:
            self._end.cancel()

    def keep_open(self) -> None:
        """Let it live for as long as its peer reads: an event stream, whose caller bounds them."""
        self.crowd.pop(self, None)
        if self._end is not None:
            self._end.cancel()

    def renew(self) -> None:
        """Let it live for `life` seconds from now: its peer has taken a part of a long answer."""
        if self._end is not None and not self._end.cancelled():
            self._end.cancel()
            self._end = asyncio.get_running_loop().call_later(self.life, self.transport.abort)

    @override
    def data_received(self, data: bytes) -> None:
        self._rest = (self._rest + data)[: self.bytes_most + 1 - self._taken]
        if not self._feeding:
            self._feed()

    def _feed(self) -> None:
        """Parse one piece. The next one follows after the other connections' turns."""
        piece, self._rest = self._rest[:_PIECE], self._rest[_PIECE:]
        self._taken += len(piece)
        self._feeding = False
        if self.transport.is_closing():
            return
        if self._taken > self.bytes_most:
            self.transport.abort()
            return
        self._parse(piece)
        if self._rest:
            self._feeding = True
            self.loop.call_soon(self._feed)
        else:
            self._end_if_useless()

    def _parse(self, piece: bytes) -> None:
        """Parse a piece. A second protocol error during the answer to a first is not logged."""
        try:
            super().data_received(piece)
        except Exception:  # noqa: BLE001 - the parser answers some faults by one of its own
            self.transport.abort()
        if self.transport.is_closing() and self.scope is not None:
            self.cycle.disconnected = True

    @override
    def eof_received(self) -> bool:  # type: ignore[override]
        """The peer has closed its sending side. A complete request is still answered."""
        self._said_all = True
        if not self._feeding:
            self._end_if_useless()
        return True

    def _end_if_useless(self) -> None:
        begun = self.scope is not None
        if self._said_all and not (begun and not self.cycle.more_body):
            self.transport.abort()
