"""`hive-agent forward`: loopback TCP ports that lead to Unix sockets, for programs that speak TCP.

One thread serves all connections. A connection ends for each side as it would end on the socket
itself: what one side has sent arrives before its end, and the other way stays open until then.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Never

from hive_core.errors import InvalidArgument, Unreachable

ABOUT: Final = "Forward loopback TCP ports to Unix sockets, each PORT=SOCKET."
HOST: Final = "127.0.0.1"
CONNECTIONS: Final = 128  # on each port; more wait until one ends
# Those above are of sub-agents, which have sockets of their own.
AGENT_USERS: Final = range(60_000)
_PORT_MOST: Final = 65_535
_BACKLOG: Final = 128
_CHUNK: Final = 1 << 16
_BUFFER: Final = 1 << 18
_DRAIN: Final = 5.0  # seconds that a client has to read an answer that came before its request
_ESTABLISHED: Final = Path("/proc/net/tcp")


@dataclass(frozen=True, slots=True)
class ForwardPair:
    """A port of 127.0.0.1 and the Unix socket that it leads to."""

    port: int
    socket: str

    @classmethod
    def parse(cls, text: str) -> ForwardPair:
        """Read `PORT=SOCKET`; InvalidArgument says what is wrong."""
        port, _, path = text.partition("=")
        if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _PORT_MOST):
            raise InvalidArgument(
                f"{text[:200]!r} has no port from 1 to {_PORT_MOST}", field="port"
            )
        if not path.startswith("/"):
            raise InvalidArgument(
                f"{text[:200]!r} has no absolute path of a socket", field="socket"
            )
        return cls(int(port), path)


MODEL: Final = ForwardPair(7001, "/run/hive/model.sock")


@dataclass(slots=True)
class OneWay:
    """What goes from one socket to the other.

    `ended`: no more comes; `done`: the end was passed on; `drops`: the reader has gone, so that
    what still comes is dropped.
    """

    source: socket.socket
    sink: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    ended: bool = False
    done: bool = False
    drops: bool = False

    @property
    def wants_more(self) -> bool:
        return not self.ended and len(self.buffer) < _BUFFER

    def read(self) -> None:
        """Take what is there, and pass it on."""
        try:
            data = self.source.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a reset is an end, too
        self.ended = not data
        if not self.drops:
            self.buffer += data
        self.write()

    def write(self) -> None:
        """Pass on what the sink takes, and then the end."""
        try:
            if self.buffer:
                del self.buffer[: self.sink.send(self.buffer)]
            if self.ended and not self.buffer and not self.done:
                self.done = True
                self.sink.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.drop()

    def drop(self) -> None:
        """The reader has gone."""
        self.drops = True
        self.buffer.clear()


class ForwardedConnection:
    """A client and the Unix socket, with both ways between them."""

    def __init__(self, port: PortListener, client: socket.socket, target: socket.socket) -> None:
        self.port = port
        self.client, self.target = client, target
        self.request = OneWay(client, target)
        self.answer = OneWay(target, client)
        self.ends_at = 0.0  # set while the rest of a request is dropped

    def on_event(self, sock: socket.socket, mask: int) -> None:
        """Read and write as far as it goes."""
        here, away = (
            (self.request, self.answer) if sock is self.client else (self.answer, self.request)
        )
        if mask & selectors.EVENT_WRITE:
            away.write()
        if mask & selectors.EVENT_READ:
            here.read()
        if self.answer.done and not self.ends_at:
            self._look_whether_target_reads()

    def interest(self, sock: socket.socket) -> int:
        """What to wait for on one of the two sockets."""
        here, away = (
            (self.request, self.answer) if sock is self.client else (self.answer, self.request)
        )
        reads = selectors.EVENT_READ if here.wants_more else 0
        return reads | (selectors.EVENT_WRITE if away.buffer else 0)

    def is_over(self, now: float) -> bool:
        """Whether both directions have ended."""
        if self.answer.drops:
            return True
        if not self.answer.done:
            return False
        return self.request.done or (
            self.request.drops and (self.request.ended or now >= self.ends_at)
        )

    def close(self) -> None:
        self.client.close()
        self.target.close()

    def _look_whether_target_reads(self) -> None:
        """After its answer the target may have closed; then the rest of a request is dropped."""
        if not self.request.drops:
            try:
                self.target.send(b"")  # fails where the other end was closed
            except BlockingIOError:
                return
            except OSError:
                self.request.drop()
        if self.request.drops:
            self.ends_at = time.monotonic() + _DRAIN


class PortListener:
    """One port: it takes connections up to a number, and then again when one has ended."""

    def __init__(self, pair: ForwardPair, most: int, users: range) -> None:
        self.pair = pair
        self.most = most
        self._users = users
        self.open = 0
        self._failed = False
        try:
            self.socket = socket.create_server((HOST, pair.port), backlog=_BACKLOG)
        except OSError as error:
            raise Unreachable(f"cannot listen on {HOST}:{pair.port}: {error.strerror}") from None
        self.socket.settimeout(0)

    @property
    def is_full(self) -> bool:
        return self.open >= self.most

    def accept(self) -> ForwardedConnection | None:
        """Take a connection; None where it goes no further."""
        try:
            client, address = self.socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        uid = client_uid(address, self.socket.getsockname())
        target = self._connect() if uid in self._users else None
        if target is None:
            client.close()
            return None
        client.settimeout(0)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.open += 1
        return ForwardedConnection(self, client, target)

    def _connect(self) -> socket.socket | None:
        target = socket.socket(socket.AF_UNIX)
        target.settimeout(0)
        try:
            target.connect(self.pair.socket)
        except OSError as error:
            target.close()
            if not self._failed:
                _say(f"cannot connect to {self.pair.socket}: {error.strerror}")
            self._failed = True
            return None
        self._failed = False
        return target


class ForwardServer:
    """All ports and connections of one process, for these `users` of the container."""

    def __init__(
        self, pairs: Sequence[ForwardPair], most: int = CONNECTIONS, users: range = AGENT_USERS
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._open: set[ForwardedConnection] = set()
        self.ports = [PortListener(pair, most, users) for pair in pairs]
        for port in self.ports:
            self._watch(port.socket, selectors.EVENT_READ, port)

    def run(self) -> Never:
        """Serve until the process ends."""
        while True:
            self.step()

    def watch_input(self) -> None:
        """End the process when standard input ends: its parent has ended then."""
        self._selector.register(sys.stdin, selectors.EVENT_READ, None)

    def step(self) -> None:
        """Wait for the next events, and handle them."""
        for key, mask in self._selector.select(self._patience()):
            owner, sock = key.data, key.fileobj
            if owner is None and not os.read(key.fd, _CHUNK):
                sys.exit(0)
            if isinstance(owner, PortListener):
                self._accept(owner)
            elif owner in self._open and isinstance(sock, socket.socket):
                owner.on_event(sock, mask)
                self._settle(owner)
        for connection in [row for row in self._open if row.ends_at]:
            self._settle(connection)

    def _patience(self) -> float | None:
        ends = [row.ends_at for row in self._open if row.ends_at]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _accept(self, port: PortListener) -> None:
        connection = port.accept()
        if connection is None:
            return
        self._open.add(connection)
        self._settle(connection)
        if port.is_full:
            self._watch(port.socket, 0, port)

    def _settle(self, connection: ForwardedConnection) -> None:
        """Wait for what can come next, or close."""
        over = connection.is_over(time.monotonic())
        for sock in (connection.client, connection.target):
            self._watch(sock, 0 if over else connection.interest(sock), connection)
        if over:
            connection.close()
            self._open.discard(connection)
            connection.port.open -= 1
            self._watch(connection.port.socket, selectors.EVENT_READ, connection.port)

    def _watch(self, sock: socket.socket, mask: int, owner: object) -> None:
        present = self._selector.get_map().get(sock)
        if present is None and mask:
            self._selector.register(sock, mask, owner)
        elif present is not None and not mask:
            self._selector.unregister(sock)
        elif present is not None and present.events != mask:
            self._selector.modify(sock, mask, owner)


def client_uid(client: tuple[str, int], port: tuple[str, int]) -> int | None:
    """The user of a client's end of a connection; None if no process has it now."""
    own, other = _row_address(*client), _row_address(*port)
    with suppress(OSError):
        for line in _ESTABLISHED.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[1] == own and fields[2] == other and fields[9] != "0":
                return int(fields[7])
    return None


def _row_address(host: str, port: int) -> str:
    """An address as /proc/net/tcp writes it."""
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"


def run_forward(_path: str, arguments: Sequence[str]) -> Never:
    """Run the command; a line on standard output says when all ports listen."""
    parser = argparse.ArgumentParser("hive-agent forward", description=ABOUT)
    parser.add_argument(
        "pairs", nargs="*", metavar="PORT=SOCKET",
        help=f"a port of {HOST} and a Unix socket (default {MODEL.port}={MODEL.socket})",
    )  # fmt: skip
    parser.add_argument(
        "--until-eof", action="store_true",
        help="end when standard input ends (default: serve until the process is ended)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    pairs = [ForwardPair.parse(text) for text in options.pairs] or [MODEL]
    server = ForwardServer(pairs)
    if options.until_eof:
        server.watch_input()
    for pair in pairs:
        sys.stdout.write(f"forwarding {HOST}:{pair.port} to {pair.socket}\n")
    sys.stdout.flush()
    server.run()


def _say(text: str) -> None:
    sys.stderr.write(f"hive-agent forward: {text}\n")
    sys.stderr.flush()
