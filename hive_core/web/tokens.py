"""Tokens of programs that call the HTTP API, and the connections to hived that each has."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from hive_core.errors import LimitReached, NotAllowed
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.web.request_limits import RequestBucket

STREAMS_OF_TOKEN: Final = 4
CALLS_OF_TOKEN: Final = 16  # at once, with its streams: login.sock has connections for all
STREAMS_MOST: Final = 400
_TOKENS_MOST: Final = 64  # that are remembered with idle connections
_IDLE_MOST: Final = 4  # connections of one token
_SECRET_MOST: Final = 128


@dataclass(slots=True, eq=False)
class TokenLogin:
    """One token: its connections that wait for a call, its requests and its streams."""

    idle: list[DaemonConnection] = field(default_factory=list)
    streams: int = 0
    requests: RequestBucket = field(default_factory=lambda: RequestBucket("token"))

    def close(self) -> None:
        for connection in self.idle:
            connection.close()
        self.idle.clear()


@dataclass(slots=True)
class TokenLogins:
    """Connections by token. hived alone knows which tokens are valid, and what each may do."""

    open_connection: Callable[[], Awaitable[DaemonConnection]]
    clock: Callable[[], float]
    streams: int = 0
    _logins: OrderedDict[bytes, TokenLogin] = field(default_factory=OrderedDict)
    # Calls and streams of each token, from before hived is asked whether it knows the token.
    _running: Counter[bytes] = field(default_factory=Counter)

    @asynccontextmanager
    async def connect(self, token: str, address: str) -> AsyncIterator[DaemonConnection]:
        """Lend a connection that is logged in with this token; it is reused for later calls.

        NotAllowed: hived knows no such token.
        """
        key = _key(token)
        login = self._logins.get(key) or TokenLogin()
        login.requests.count_request(self.clock())
        if self._running[key] >= CALLS_OF_TOKEN:
            raise LimitReached(
                f"limit of running calls of a token ({CALLS_OF_TOKEN}) reached", retry_after=1
            )
        self._running[key] += 1
        try:
            connection = _take_open(login.idle) or await self._open(token, address)
            login = self._remember(token, login)
            try:
                yield connection
            finally:
                self._give_back(token, login, connection)
        finally:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    @asynccontextmanager
    async def count_stream(self, token: str) -> AsyncIterator[None]:
        """Count a stream while it runs. LimitReached: there are as many as there may be."""
        login = self._remember(token, TokenLogin())
        if login.streams >= STREAMS_OF_TOKEN:
            raise LimitReached(
                f"limit of event streams of a token ({STREAMS_OF_TOKEN}) reached", retry_after=5
            )
        if self.streams >= STREAMS_MOST:
            raise LimitReached(f"limit of event streams ({STREAMS_MOST}) reached", retry_after=5)
        login.streams += 1
        self.streams += 1
        try:
            yield
        finally:
            login.streams -= 1
            self.streams -= 1

    def close(self) -> None:
        """Close what waits, at the end of the program."""
        for login in self._logins.values():
            login.close()
        self._logins.clear()

    async def _open(self, token: str, address: str) -> DaemonConnection:
        if not token.startswith("token_") or len(token) > _SECRET_MOST:
            raise NotAllowed("the token is not valid", rule="credential")
        connection = await self.open_connection()
        try:
            await connection.call("open_login", {"credential": token, "address": address})
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, token: str, login: TokenLogin, connection: DaemonConnection) -> None:
        is_known = self._logins.get(_key(token)) is login
        if connection.closed.is_set() or not is_known or len(login.idle) >= _IDLE_MOST:
            connection.close()
        else:
            login.idle.append(connection)

    def _remember(self, token: str, login: TokenLogin) -> TokenLogin:
        """What is remembered of a token that hived knows, so that no others push it out.

        The one that was used longest ago is forgotten first, but none that is in use.
        """
        login = self._logins.setdefault(_key(token), login)
        self._logins.move_to_end(_key(token))
        unused = [key for key in self._logins if key not in self._running]
        for oldest in unused[: max(0, len(self._logins) - _TOKENS_MOST)]:
            self._logins.pop(oldest).close()
        return self._logins.setdefault(_key(token), login)


def _key(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _take_open(idle: list[DaemonConnection]) -> DaemonConnection | None:
    """A connection that hived has not closed meanwhile."""
    while idle:
        connection = idle.pop()
        if not connection.closed.is_set():
            return connection
    return None
