"""The sockets that hived hands over: owners, permitted peers, arrival and removal."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from pathlib import Path

import pytest
from fixtures.models import AGENT, OTHER, until
from fixtures.providers import event_reply, json_reply
from hypothesis import given
from hypothesis import strategies as st
from proxy.calling import PATHS, body, calling, request_bytes, stream

from hive_core.proxy.connection import CONNECTIONS_MOST
from hive_core.services.listeners import listening_socket
from hive_core.services.packets import HandedSocket, SocketGone, SocketsSynced, parse_packet


def test_each_socket_is_of_its_agent() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            other = host.hived.hand_over(OTHER, name="other")
            sub = host.hived.hand_over(AGENT, sub="s1", name="worker")
            await until(lambda: len(host.program.listeners) == 3)
            for path in (host.socket, other, sub):
                # What a request says of its sender counts for nothing.
                await host.post(PATHS["chat"], body("chat", user=OTHER, agent=OTHER), socket=path)
            callers = [(asked["agent"], asked["sub"]) for asked in host.hived.reserved]
            assert callers == [(AGENT, ""), (OTHER, ""), (AGENT, "s1")]

    asyncio.run(main())


def test_a_client_of_another_uid_is_refused() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            path = host.hived.hand_over(OTHER, name="other", uid=os.getuid() + 1)
            await until(lambda: len(host.program.listeners) == 2)
            assert await host.talk(request_bytes("chat", body("chat")), path) == b""
            assert not host.hived.calls

    asyncio.run(main())


def test_a_socket_that_is_taken_back_ends_its_calls() -> None:
    async def main() -> None:
        reply = event_reply(*stream("chat")[:2], hangs=True)
        async with calling("chat", reply) as (host, provider):
            reader, writer = await host.connect()
            writer.write(request_bytes("chat", body("chat", stream=True)))
            await until(lambda: len(provider.requests) == 1)
            host.hived.take_back()
            await asyncio.wait_for(reader.read(), 10)
            assert (await host.settlements())[0]["status"] == "gone"
            await until(lambda: len(host.program.listeners) == 0)
            with pytest.raises(OSError, match="refused"):
                await host.connect()
            writer.close()

    asyncio.run(main())


def test_sockets_outlive_a_restart_of_hived_and_old_ones_end() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            host.hived.hand_over(OTHER, name="other")
            await until(lambda: len(host.program.listeners) == 2)
            reader, writer = await host.connect()
            await host.hived.stop()
            host.hived.doors.pop(OTHER)[1].close()
            await host.hived.start()
            host.hived.listen_for_hands()
            await until(lambda: len(host.program.listeners) == 1)
            writer.write(request_bytes("chat", body("chat"), "close"))
            assert b" 200 " in await asyncio.wait_for(reader.read(), 10)
            writer.close()

    asyncio.run(main())


def test_connections_queue_until_hive_model_is_there() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            path = host.folder / "late.sock"
            listening.bind(str(path))
            listening.listen(8)
            asked = asyncio.create_task(host.post(PATHS["chat"], body("chat"), socket=path))
            packet = {"agent": OTHER, "sub": "", "name": "late", "uids": [os.getuid(), 1]}
            await until(lambda: host.hived.is_handing)
            host.hived.send_raw(json.dumps(packet).encode(), listening.fileno())
            listening.close()
            assert (await asked).status == 200

    asyncio.run(main())


def test_bad_packets_change_nothing() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            door = {"agent": OTHER, "sub": "", "name": "x", "uids": [os.getuid(), 1]}
            good = json.dumps(door).encode()
            with tempfile.TemporaryFile() as file, socket.socket(socket.AF_UNIX) as stream_socket:
                descriptors = (file.fileno(), stream_socket.fileno())
                for data in (b"x", b"[]", b"{}", b"[" * 4000, b"x" * 5000, good):
                    host.hived.send_raw(data)
                for descriptor in descriptors:
                    host.hived.send_raw(good, descriptor)
                host.hived.send_raw(good, *descriptors, *descriptors, *descriptors)
            path = host.hived.hand_over(OTHER, name="other")
            await until(lambda: len(host.program.listeners) == 2)
            for socket_path in (host.socket, path):
                assert (await host.ask("HEAD", "/", socket=socket_path)).status == 200

    asyncio.run(main())


def test_connections_beyond_the_limit_wait_and_others_are_served() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            other = host.hived.hand_over(OTHER, name="other")
            await until(lambda: len(host.program.listeners) == 2)
            idle = [await host.connect() for _ in range(CONNECTIONS_MOST + 4)]
            waiting = asyncio.create_task(host.ask("HEAD", "/"))
            assert (await host.ask("HEAD", "/", socket=other)).status == 200
            assert not waiting.done()
            for _, writer in idle:
                writer.close()
            assert (await waiting).status == 200

    asyncio.run(main())


UUIDS = st.sampled_from([AGENT, OTHER, "", "x", 7])
NUMBERS = st.integers(-2, 1 << 33) | st.none() | st.text(max_size=3)
PACKETS = st.fixed_dictionaries({}, optional={
    "agent": UUIDS, "sub": st.sampled_from(["", "s1", "x" * 65, None, "\u00e4"]),
    "name": st.sampled_from(["worker", "", "..", None]),
    "uids": st.lists(NUMBERS, max_size=3) | st.none(), "gone": UUIDS,
    "synced": st.booleans() | st.none(),
})  # fmt: skip


@given(PACKETS)
def test_a_packet_is_what_it_says_or_a_fault(packet: dict[str, object]) -> None:
    try:
        message = parse_packet(json.dumps(packet).encode())
    except ValueError:
        return
    match message:
        case HandedSocket():
            assert {message.agent, message.sub, message.name} <= {AGENT, OTHER, "", "s1", "worker"}
            assert 0 <= message.base < message.base + message.count <= 1 << 32
            assert message.admits(message.base)
            assert not message.admits(message.base + message.count)
        case SocketGone():
            assert message.agent in (AGENT, OTHER)
        case SocketsSynced():
            assert packet["synced"] is True


@given(st.binary(max_size=100))
def test_any_bytes_are_a_packet_or_a_fault(data: bytes) -> None:
    try:
        parse_packet(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - a packet is fine as well


def test_a_descriptor_that_is_no_listening_socket_is_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for descriptor in (
        os.open(tmp_path / "file", os.O_RDONLY),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach(),
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach(),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).detach(),
    ):
        with pytest.raises(ValueError, match="not a "):
            listening_socket(descriptor)
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(descriptor)
