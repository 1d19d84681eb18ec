"""Hostile peers of a socket: floods, silence, half frames, replies that they do not read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.broker import BrokerHarness, open_broker
from fixtures.socket_host import ANN, BOB, LOOK, SHORT_PATIENCE, SocketHost, run
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core import varlink
from hive_core.broker.batch import CallBatch
from hive_core.broker.connection import CallOutcome, ClientConnection, PendingCall
from hive_core.errors import HIVE, BadFrame
from hive_core.model.config.settings import HostLimits, Settings


def test_attack_36_only_so_many_connections_of_one_agent_are_served(tmp_path: Path) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        await host.listen("bob")
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                wire = await stack.enter_async_context(host.connect("ann"))
                assert "parameters" in await wire.call(**LOOK)
            extra = await stack.enter_async_context(host.connect("ann"))
            assert await extra.is_closed()
            other = await stack.enter_async_context(host.connect("bob"))
            assert "parameters" in await other.call(**LOOK)
        await asyncio.sleep(0)
        async with host.connect("ann") as wire:
            assert "parameters" in await wire.call(**LOOK)

    three = Settings(limits=HostLimits(connections=3))
    with open_broker(tmp_path, settings=three) as harness:
        run(harness, tmp_path, main)


def test_attack_36_a_peer_that_sends_nothing_or_half_a_frame_is_cut_off_in_time(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with (
            host.connect("ann") as silent,
            host.connect("ann") as half,
            host.connect("ann") as good,
        ):
            half.say(varlink.encode(LOOK) + b'{"method":')
            assert "parameters" in await half.reply()
            assert "parameters" in await good.call(**LOOK)
            assert await silent.is_closed()
            assert await half.is_closed()
            assert "parameters" in await good.call(**LOOK)

    run(harness, tmp_path, main, patience=SHORT_PATIENCE)


def test_attack_36_a_frame_that_never_ends_is_answered_and_closed(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with host.connect("ann") as wire:
            wire.say(varlink.encode(LOOK) + b"x" * (varlink.FRAME_LIMIT + 2))
            assert "error" not in await wire.reply()
            assert (await wire.reply())["error"] == HIVE + "BadFrame"
            assert await wire.is_closed()

    run(harness, tmp_path, main)


def test_attack_36_a_flood_of_tiny_frames_does_not_hold_up_the_others(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        await host.listen("bob")
        async with host.connect("ann") as flood, host.connect("bob") as other:
            flood.say(b"{}\0" * 300_000)
            for _ in range(20):
                assert "parameters" in await other.call(**LOOK)

    run(harness, tmp_path, main)


def test_attack_66_one_read_of_very_many_frames_is_cut_a_few_at_a_time_and_all_are_answered(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    """A read brings up to 256 KiB, which may be 87,000 frames."""
    queued = list[int]()
    feed = harness.broker.receive

    def counting(connection: ClientConnection, frames: Sequence[bytes | BadFrame]) -> None:
        feed(connection, frames)
        queued.append(len(connection.frames))

    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        harness.broker.receive = counting  # type: ignore[method-assign]
        async with host.connect("ann") as ann:
            ann.say(b"{}\0" * 5_000 + varlink.encode(LOOK))
            ann.writer.write_eof()
            for _ in range(5_000):
                assert "method" in str(await ann.reply())
            assert "name" in str(await ann.reply())
            assert await ann.is_closed()
        assert max(queued) <= 1024

    run(harness, tmp_path, main)


def test_attack_61_a_party_that_writes_during_a_batch_is_in_the_next_one(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    """A turn that follows another used to come before what had arrived meanwhile was read."""
    turns = list[set[str]]()
    run_call, turn = harness.broker._dispatch.run, harness.broker.serve_batch

    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        await host.listen("bob")
        async with host.connect("ann") as ann, host.connect("bob") as bob:
            await ann.call(**LOOK)
            await bob.call(**LOOK)
            quiet = bob.writer.get_extra_info("socket")

            def count_batch() -> None:
                turns.append(set())
                turn()

            def note_party(pending: PendingCall, batch: CallBatch) -> CallOutcome:
                turns[-1].add(pending.connection.party)
                if len(turns) == 1 and len(turns[-1]) == 1 and not sent:
                    sent.append(os.write(quiet.fileno(), varlink.encode(LOOK)))
                return run_call(pending, batch)

            sent = list[int]()
            harness.broker.serve_batch = count_batch  # type: ignore[method-assign]
            harness.broker._dispatch.run = note_party  # type: ignore[method-assign]
            ann.say(varlink.encode(LOOK) * 300)
            await bob.reply()

    run(harness, tmp_path, main)
    assert [BOB in turn for turn in turns[:2]] == [False, True]


def test_attack_37_a_peer_that_does_not_read_is_not_asked_for_more(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    """What waits for it stays bounded, and others are served."""

    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        await host.listen("bob")
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.settimeout(0)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, str(host.path("ann")))
            frame = varlink.encode({"method": "org.varlink.service.GetInterfaceDescription",
                                    "parameters": {"interface": "org.hive.Broker"}})  # fmt: skip
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(loop.sock_sendall(deaf, frame * 100_000), 0.5)
            async with host.connect("bob") as other:
                assert "parameters" in await other.call(**LOOK)
            (line,) = host.sockets._listeners[ANN].connections
            assert line.transport is not None
            assert line.transport.get_write_buffer_size() < 3 << 20
            assert line._line is not None
            assert len(line._line.frames) < 5_000

    run(harness, tmp_path, main)


@pytest.fixture(scope="module")
def shared_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHarness]:
    """One broker for many examples."""
    with open_broker(tmp_path_factory.mktemp("h")) as harness:
        yield harness


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=12))
def test_attack_36_any_bytes_leave_the_others_served(
    shared_harness: BrokerHarness, parts: list[bytes]
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        await host.listen("bob")
        async with host.connect("bob") as other:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(host.path("ann")))
                peer.settimeout(0)
                for part in parts:
                    with contextlib.suppress(OSError):
                        peer.send(part)
                    assert "parameters" in await other.call(**LOOK)
            assert "parameters" in await other.call(**LOOK)
        assert not host.faults

    with TemporaryDirectory() as folder:
        run(shared_harness, Path(folder), main)
