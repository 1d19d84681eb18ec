"""The listening sockets of agents: hived makes them and hands them over, a service serves them.

Both keep the descriptor, so connections queue while either restarts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from hive_core.services.packets import (
    PACKET_MOST,
    HandedSocket,
    SocketGone,
    SocketsSynced,
    parse_packet,
)

log = logging.getLogger(__name__)
# At once and in a second, so that many connections here do not delay other sockets.
_ACCEPT_MOST: Final = 8
_ACCEPTS_A_SECOND: Final = 100
_PEER: Final = struct.Struct("3i")
_DESCRIPTORS: Final = 4
_WAIT: Final = 0.5
_FIELD: Final = 1 << 32


def peer_uid(connection: socket.socket) -> int:
    """The uid of the client, which the kernel recorded when it connected."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(data)[1]) % _FIELD


class HandedConnection(Protocol):
    """An accepted connection. At its end it calls `closed`, which the listener sets."""

    closed: Callable[[], None]

    async def open(self, accepted: socket.socket) -> None: ...
    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ConnectionFactory:
    """How a service serves: a connection for each client, `most` of one socket at once.

    `new` returns what makes the connections of one socket. More than `most` wait in its queue.
    """

    new: Callable[[HandedSocket], Callable[[], HandedConnection]]
    most: int
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class HandedListener:
    """Accepts the connections of one socket."""

    agent_socket: HandedSocket
    listening: socket.socket
    factory: ConnectionFactory
    admits: Callable[[HandedSocket, int], bool] = HandedSocket.admits
    connections: set[HandedConnection] = field(default_factory=set)
    _new_connection: Callable[[], HandedConnection] = field(init=False)
    _accepting: bool = False
    _accepted: int = 0
    _second: float = 0.0

    def start(self) -> None:
        self._new_connection = self.factory.new(self.agent_socket)
        self.listening.settimeout(0)
        self._resume()

    def _resume(self) -> None:
        if not self._accepting and self.listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self.listening.fileno(), self._accept)
            self._accepting = True

    def _pause(self) -> None:
        if self._accepting:
            asyncio.get_running_loop().remove_reader(self.listening.fileno())
            self._accepting = False

    def _pause_for(self, seconds: float) -> None:
        self._pause()
        asyncio.get_running_loop().call_later(seconds, self._resume)

    def _is_in_pace(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._second >= 1.0:
            self._second, self._accepted = now, 0
        self._accepted += 1
        return self._accepted <= _ACCEPTS_A_SECOND

    def _accept(self) -> None:
        for _ in range(_ACCEPT_MOST):
            if len(self.connections) >= self.factory.most:
                self._pause()
                return
            if not self._is_in_pace():
                self._pause_for(1.0)
                return
            try:
                accepted, _ = self.listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:  # no descriptors are left: another try when one is
                log.warning("Cannot accept a connection of %s: %s", self.agent_socket.name, error)
                self._pause_for(_WAIT)
                return
            self._serve(accepted)

    def _serve(self, accepted: socket.socket) -> None:
        uid = peer_uid(accepted)
        if not self.admits(self.agent_socket, uid):
            log.warning(
                "Refused a client with uid %s on the socket of %s", uid, self.agent_socket.name
            )
            accepted.close()
            return
        accepted.settimeout(0)
        connection = self._new_connection()
        connection.closed = partial(self._remove_connection, connection)
        self.connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._open(connection, accepted))
        self.factory.tasks.add(task)  # so that it is not forgotten before it is done
        task.add_done_callback(self.factory.tasks.discard)

    async def _open(self, connection: HandedConnection, accepted: socket.socket) -> None:
        try:
            await connection.open(accepted)
        except OSError:
            accepted.close()
            self._remove_connection(connection)

    def _remove_connection(self, connection: HandedConnection) -> None:
        was_full = len(self.connections) >= self.factory.most
        self.connections.discard(connection)
        if was_full:
            self._resume()

    def stop(self, *, abort: bool) -> None:
        """Stop accepting; `abort` also ends the connections that there are."""
        self._pause()
        self.listening.close()
        if abort:
            for connection in list(self.connections):
                connection.abort()


