"""The real broker behind real sockets, one for each agent, for programs that a test starts.

The test's thread serves: `serve_until` answers calls, and the broker's clock follows the real one.
"""

from __future__ import annotations

import os
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fixtures.command_forks import ForkedCommand, command_forks
from fixtures.world import Exchange, World

from hive_core.errors import HIVE
from hive_core.varlink import FrameReader, Message, decode, encode

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "hive_core/agent/python"
_TICK = 0.02
T = TypeVar("T")


@dataclass
class _Connection:
    party: str
    socket: socket.socket
    reader: FrameReader = field(default_factory=FrameReader)
    calls: list[Message] = field(default_factory=list)
    exchange: Exchange | None = None


class BrokerServer:
    """Sockets of a world's agents, and the programs that run behind them."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.processes: list[subprocess.Popen[str] | ForkedCommand] = []
        self.on_subagent: Callable[[Path], object] = lambda _: None  # with the folder of its socket
        self._selector = selectors.DefaultSelector()
        self._connections: list[_Connection] = []
        self._parties: set[str] = set()

    def socket_of(self, agent: str) -> str:
        """The path of an agent's socket, which listens from now on."""
        path = self.folder / f"{agent}.sock"
        if not path.exists():
            self._listen(path, self.world.uuid(agent))
        return str(path)

    def _open_subagent_sockets(self) -> None:
        """Listen for the sub-agents that the broker has opened."""
        for party in self.world.reads.sockets.listening.keys() - self._parties:
            self._parties.add(party)
            folder = self.folder / "sub" / party.partition("/")[2]
            folder.mkdir(parents=True)
            self._listen(folder / "broker.sock", party)
            self.on_subagent(folder)

    def _listen(self, path: Path, party: str) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        self._selector.register(listener, selectors.EVENT_READ, party)

    def start(
        self, agent: str, command: Sequence[str], *descriptors: int, **environment: str
    ) -> None:
        """Run a program as an agent: with its socket, its name and the Python client."""
        base = {
            "PATH": os.environ["PATH"], "HIVE_SOCKET": self.socket_of(agent), "HIVE_NAME": agent,
            "PYTHONPATH": str(CLIENT),
        }  # fmt: skip
        environment = {**base, **environment}
        if command[0] == "hive-agent":
            forks = command_forks("hive_core.agent.main", "hive_core.agent.session.main")
            self.processes.append(ForkedCommand(forks, command, environment, descriptors))
            return
        self.processes.append(
            subprocess.Popen(
                [sys.executable if word == "python3" else word for word in command],
                env=environment, text=True, stderr=subprocess.PIPE, pass_fds=descriptors,
            )
        )  # fmt: skip

    def serve_until(self, result: Callable[[], T], seconds: float = 20.0) -> T:
        """Serve until `result` returns something, and return that."""
        gives_up = time.monotonic() + seconds
        before = time.monotonic()
        self.answer_all()
        while not (value := result()):
            assert time.monotonic() < gives_up, self._failures() or "nothing came of it in time"
            self._open_subagent_sockets()
            for key, _ in self._selector.select(_TICK):
                self._read(key.fileobj, key.data)
            now = time.monotonic()
            self.world.advance(now - before)
            before = now
            self.answer_all()
        return value

    def answer_all(self) -> None:
        """Send what was answered, and begin the calls that have arrived."""
        for connection in self._connections:
            while self._answer(connection):
                pass

    @property
    def waiting(self) -> int:
        """How many calls the broker has not answered yet."""
        return sum(connection.exchange is not None for connection in self._connections)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _failures(self) -> str:
        failed = [process for process in self.processes if process.poll() is not None]
        return "\n".join(process.communicate()[1] for process in failed)

    def _read(self, source: object, data: object) -> None:
        assert isinstance(source, socket.socket)
        if isinstance(data, str):
            made = _Connection(data, source.accept()[0])
            self._connections.append(made)
            self._selector.register(made.socket, selectors.EVENT_READ, made)
            return
        assert isinstance(data, _Connection)
        try:
            received = source.recv(1 << 16)
        except ConnectionResetError:  # it was killed with an answer unread
            received = b""
        if received:
            data.calls += map(decode, data.reader.feed(received))
        else:
            self._drop(data)

    def _drop(self, connection: _Connection) -> None:
        if connection.exchange is not None:
            connection.exchange.close()
        self._selector.unregister(connection.socket)
        self._connections.remove(connection)
        connection.socket.close()

    def _answer(self, connection: _Connection) -> bool:
        """Begin the next call when none is under way, and send what was answered.

        Return whether one more call can begin.
        """
        if connection.exchange is None and connection.calls:
            call = connection.calls.pop(0)
            name = str(call["method"]).removeprefix(HIVE)
            operation = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
            params = call.get("parameters", {})
            assert isinstance(params, dict)
            begun = self.world.ask_as(connection.party, operation, params)
            if call.get("oneway"):
                return bool(connection.calls)
            connection.exchange = begun
        exchange = connection.exchange
        if exchange is None or exchange.pending:
            return False
        connection.exchange = None
        with suppress(BrokenPipeError):
            connection.socket.sendall(b"".join(map(encode, exchange.replies)))
        return bool(connection.calls)


@contextmanager
def broker_server(world: World, folder: Path) -> Iterator[BrokerServer]:
    server = BrokerServer(world, folder)
    try:
        yield server
    finally:
        server.close()
