"""HTTP connections of browsers: one request each, bounded, and open for longer with a stream."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override
from uvicorn.config import Config
from uvicorn.server import ServerState

from hive_core.host.sockets.slow_clients import BoundedHttpConnection
from hive_core.web.request_limits import BODY_MOST

_HEAD_MOST: Final = 16 * 1024
_CONNECTIONS: Final = 256  # without event streams
_BACKLOG: Final = 256
_ACCEPT_TURNS: Final = 4  # turns of the loop after which what was accepted is a connection


class WebConnection(BoundedHttpConnection):
    """`keep_open`, `write_chunk` and `abort` are for an event stream.

    `on_leave` is called when it has ended, or is such a stream.
    """

    connections_most = _CONNECTIONS
    bytes_most = BODY_MOST + 4 * _HEAD_MOST

    on_leave: Callable[[], None]
    _is_stream: bool = False

    @override
    def keep_open(self) -> None:
        super().keep_open()
        self._is_stream = True
        self.on_leave()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.on_leave()

    @override
    def eof_received(self) -> bool:  # type: ignore[override]  # as its base class
        """End the stream when the browser closes its side, to free a stream of its login."""
        if self._is_stream:
            self.transport.abort()
        return super().eof_received()

    def write_chunk(self, chunk: bytes) -> bool:
        """Write a chunk of a body, past the HTTP parser, which knows only that a body was begun.

        It is not written, and the value is False, while the client has not taken what was written
        before, or when the connection ends.
        """
        if self.flow.write_paused or self.transport.is_closing():
            return False
        self.transport.write(chunk)
        return True

    def abort(self) -> None:
        self.transport.abort()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # A stream whose client does not read holds this much, and then its frames wait.
        transport.set_write_buffer_limits(high=32 * 1024)


@dataclass(slots=True)
class WebServer:
    """Serves an ASGI application on sockets that listen already.

    A request that is not answered within `life` seconds, or not complete, is cut off; so is a
    download of which the client has taken no part for so long.
    """

    app: Any
    life: float = WebConnection.life
    _servers: list[asyncio.AbstractServer] = field(default_factory=list)
    _listening: list[socket.socket] = field(default_factory=list)
    _crowd: dict[BoundedHttpConnection, None] = field(default_factory=dict)
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def connections(self) -> int:
        """How many are open, without event streams."""
        return len(self._crowd)

    async def listen(self, listening: list[socket.socket]) -> None:
        config = Config(
            self.app, interface="asgi3", http=WebConnection, ws="none", lifespan="off",
            log_config=None, log_level="error", access_log=False, server_header=False,
            date_header=False, proxy_headers=False, h11_max_incomplete_event_size=_HEAD_MOST,
        )  # fmt: skip
        config.load()
        state = ServerState()
        # One request a connection: no proxy can take the bytes of one request for another.
        state.default_headers = [(b"connection", b"close")]

        def protocol() -> WebConnection:
            app_state: dict[str, Any] = {}
            made = WebConnection(config=config, server_state=state, app_state=app_state)
            app_state["connection"], made.crowd, made.life = made, self._crowd, self.life
            made.on_leave = self._left.set
            return made

        loop = asyncio.get_running_loop()
        self._listening += listening
        for bound in listening:
            bound.settimeout(0)
            create = (
                loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
            )
            self._servers.append(await create(protocol, sock=bound, backlog=_BACKLOG))

    def close(self) -> None:
        """Accept no more. Who comes later waits for the next process, by the socket of systemd."""
        for server in self._servers:
            server.close()

    async def drain(self) -> None:
        """Close, and answer those that were accepted before; each has `life` seconds at most."""
        loop = asyncio.get_running_loop()
        for bound in self._listening:
            loop.remove_reader(bound)
        for _ in range(_ACCEPT_TURNS):  # a server that is closed loses what it has just accepted
            await asyncio.sleep(0)
        self.close()
        while self._crowd:
            self._left.clear()
            await self._left.wait()
