"""Attacks 36 and 37 on the memory and the time of the daemon, through an agent's socket."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

from fixtures.world import World
from security.agent_sockets import AgentClient, AgentSockets, run_with_sockets, until

from hive_core import varlink
from hive_core.errors import HIVE
from hive_core.host.sockets.connection import PeerTimeouts
from hive_core.host.sockets.listener import UNREAD_MOST, UNSENT_MOST

CONNECTIONS = 64
READ = 1 << 18  # what one read of a socket takes at most
FAT = b'{"method":"org.hive.Broker.Wake","parameters":{"body":"' + b"x" * 1_000_000 + b'"}}\0'


async def _pour(wire: AgentClient, data: bytes) -> None:
    """Write for as long as the other side reads."""
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            while True:
                wire.writer.write(data)
                await wire.writer.drain()


def test_attack_36_large_calls_behind_a_waiting_one_are_not_read_into_memory(world: World) -> None:
    """256 frames of 1 MiB on each of 64 connections were 16 GiB; hived may have one."""

    async def main(sockets: AgentSockets) -> None:
        async with AsyncExitStack() as stack:
            wires = await sockets.dial_many(stack, "a", CONNECTIONS)
            for wire in wires:
                wire.send("Recv", wait=50)
            await asyncio.gather(*(_pour(wire, FAT) for wire in wires))
            unread, _ = sockets.held_bytes("a")
            assert unread <= UNREAD_MOST + CONNECTIONS * READ
            other = await stack.enter_async_context(sockets.dial("b"))
            assert "parameters" in await other.call("Whoami")

    run_with_sockets(world, main)


def test_attack_36_frames_that_are_never_finished_are_not_read_into_memory(world: World) -> None:
    async def main(sockets: AgentSockets) -> None:
        async with AsyncExitStack() as stack:
            wires = await sockets.dial_many(stack, "a", CONNECTIONS)
            half = b'{"method":"' + b"x" * 1_000_000
            await asyncio.gather(*(_pour_once(wire, half) for wire in wires))
            unread, _ = sockets.held_bytes("a")
            assert unread <= UNREAD_MOST + CONNECTIONS * READ
            assert all([await wire.has_ended() for wire in wires])
            again = await stack.enter_async_context(sockets.dial("a"))
            assert "parameters" in await again.call("Whoami")

    run_with_sockets(world, main, PeerTimeouts(begun=2.0, look=0.1))


async def _pour_once(wire: AgentClient, data: bytes) -> None:
    wire.writer.write(data)
    with suppress(TimeoutError):
        await asyncio.wait_for(wire.writer.drain(), 1)


def test_attack_36_paused_reads_resume_when_there_is_room(world: World) -> None:
    async def main(sockets: AgentSockets) -> None:
        async with AsyncExitStack() as stack:
            wires = await sockets.dial_many(stack, "a", 32)
            for wire in wires:
                wire.send("Recv", wait=50)
                wire.writer.write(FAT)
            # Nobody has read all of that, but every connection is served in its turn.
            await until(lambda: sockets.held_bytes("a")[0] > UNREAD_MOST)
            for wire in wires[:31]:
                wire.transport.abort()
            last = wires[31]
            last.writer.write(varlink.encode({"method": HIVE + "Whoami"}))
            # That they have gone is noticed while nothing is read from them.
            await until(lambda: len(sockets.listener("a").connections) == 1)
            waker = await stack.enter_async_context(sockets.dial("a"))
            assert "parameters" in await waker.call("Wake", body="up")
            assert "parameters" in await last.reply()
            assert (await last.reply())["error"] == HIVE + "InvalidArgument"
            assert "parameters" in await last.reply()

    run_with_sockets(world, main)


def test_attack_37_unread_answers_do_not_pile_up(world: World) -> None:
    """A small request for a large answer, on every connection, and never a look at it."""
    for number in range(60):
        world.call("operator", "send", to="a", body=f"{number}" + "x" * 60_000)

    async def main(sockets: AgentSockets) -> None:
        async with AsyncExitStack() as stack:
            wires = await sockets.dial_many(stack, "a", CONNECTIONS)
            for wire in wires:
                wire.transport.pause_reading()
                for _ in range(50):
                    wire.send("ListMessages", limit=50)
            other = await stack.enter_async_context(sockets.dial("b"))
            await until(lambda: sockets.held_bytes("a")[1] > UNSENT_MOST)
            for _ in range(50):
                assert "parameters" in await other.call("Whoami")
                assert sockets.held_bytes("a")[1] <= UNSENT_MOST + (4 << 20)
            for wire in wires[1:]:
                wire.transport.abort()
            wires[0].transport.resume_reading()
            # Who does look gets all of it.
            for _ in range(50):
                assert "parameters" in await wires[0].reply()

    run_with_sockets(world, main)


def test_attack_37_a_client_that_never_reads_is_cut_off_unless_it_is_the_operator(
    world: World,
) -> None:
    for number in range(60):
        world.call("operator", "send", to="a", body=f"{number}" + "x" * 60_000)

    async def main(sockets: AgentSockets) -> None:
        async with AsyncExitStack() as stack:
            deaf = await stack.enter_async_context(sockets.dial("a"))
            pager = await stack.enter_async_context(sockets.dial("operator"))
            for wire, owner in ((deaf, None), (pager, "a")):
                wire.transport.pause_reading()
                for _ in range(5):
                    wire.send("ListMessages", limit=50, agent=owner)
            await until(lambda: bool(sockets.listener("a").connections))
            await until(lambda: not sockets.listener("a").connections)
            pager.transport.resume_reading()
            for _ in range(5):
                assert "parameters" in await pager.reply()

    run_with_sockets(world, main, PeerTimeouts(deaf=0.5, look=0.1))


def test_attack_36_many_oneway_calls_do_not_block_the_connection(world: World) -> None:
    async def main(sockets: AgentSockets) -> None:
        async with sockets.dial("a") as wire:
            silent = varlink.encode({"method": HIVE + "Whoami", "oneway": True})
            wire.writer.write(silent * 5000)
            assert "parameters" in await wire.call("Whoami")

    run_with_sockets(world, main)


def test_attack_37_64_busy_connections_of_one_agent_leave_another_its_share(world: World) -> None:
    async def main(sockets: AgentSockets) -> None:
        async with AsyncExitStack() as stack:
            wires = await sockets.dial_many(stack, "a", CONNECTIONS)
            (other,) = await sockets.dial_many(stack, "b", 1)
            for wire in wires:
                for _ in range(200):
                    wire.send("Whoami")
            await until(lambda: sockets.held_bytes("a")[0] > 0)
            # Served in the very next batch, whatever the others have asked before.
            assert "parameters" in await other.call("Whoami")
            assert sockets.held_bytes("a")[0] > 0

    run_with_sockets(world, main)
