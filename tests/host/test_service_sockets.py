"""The sockets on which agents call models: bound by hived, served by hive-model, over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fixtures.broker import BrokerHarness
from fixtures.socket_host import ANN, BOB, SHORT_PATIENCE, FakeDescriptorStore, SocketHost
from fixtures.socket_host import run as run_host

from hive_core import varlink
from hive_core.errors import HIVE
from hive_core.host.sockets.model_sockets import AgentSocketGroup, ModelSockets
from hive_core.host.sockets.service_sockets import MODEL_SOCKETS, ServiceSockets, user_id
from hive_core.model.agents.agent import Runtime
from hive_core.model.config.settings import Paths

ME = os.getuid()
BASE = 0x30000000
Packet = dict[str, object]


@dataclass
class FakeModelService:
    """hive-model: it connects, keeps the sockets that it gets, and accepts on them."""

    folder: Path
    packets: list[Packet] = field(default_factory=list)
    doors: dict[str, socket.socket] = field(default_factory=dict)

    async def connect(self) -> None:
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(0)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self.connection, str(self.folder / "hand.sock"))

    async def read(self) -> Packet:
        """The next packet; an empty one is the end."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self.connection, _set_done, readable)
        try:
            await asyncio.wait_for(readable, 10)
        finally:
            loop.remove_reader(self.connection)
        data, descriptors, _, _ = socket.recv_fds(self.connection, 4096, 4)
        packet: Packet = json.loads(data) if data else {}
        for descriptor in descriptors:
            self.doors[str(packet["agent"])] = socket.socket(fileno=descriptor)
        self.packets.append(packet)
        return packet

    async def synchronize(self) -> list[Packet]:
        packets = []
        while (packet := await self.read()) != {"synced": True}:
            assert packet, "hived closed the connection"
            packets.append(packet)
        return packets

    async def serve_one(self, uuid: str) -> None:
        """Accept one connection of an agent, and greet it."""
        loop = asyncio.get_running_loop()
        self.doors[uuid].settimeout(0)
        accepted, _ = await asyncio.wait_for(loop.sock_accept(self.doors[uuid]), 10)
        await loop.sock_sendall(accepted, b"hello")
        accepted.close()

    def end(self) -> None:
        self.connection.close()
        for door in self.doors.values():
            door.close()


def _set_done(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def open_doors(
    folder: Path, keeper: FakeDescriptorStore | None = None, uid: int = ME
) -> ServiceSockets:
    doors = ServiceSockets(uid, keeper)
    doors.listen(folder / "hand.sock")
    return doors


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 30))


