"""Calls of a service on login.sock, with a token, over a connection that is made again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.services.daemon_connection import DaemonConnection
from hive_core.varlink import Message

_ANSWER: Final = 10.0


class LoginConnection:
    """Calls with the token that `hive setup` made."""

    def __init__(self, socket: Path, token: str) -> None:
        self._socket, self._token = socket, token
        self._connection: DaemonConnection | None = None

    async def call(self, operation: str, parameters: Message) -> Message:
        """One call; a connection that breaks or is silent is closed and made again by the next."""
        connection = self._connection
        if connection is None or connection.closed.is_set():
            connection = await self._open()
        return await connection.call(operation, parameters, _ANSWER)

    async def end(self) -> None:
        """Close the connection, and wait until it is closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with suppress(OSError):
                await connection.writer.wait_closed()

    async def _open(self) -> DaemonConnection:
        connection = await DaemonConnection.open(self._socket)
        try:
            await connection.call("open_login", {"credential": self._token}, _ANSWER)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection
