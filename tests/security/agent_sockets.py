"""The real sockets before a whole hive, and the connections of an agent that means no good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fixtures.world import World

from hive_core import varlink
from hive_core.errors import HIVE
from hive_core.host.sockets.connection import PATIENCE, PeerTimeouts
from hive_core.host.sockets.listener import Listener
from hive_core.host.sockets.server import SocketServer


class AgentClient:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @property
    def transport(self) -> asyncio.Transport:
        result = self.writer.transport
        assert isinstance(result, asyncio.Transport)
        return result

    async def call(self, method: str, **parameters: object) -> varlink.Message:
        self.send(method, **parameters)
        return await self.reply()

    def send(self, method: str, /, **parameters: object) -> None:
        self.writer.write(varlink.encode({"method": HIVE + method, "parameters": parameters}))

    async def reply(self) -> varlink.Message:
        frame = await asyncio.wait_for(self.reader.readuntil(b"\0"), 20)
        return varlink.decode(frame[:-1])

    async def has_ended(self) -> bool:
        try:
            while await asyncio.wait_for(self.reader.read(1 << 20), 20):
                pass
        except ConnectionError:
            pass
        return True


class AgentSockets:
    """Every agent of a world is listened to; peers may have any uid."""

    def __init__(self, world: World, folder: Path, patience: PeerTimeouts) -> None:
        self.world, self.folder = world, folder
        self.faults: list[BaseException] = []
        self.sockets = SocketServer(
            world.broker, world.reads, self.faults.append, patience=patience
        )

    async def open(self) -> None:
        for name, spec in self.world.hive.specs.items():
            await self.sockets.listen(spec.id, self.folder / name, 0)
        await self.sockets.listen_operator(self.folder / "operator")

    def listener(self, name: str) -> Listener:
        return self.sockets._listeners[self.world.uuid(name)]

    def held_bytes(self, name: str) -> tuple[int, int]:
        """Bytes of an agent's in hived's memory: not answered yet, and not read by it yet."""
        connections = self.listener(name).connections
        out = sum(
            connection.transport.get_write_buffer_size()
            for connection in connections
            if connection.transport
        )
        return sum(connection.unread for connection in connections), out

    @asynccontextmanager
    async def dial(self, name: str) -> AsyncIterator[AgentClient]:
        # A reader that takes little: what it has not read stays in the socket.
        reader, writer = await asyncio.open_unix_connection(self.folder / name, limit=1 << 21)
        try:
            yield AgentClient(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def dial_many(self, stack: AsyncExitStack, name: str, count: int) -> list[AgentClient]:
        return [await stack.enter_async_context(self.dial(name)) for _ in range(count)]


def run_with_sockets(
    world: World, main: Callable[[AgentSockets], Awaitable[None]], patience: PeerTimeouts = PATIENCE
) -> None:
    """Run an attack in the world's own loop."""

    async def run_opened(folder: Path) -> None:
        sockets = AgentSockets(world, folder, patience)
        await sockets.open()
        try:
            await asyncio.wait_for(main(sockets), 60)
        finally:
            sockets.sockets.stop()
            await asyncio.sleep(0)
        assert not sockets.faults

    with TemporaryDirectory(dir="/dev/shm") as folder:
        world.loop.run_until_complete(run_opened(Path(folder)))


async def until(true: Callable[[], bool]) -> None:
    """Let the loop run until something holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + 60
    while not true():
        assert loop.time() < end, "it never came to that"
        turned = asyncio.Event()
        loop.call_later(0.01, turned.set)
        await turned.wait()
