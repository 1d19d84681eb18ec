"""Calls over real sockets: the whole request road against a bare echo with the same framing.

The server is a process of its own and the load comes from this one, so both cores work. Sends are
durable: each is on disk (in /var/tmp) before its reply leaves.
"""

import asyncio
import os
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from uuid import UUID

from typing_extensions import override

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 3.0
AGENTS = 100
WHOAMI = b'{"method":"org.hive.Broker.Whoami","parameters":{}}\0'
SEND = b'{"method":"org.hive.Broker.Send","parameters":{"to":"a%d","body":"How is the build?"}}\0'


def run() -> list[dict[str, object]]:
    rows = []
    with serving("hive") as hive, serving("echo") as echo:
        for name, load in LOADS.items():
            value, peer = load.rate(hive), load.rate(echo)
            rows.append({
                "name": name, "value": value, "unit": "calls/s", "peer": "bare echo",
                "peer_value": peer, "ratio": value / peer,
            })  # fmt: skip
    return rows


@dataclass(frozen=True)
class Load:
    """So many connections, each with `depth` calls under way; agent number -> its call."""

    connections: int
    depth: int
    call: Callable[[int], bytes]

    def rate(self, folder: Path) -> float:
        """Replies a second. An error among them is a fault of the benchmark."""
        lines = [Line(folder, number % AGENTS, self) for number in range(self.connections)]
        done, start = 0, time.perf_counter()
        with selectors.DefaultSelector() as ready:
            for line in lines:
                ready.register(line.socket, selectors.EVENT_READ, line)
                line.ask()
            while time.perf_counter() - start < SECONDS:
                done += sum(key.data.take() for key, _ in ready.select(1))
        for line in lines:
            line.socket.close()
        return done / (time.perf_counter() - start)


class Line:
    """One connection of one agent."""

    def __init__(self, folder: Path, number: int, load: Load) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(folder / f"a{number}.sock"))
        self.left = 0
        self._batch, self._depth = load.call(number) * load.depth, load.depth

    def ask(self) -> None:
        self.socket.sendall(self._batch)
        self.left = self._depth

    def take(self) -> int:
        data = self.socket.recv(1 << 20)
        assert data, "the server closed the connection"
        assert b'"error"' not in data, data[:200]
        found = data.count(b"\0")
        self.left -= found
        if self.left == 0:
            self.ask()
        return found


def whoami(_: int) -> bytes:
    return WHOAMI


def send(number: int) -> bytes:
    return SEND % ((number + 1) % AGENTS)


LOADS = {
    "whoami, 50 connections, 50 under way on each": Load(50, 50, whoami),
    "whoami, 50 connections, one at a time": Load(50, 1, whoami),
    "whoami, one connection, one at a time": Load(1, 1, whoami),
    "durable send, 100 senders, one at a time": Load(100, 1, send),
    "durable send, 100 senders, 10 under way": Load(100, 10, send),
    "durable send, one sender, one at a time": Load(1, 1, send),
}


@contextmanager
def serving(kind: str) -> Iterator[Path]:
    """A server of this kind, ready."""
    folder = Path(mkdtemp(dir="/var/tmp"))
    argv = [sys.executable, __file__, kind, str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(folder)


async def hive(folder: Path) -> None:
    """The real thing: broker, ledger and registry, and a hundred sockets."""
    from broker.house import SlowReads, open_house  # noqa: PLC0415 - the echo must not pay for it

    from hive_core.host.sockets import Sockets  # noqa: PLC0415
    from hive_core.model.agent import AgentSpec  # noqa: PLC0415
    from hive_core.model.settings import Bounds, Settings  # noqa: PLC0415
    from hive_core.operations import load  # noqa: PLC0415

    limits = Bounds(
        inbox_count=10**8, inbox_bytes=10**12, send_rate=10**9, send_burst=10**9,
        change_rate=10**9, change_burst=10**9,
    )  # fmt: skip
    with open_house(folder, load(), Settings(limits=limits)) as house:
        tree = house.hive
        for number in range(AGENTS):
            tree = tree.with_agent(f"a{number}", "root", AgentSpec(uuid=UUID(int=number + 1 << 96)))
        house.broker.hive = tree
        sockets = Sockets(house.broker, SlowReads(), lambda _: os._exit(1))
        for number in range(AGENTS):
            name = f"a{number}"
            await sockets.listen(tree.specs[name].id, folder / f"{name}.sock", 0)
        await forever()


async def echo(folder: Path) -> None:
    """Cuts frames, decodes them and says the same to each: what no Varlink service can undercut."""
    from hive_core.varlink import FrameReader, decode  # noqa: PLC0415

    said = b'{"parameters":{"name":"a1","uuid":"00000000-0000-0000-0000-000000000000"}}\0'

    class Echo(asyncio.Protocol):
        def __init__(self) -> None:
            self.reader = FrameReader()
            self.transport: asyncio.BaseTransport | None = None

        @override
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        @override
        def data_received(self, data: bytes) -> None:
            assert isinstance(self.transport, asyncio.Transport)
            frames = self.reader.feed(data)
            self.transport.write(b"".join(said for frame in frames if decode(frame)))

    loop = asyncio.get_running_loop()
    for number in range(AGENTS):
        await loop.create_unix_server(Echo, str(folder / f"a{number}.sock"))
    await forever()


async def forever() -> None:
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run({"hive": hive, "echo": echo}[sys.argv[1]](Path(sys.argv[2])))