@dataclass(slots=True)
class Listeners:
    """All sockets, by agent and sub-agent."""

    factory: ConnectionFactory
    _listeners: dict[tuple[str, str], HandedListener] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def agents(self) -> set[str]:
        return {agent for agent, _ in self._listeners}

    def add(self, agent_socket: HandedSocket, descriptor: int) -> None:
        """Serve this socket. ValueError: it does not listen, or is of another kind."""
        listening = listening_socket(descriptor)
        before = self._listeners.get(agent_socket.key)
        if (
            before is not None
            and before.agent_socket == agent_socket
            and _is_same(before.listening, listening)
        ):
            listening.close()
            return
        if before is not None:
            before.stop(abort=before.agent_socket != agent_socket)
        listener = HandedListener(agent_socket, listening, self.factory)
        self._listeners[agent_socket.key] = listener
        listener.start()

    def remove(self, key: tuple[str, str]) -> None:
        if listener := self._listeners.pop(key, None):
            listener.stop(abort=True)

    def keep_only(self, keys: set[tuple[str, str]]) -> None:
        for key in self._listeners.keys() - keys:
            self.remove(key)

    def close(self, *, abort: bool = False) -> None:
        for listener in self._listeners.values():
            listener.stop(abort=abort)
        self._listeners.clear()


def listening_socket(descriptor: int) -> socket.socket:
    """Wrap the descriptor as a socket, which owns it. ValueError: the descriptor was closed."""
    try:
        received = socket.socket(fileno=descriptor)
    except OSError as error:
        os.close(descriptor)
        raise ValueError("the descriptor is not a socket") from error
    is_stream = received.family == socket.AF_UNIX and received.type == socket.SOCK_STREAM
    if not is_stream or not received.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        received.close()
        raise ValueError("the descriptor is not a listening Unix stream socket")
    return received


def _is_same(one: socket.socket, other: socket.socket) -> bool:
    return os.fstat(one.fileno()).st_ino == os.fstat(other.fileno()).st_ino


@dataclass(slots=True)
class HandoverClient:
    """Receives sockets from hived, and connects again when hived restarts."""

    path: Path
    listeners: Listeners

    async def run(self) -> None:
        while True:
            try:
                with _hand_connection(self.path) as connection:
                    await self._receive(connection)
            except (OSError, ValueError) as error:
                log.debug("Cannot receive sockets from hived: %s", error)
            await asyncio.sleep(_WAIT)

    async def _receive(self, connection: socket.socket) -> None:
        """Receive sockets until hived closes; then drop sockets that it did not send again."""
        keys: set[tuple[str, str]] | None = set()
        while data := await _packet(connection):
            packet, descriptors = data
            message = self._take(packet, descriptors)
            match message:
                case SocketsSynced() if keys is not None:
                    self.listeners.keep_only(keys)
                    keys = None
                case HandedSocket() if keys is not None:
                    keys.add(message.key)
                case _:
                    pass

    def _take(self, packet: bytes, descriptors: list[int]) -> object:
        try:
            message = parse_packet(packet)
            if isinstance(message, SocketGone):
                self.listeners.remove((message.agent, message.sub))
            if isinstance(message, HandedSocket) and descriptors:
                self.listeners.add(message, descriptors.pop(0))
        except ValueError as error:
            log.warning("Cannot use a packet of hived: %s", error)
            return None
        else:
            return message
        finally:
            for descriptor in descriptors:
                with suppress(OSError):
                    os.close(descriptor)


@contextmanager
def _hand_connection(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(0)
        connection.connect(str(path))  # does not wait on a Unix socket
        yield connection


async def _packet(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    """The next packet and its descriptors; None at the end."""
    await _readable(connection)
    data, descriptors, flags, _ = socket.recv_fds(connection, PACKET_MOST, _DESCRIPTORS)
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        data = b"too large"
    return (data, descriptors) if data else None


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(connection.fileno(), wake)
    try:
        await ready
    finally:
        loop.remove_reader(connection.fileno())