async def call_model(folder: Path, name: str) -> socket.socket:
    """An agent connects; the connection needs no accept."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(0)
    await asyncio.get_running_loop().sock_connect(client, str(folder / f"{name}.sock"))
    return client


async def greeting(client: socket.socket) -> bytes:
    data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 100), 10)
    client.close()
    return data


def test_hive_model_gets_all_sockets_then_every_change(tmp_path: Path) -> None:
    async def main() -> None:
        doors, service = open_doors(tmp_path), FakeModelService(tmp_path)
        doors.open(ANN, "ann", tmp_path / "ann.sock", BASE)
        await service.connect()
        assert await service.synchronize() == [
            {
                "agent": ANN, "name": "ann", "sub": "", "uids": [BASE, 65536],
                "refused": [BASE + 60000, 1184],
            }
        ]  # fmt: skip
        doors.open(BOB, "bob", tmp_path / "bob.sock", BASE + 65536)
        assert (await service.read())["agent"] == BOB
        doors.open(BOB, "bob", tmp_path / "bob.sock", BASE + 65536)  # nothing new
        client = await call_model(tmp_path, "bob")
        await service.serve_one(BOB)
        assert await greeting(client) == b"hello"
        doors.close(ANN)
        assert await service.read() == {"gone": ANN, "sub": ""}
        assert not (tmp_path / "ann.sock").exists()
        assert doors.agents == frozenset({BOB})
        assert doors.is_served
        doors.stop()
        assert await service.read() == {}
        service.end()

    run(main)


def test_a_peer_that_is_not_hive_model_gets_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        doors, service = open_doors(tmp_path, uid=ME + 1), FakeModelService(tmp_path)
        doors.open(ANN, "ann", tmp_path / "ann.sock", BASE)
        await service.connect()
        assert await service.read() == {}
        assert not doors.is_served
        doors.stop()
        service.end()

    run(main)


def test_calls_queue_while_hive_model_restarts(tmp_path: Path) -> None:
    async def main() -> None:
        doors, first = open_doors(tmp_path), FakeModelService(tmp_path)
        doors.open(ANN, "ann", tmp_path / "ann.sock", BASE)
        await first.connect()
        await first.synchronize()
        first.end()
        client = await call_model(tmp_path, "ann")
        second = FakeModelService(tmp_path)
        await second.connect()
        await second.synchronize()
        await second.serve_one(ANN)
        assert await greeting(client) == b"hello"
        doors.stop()
        second.end()

    run(main)


def test_calls_queue_while_hived_restarts_and_the_socket_stays_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        keeper = FakeDescriptorStore()
        doors, service = open_doors(tmp_path, keeper), FakeModelService(tmp_path)
        doors.open(ANN, "ann", tmp_path / "ann.sock", BASE)
        doors.open(BOB, "bob", tmp_path / "bob.sock", BASE)
        await service.connect()
        await service.synchronize()
        doors.stop()
        assert await service.read() == {}
        calling = await call_model(tmp_path, "ann")  # hive-model serves on without hived
        await service.serve_one(ANN)
        assert await greeting(calling) == b"hello"
        service.end()
        queued = await call_model(tmp_path, "ann")  # neither of the two is there
        doors = open_doors(tmp_path, keeper)
        for name, descriptor in list(keeper.kept.items()):
            doors.adopt(name, os.dup(descriptor))
        doors.open(ANN, "ann", tmp_path / "ann.sock", BASE)
        doors.close_unadopted_sockets()
        assert set(keeper.kept) == {f"{ANN}{MODEL_SOCKETS.suffix}"}
        service = FakeModelService(tmp_path)
        await service.connect()
        await service.synchronize()
        await service.serve_one(ANN)
        assert await greeting(queued) == b"hello"
        doors.stop()
        service.end()

    run(main)


def test_a_hive_model_that_does_not_read_delays_nothing(tmp_path: Path) -> None:
    """Far more sockets than the kernel queues for it: hived waits for none of them."""
    many = 700

    async def main() -> None:
        doors, service = open_doors(tmp_path), FakeModelService(tmp_path)
        await service.connect()
        await service.synchronize()
        for number in range(many):
            doors.open(f"agent-{number}", f"a{number}", tmp_path / f"{number}.sock", BASE)
        doors.close("agent-699")
        (packets,) = [len(receiver.queue) for receiver in doors.receivers]
        assert packets > 0
        names = {str((await service.read()).get("agent")) for _ in range(many - 1)}
        assert names == {f"agent-{number}" for number in range(many - 1)}
        assert await service.read() == {"gone": "agent-699", "sub": ""}
        doors.stop()
        service.end()

    run(main)


def test_without_the_user_of_hive_model_there_are_no_sockets(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    """It is an alarm once an agent needs models."""
    assert user_id("no-such-user") is None

    async def main(host: SocketHost) -> None:
        doors, troubles, hives = ServiceSockets(None), dict[str, str](), [harness.broker.hive]
        service = ModelSockets(
            host.sockets, doors, Paths(runtime=tmp_path), troubles, lambda: hives[-1]
        )
        await service.listen()
        doors.open(ANN, "ann", tmp_path / "ann.sock", BASE)
        assert doors.agents == frozenset()
        for name in ("ann.sock", "model-control.sock", "hand-model.sock"):
            assert not (tmp_path / name).exists()
        assert troubles == {}
        ann = hives[-1].spec("ann").model_copy(update={"runtime": Runtime.BUILTIN})
        hives.append(hives[-1].with_spec("ann", ann))
        service.on_topics(frozenset({"tree"}))
        assert "user hive-model does not exist" in troubles["models"]
        hives.pop()
        service.on_topics(frozenset({"tree"}))
        assert troubles == {}

    run_host(harness, tmp_path, main)


def test_an_agent_has_both_sockets_or_none(harness: BrokerHarness, tmp_path: Path) -> None:
    async def main(host: SocketHost) -> None:
        doors = open_doors(tmp_path)
        pair = AgentSocketGroup(host.sockets, doors, lambda uuid: uuid[:8])
        await pair.listen(ANN, tmp_path / "broker.sock", 0)
        assert (tmp_path / "model.sock").is_socket()
        assert host.sockets.parties == {ANN}
        pair.close(ANN)
        assert not (tmp_path / "model.sock").exists()
        assert host.sockets.parties == doors.agents == frozenset()
        doors.stop()

    run_host(harness, tmp_path, main)


@pytest.mark.parametrize("uid", [ME, ME + 1])
def test_only_hive_model_is_served_on_the_control_socket(
    harness: BrokerHarness, tmp_path: Path, uid: int
) -> None:
    async def main(host: SocketHost) -> None:
        doors, paths = ServiceSockets(uid), Paths(runtime=tmp_path)
        await ModelSockets(host.sockets, doors, paths, {}, lambda: harness.broker.hive).listen()
        reader, writer = await asyncio.open_unix_connection(paths.model_control_socket)
        writer.write(varlink.encode({"method": HIVE + "Look", "parameters": {}}))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        try:
            frame = await asyncio.wait_for(reader.readuntil(b"\0"), 10)
        except (asyncio.IncompleteReadError, ConnectionError):
            assert uid != ME
        else:
            assert uid == ME
            assert varlink.decode(frame[:-1])["error"] == HIVE + "NotAllowed"
        writer.transport.abort()
        doors.stop()

    run_host(harness, tmp_path, main)


def test_hive_model_may_stay_silent_on_the_control_socket(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    """Other peers are closed when they send nothing at first; it may have nothing to account."""

    async def main(host: SocketHost) -> None:
        doors, paths = ServiceSockets(ME), Paths(runtime=tmp_path)
        await ModelSockets(host.sockets, doors, paths, {}, lambda: harness.broker.hive).listen()
        reader, writer = await asyncio.open_unix_connection(paths.model_control_socket)
        await host.listen("ann")
        async with host.connect("ann") as other:  # this one is closed for its silence
            assert await other.is_closed()
        writer.write(varlink.encode({"method": HIVE + "Look", "parameters": {}}))
        assert await asyncio.wait_for(reader.readuntil(b"\0"), 10)
        writer.transport.abort()
        doors.stop()

    run_host(harness, tmp_path, main, patience=SHORT_PATIENCE)
