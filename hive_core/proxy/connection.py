"""An HTTP connection of an agent, with limits on time and on the work that its bytes make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from hive_core.proxy.doors import ModelDoor

HEAD_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30
_HEAD_MOST: Final = 32 << 10
# The parser works through all bytes that it gets at once. Chunks of one byte are much work, so a
# head, and a body in chunks, are parsed in pieces, and other connections are served in between.
_PIECE: Final = 4096


class ModelConnection(H11Protocol):
    """A connection that is aborted where the head of a request does not come in time."""

    door: ModelDoor
    closed: Callable[[ModelConnection], None]
    _head_timer: asyncio.TimerHandle | None = None
    _rest: bytes = b""
    _feeding: bool = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = b""
        self._stop_timer()
        super().connection_lost(exc)
        self.closed(self)

    @override
    def data_received(self, data: bytes) -> None:
        self._rest += data
        if not self._feeding:
            self._feed()

    def _feed(self) -> None:
        self._feeding = False
        size = len(self._rest) if self._has_sized_body() else _PIECE
        piece, self._rest = self._rest[:size], self._rest[size:]
        self._parse(piece)
        if self._is_in_request():
            self._stop_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._expect_head()
        if self._rest and not self.transport.is_closing():
            self._feeding = True
            self.loop.call_soon(self._feed)

    def _parse(self, piece: bytes) -> None:
        """Parse a piece. A second protocol error during the answer to a first is not logged."""
        try:
            super().data_received(piece)
        except Exception:  # noqa: BLE001 - the parser answers some faults by one of its own
            self.transport.abort()

    def _is_in_request(self) -> bool:
        # None before the first request, whatever the class says.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _has_sized_body(self) -> bool:
        """Whether the rest of a body comes whose length is known."""
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


def new_connection(
    config: Config, state: ServerState, door: ModelDoor, closed: Callable[[ModelConnection], None]
) -> ModelConnection:
    connection = ModelConnection(config=config, server_state=state, app_state={"door": door})
    connection.door, connection.closed = door, closed
    return connection
