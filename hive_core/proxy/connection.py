"""An HTTP connection of an agent, with limits on time and on the work that its bytes make."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from hive_core.services.listeners import ConnectionFactory
from hive_core.services.packets import HandedSocket

HEAD_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30
CONNECTIONS_MOST: Final = 16  # of one socket; more of them wait in its queue
_HEAD_MOST: Final = 32 << 10
# The parser works through all bytes that it gets at once. Chunks of one byte are much work, so a
# head, and a body in chunks, are parsed in pieces, and other connections are served in between.
_PIECE: Final = 1024
_REST_MOST: Final = 256 << 10  # bytes that wait for the parser


@dataclass(slots=True)
class ParserTurns:
    """The connections of one agent whose bytes wait: one piece of one of them in each turn.

    So an agent with many connections gets no more time than one with a single connection.
    """

    _waiting: deque[ModelConnection] = field(default_factory=deque)

    def add(self, connection: ModelConnection) -> None:
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._feed_one)

    def _feed_one(self) -> None:
        connection = self._waiting[0]
        connection.feed()  # adds it again, behind the others
        self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._feed_one)


class ModelConnection(H11Protocol):
    """A connection that is aborted where the head of a request does not come in time."""

    agent_socket: HandedSocket
    closed: Callable[[], None]
    _head_timer: asyncio.TimerHandle | None = None
    turns: ParserTurns
    _rest: bytes = b""
    _feeding: bool = False

    async def open(self, accepted: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self, accepted)

    def abort(self) -> None:
        transport: asyncio.Transport | None = self.transport  # None before it is made
        if transport is not None:
            transport.abort()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = b""
        self._stop_timer()
        super().connection_lost(exc)
        self.closed()

    @override
    def data_received(self, data: bytes) -> None:
        self._rest += data
        if not self._feeding:
            self.feed()
        if len(self._rest) > _REST_MOST:
            self.transport.pause_reading()

    def feed(self) -> None:
        """Parse one piece. The next one follows after the turns of other connections."""
        self._feeding = False
        piece, self._rest = self._rest[:_PIECE], self._rest[_PIECE:]
        self._parse(piece)
        if self._has_sized_body():
            piece, self._rest = self._rest, b""
            self._parse(piece)
        if self._is_in_request():
            self._stop_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._expect_head()
        self._feed_later()

    def _feed_later(self) -> None:
        if self.transport.is_closing():
            return
        if len(self._rest) <= _REST_MOST and not self.flow.read_paused:
            self.transport.resume_reading()
        if self._rest:
            self._feeding = True
            self.turns.add(self)

    def _parse(self, piece: bytes) -> None:
        """Parse a piece. A second protocol error during the answer to a first is not logged."""
        if not piece or self.transport.is_closing():  # no bytes are the end, to the parser
            return
        try:
            super().data_received(piece)
        except Exception:  # noqa: BLE001 - the parser answers some faults by one of its own
            self.transport.abort()

    def _is_in_request(self) -> bool:
        # None before the first request, whatever the class says.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _has_sized_body(self) -> bool:
        """Whether a body of known length is still arriving."""
        names = {name for name, _ in self.headers} if self._is_in_request() else set()
        return b"content-length" in names and self.cycle.more_body

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._abort_if_idle)

    def _abort_if_idle(self) -> None:
        self._head_timer = None
        if not self._is_in_request():
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def connection_config(app: Any) -> Config:  # noqa: ANN401 - an ASGI application
    config = Config(
        app, interface="asgi3", http=ModelConnection, ws="none", lifespan="off", log_config=None,
        log_level="error", access_log=False, server_header=False, date_header=False,
        proxy_headers=False, h11_max_incomplete_event_size=_HEAD_MOST,
        timeout_keep_alive=IDLE_SECONDS,
    )  # fmt: skip
    config.load()
    return config


def model_connections(app: Any, state: ServerState) -> ConnectionFactory:  # noqa: ANN401 - an ASGI application
    """How hive-model serves the sockets of agents: by this application."""
    config = connection_config(app)

    def new(agent_socket: HandedSocket) -> Callable[[], ModelConnection]:
        return partial(new_connection, config, state, agent_socket, ParserTurns())

    return ConnectionFactory(new, CONNECTIONS_MOST, state.tasks)


def new_connection(
    config: Config, state: ServerState, agent_socket: HandedSocket, turns: ParserTurns
) -> ModelConnection:
    """A connection of this agent; the caller sets what is called at its end."""
    connection = ModelConnection(
        config=config, server_state=state, app_state={"agent_socket": agent_socket}
    )
    connection.agent_socket, connection.turns = agent_socket, turns
    return connection
