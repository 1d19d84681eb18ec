"""Logins of browsers. hived knows them; this keeps what the requests of an active one share."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError, InvalidArgument, LimitReached, NotAllowed, Unreachable
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.varlink import Message
from hive_core.web.request_limits import RequestBucket

log = logging.getLogger(__name__)
LOGINS_A_MINUTE: Final = 5
LOGINS_MOST: Final = 256
STREAMS_OF_LOGIN: Final = 4
STREAMS_MOST: Final = 400
_ADDRESSES_MOST: Final = 1024
_MINUTE: Final = 60.0
_RETRY: Final = 0.5
_SECRET_MOST: Final = 512


@dataclass(slots=True, eq=False)
class BrowserLogin:
    """One login: its account and scopes, and its connection to hived, on which it is the operator.

    `streams` holds what ends each of its event streams.
    """

    secret: str
    account: str
    scopes: frozenset[str]
    facts: Message
    connection: DaemonConnection
    streams: set[Callable[[], None]] = field(default_factory=set)
    is_ended: bool = False
    requests: RequestBucket = field(default_factory=lambda: RequestBucket("login"))
    noted: float = -inf  # when hived was last told that its person uses it

    def may(self, scope: str) -> bool:
        return scope in self.scopes

    def end_streams(self) -> None:
        for end in list(self.streams):
            end()


@dataclass(slots=True)
class Logins:
    """All logins that are active here. `clock` returns monotonic seconds."""

    socket: Path
    clock: Callable[[], float]
    _logins: OrderedDict[bytes, BrowserLogin] = field(default_factory=OrderedDict)
    _tries: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    _opening: dict[bytes, asyncio.Task[BrowserLogin]] = field(default_factory=dict)
    _watching: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def streams(self) -> int:
        return sum(len(login.streams) for login in self._logins.values())

    def any(self) -> BrowserLogin | None:
        """The most recently used login; shared streams are read on its behalf."""
        return next(reversed(self._logins.values()), None)

    async def open(self, parameters: Message, address: str) -> BrowserLogin:
        """Log in by a link or a passkey. NotAllowed: hived refuses it."""
        self._count_try(address)
        connection = await DaemonConnection.open(self.socket)
        try:
            facts = await connection.call("open_login", {**parameters, "address": address})
        except HiveError:
            connection.close()
            raise
        secret = facts.get("credential")
        if not isinstance(secret, str) or not secret:
            connection.close()
            raise NotAllowed("this credential is not for browsers", rule="credential")
        return self._add(secret, facts, connection)

    async def find(self, secret: str | None) -> BrowserLogin | None:
        """The login of a cookie; None where hived does not know it."""
        if not secret or len(secret) > _SECRET_MOST or not secret.startswith("login_"):
            return None
        key = _key(secret)
        login = self._logins.get(key)
        if login is not None and not login.connection.closed.is_set():
            self._logins.move_to_end(key)
            return login
        task = self._opening.get(key) or asyncio.create_task(self._open_again(secret))
        self._opening[key] = task
        task.add_done_callback(lambda _: self._opening.pop(key, None))
        try:
            return await asyncio.shield(task)
        except (NotAllowed, LimitReached):  # a secret that hived knows is never limited
            return None

    async def note_use(self, login: BrowserLogin) -> None:
        """Tell hived, once a minute, that a person uses the login: hived ends an idle one."""
        now = self.clock()
        if now - login.noted < _MINUTE:
            return
        with suppress(HiveError):  # what the request asks for fails as well, and says why
            await login.connection.call("use_login")
            login.noted = now

    async def close(self, login: BrowserLogin) -> None:
        """End the login at hived too, so that its cookie is worthless.

        Unreachable: hived did not end the login, so the caller must not say that it did.
        """
        with suppress(NotAllowed):  # hived has ended it already
            await login.connection.call("close_login")
        self.forget(login)

    def forget(self, login: BrowserLogin) -> None:
        login.is_ended = True
        login.end_streams()
        login.connection.close()
        self._logins.pop(_key(login.secret), None)

    def close_all(self) -> None:
        """Close all connections at the end of the program; the logins stay valid at hived."""
        for login in list(self._logins.values()):
            self.forget(login)

    async def open_stream_connection(self, login: BrowserLogin) -> DaemonConnection:
        """Open a further connection on behalf of the login, for a stream that all pages share."""
        connection = await DaemonConnection.open(self.socket)
        try:
            await connection.call("open_login", {"credential": login.secret})
        except HiveError:
            connection.close()
            raise
        return connection

    def check_stream(self, login: BrowserLogin) -> None:
        """Raise LimitReached if the login or the program has its maximum of streams."""
        if len(login.streams) >= STREAMS_OF_LOGIN:
            raise LimitReached(
                f"limit of event streams of a login ({STREAMS_OF_LOGIN}) reached", retry_after=5
            )
        if self.streams >= STREAMS_MOST:
            raise LimitReached(f"limit of event streams ({STREAMS_MOST}) reached", retry_after=5)

    async def _open_again(self, secret: str) -> BrowserLogin:
        connection = await DaemonConnection.open(self.socket)
        try:
            facts = await connection.call("open_login", {"credential": secret})
        except HiveError as error:
            connection.close()
            before = self._logins.get(_key(secret))
            # A hived that went away meanwhile has said nothing about the login.
            is_said = not isinstance(error, Unreachable)
            if is_said and before is not None and before.connection.closed.is_set():
                self.forget(before)
            raise
        return self._add(secret, facts, connection)

    def _add(self, secret: str, facts: Message, connection: DaemonConnection) -> BrowserLogin:
        scopes = facts.get("scopes")
        named = frozenset(map(str, scopes)) if isinstance(scopes, list) else frozenset[str]()
        login = self._logins.get(_key(secret))
        if login is None:
            login = BrowserLogin(secret, str(facts.get("account")), named, facts, connection)
            self._logins[_key(secret)] = login
        else:
            login.connection, login.scopes, login.facts = connection, named, facts
        task = asyncio.create_task(self._watch(login, connection))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        while len(self._logins) > LOGINS_MOST:
            self.forget(next(iter(self._logins.values())))
        return login

    async def _watch(self, login: BrowserLogin, connection: DaemonConnection) -> None:
        """Wait until hived closes the connection; reconnect unless the login has ended."""
        await connection.closed.wait()
        while login.connection is connection and not login.is_ended:
            try:
                await self.find(login.secret)
            except HiveError:
                await asyncio.sleep(_RETRY)
            else:
                return

    def _count_try(self, address: str) -> None:
        now = self.clock()
        tries = [at for at in self._tries.pop(address, []) if now - at < _MINUTE]
        self._tries[address] = tries
        if len(self._tries) > _ADDRESSES_MOST:
            self._tries.popitem(last=False)
        if len(tries) >= LOGINS_A_MINUTE:
            wait = max(1, round(_MINUTE - (now - tries[0])))
            raise LimitReached(
                f"limit of logins a minute from an address ({LOGINS_A_MINUTE}) reached",
                retry_after=wait,
            )
        tries.append(now)


def check_secret(text: str) -> str:
    """The secret of a link, given as such or as the whole link."""
    secret = text.strip().rpartition("#")[2]
    if not secret.startswith("link_") or len(secret) > _SECRET_MOST or not secret.isascii():
        raise InvalidArgument(
            "this is not a login link: it has to end with #link_...", field="secret"
        )
    return secret


def _key(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
