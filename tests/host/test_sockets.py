"""Real sockets: peers, time limits and quantities."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fixtures.broker import BrokerHarness, open_broker
from fixtures.socket_host import ANN, LOOK, FakeDescriptorStore, SocketHost, run
from typing_extensions import override

from hive_core import varlink
from hive_core.errors import HIVE, Busy
from hive_core.ledger.core.connection import LedgerBroken
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.testing import MemoryJournal


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_calls_are_answered_in_order_on_one_connection(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with host.connect("ann") as wire:
            for number in range(200):
                wire.say(varlink.encode({"method": HIVE + "Count", "parameters": {
                    "after": number, "to": 1000,
                }}))  # fmt: skip
            replies = [await wire.reply() for _ in range(200)]
            assert [reply["parameters"]["next"] for reply in replies] == list(range(2, 202))  # type: ignore[index]  # checked above

    run(harness, tmp_path, main)


def test_attack_33_a_peer_outside_of_the_agents_range_is_not_served(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann", 0x30000000)
        async with host.connect("ann") as wire:
            assert await wire.is_closed()

    host = run(harness, tmp_path, main)
    harness.run()
    (event,) = harness.events("refusal")
    assert (event.operation, event.target, event.caller) == ("connect", ANN, f"uid:{os.getuid()}")
    assert not host.faults


def test_attack_34_another_agents_socket_is_that_agents_identity_only_for_its_own_uids(
    harness: BrokerHarness,
) -> None:
    """Path sharing: a process with a uid of bob's range gets nothing on ann's socket."""
    ours, theirs = 700_000_000, 700_065_536
    script = (
        "import os,socket,sys\n"
        "os.setuid(int(sys.argv[2]))\n"
        "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        's.sendall(b\'{"method":"org.hive.Broker.Look"}\\0\'); print(s.recv(99))\n'
    )

    async def ask(host: SocketHost, uid: int) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(host.path("ann")), str(uid),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        out, _ = await process.communicate()
        return out

    async def main(host: SocketHost) -> None:
        await host.listen("ann", ours)
        assert b'"name":"ann"' in await ask(host, ours + 1000)
        assert b"name" not in await ask(host, theirs)
        assert b"name" not in await ask(host, 65534)

    with TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o755)
        run(harness, Path(folder), main)


def test_attack_34_descriptors_that_a_peer_attaches_are_never_received(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        count = open_descriptors()
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(host.path("ann")))
            peer.settimeout(0)
            read, write = os.pipe()
            attached = array.array("i", [write]).tobytes()
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, attached)]
            peer.sendmsg([varlink.encode(LOOK)], rights)
            os.close(write)
            loop = asyncio.get_running_loop()
            assert b'"name"' in await loop.sock_recv(peer, 1000)
            # The last write end is gone: nobody kept the attached one.
            assert os.read(read, 1) == b""
            os.close(read)
            assert open_descriptors() <= count + 2

    run(harness, tmp_path, main)


def test_what_was_asked_before_the_peer_hung_up_its_side_is_answered(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with host.connect("ann") as wire:
            wire.say(varlink.encode(LOOK) * 100)
            wire.writer.write_eof()
            data = await asyncio.wait_for(wire.reader.read(), 10)
            assert data.count(b"\0") == 100

    run(harness, tmp_path, main)


def test_a_peer_that_hung_up_its_side_still_gets_slow_answers(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        begun = asyncio.Event()
        harness.broker.listeners.append(lambda _: begun.set())
        await host.listen("ann")
        host.reads.journal.write(ANN, "a line")
        async with host.connect("ann") as wire:
            description = {"interface": "org.hive.Broker"}
            method = "org.varlink.service.GetInterfaceDescription"
            wire.say(varlink.encode({"method": method, "parameters": description}) * 200)
            wire.say(varlink.encode({"method": HIVE + "Fetch"}))
            wire.say(varlink.encode({"method": HIVE + "Work", "parameters": {"wait": 9.0}}))
            wire.writer.write_eof()
            for _ in range(200):
                assert "error" not in await wire.reply()
            assert (await wire.reply())["parameters"] == {"lines": ["a line"]}
            await begun.wait()
            harness.clock.advance(10)
            assert "job" in str(await wire.reply())
            assert await wire.is_closed()

    run(harness, tmp_path, main)


def test_a_socket_whose_file_is_gone_is_not_taken_over(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    keeper = FakeDescriptorStore()

    async def first(host: SocketHost) -> None:
        await host.listen("ann")

    async def second(host: SocketHost) -> None:
        host.sockets.adopt(ANN, os.dup(keeper.kept[ANN]))
        await host.listen("ann")
        async with host.connect("ann") as wire:
            assert "parameters" in await wire.call(**LOOK)

    run(harness, tmp_path, first, keeper)
    (tmp_path / "ann.sock").unlink()
    run(harness, tmp_path, second, FakeDescriptorStore())
    keeper.drop(ANN)


def test_no_caller_waits_for_mail_that_will_not_be_read(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with host.connect("ann") as wire:
            wire.say(varlink.encode({"method": HIVE + "Hear", "parameters": {"wait": 50.0}}))
            wire.writer.write_eof()
            assert await wire.is_closed()
        async with host.connect("ann") as wire:
            wire.say(varlink.encode({"method": HIVE + "Hear", "parameters": {"wait": 50.0}}))
            await wire.writer.drain()
        async with host.connect("ann") as wire:
            await wire.call(method=HIVE + "Tell", parameters={"agent": "ann", "text": "x"})
            reply = await wire.call(method=HIVE + "Hear")
            assert reply["parameters"] == {"texts": ["x"]}

    run(harness, tmp_path, main)


def test_a_slow_read_is_answered_and_its_failure_too(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        host.reads.journal.write(ANN, "a line")
        async with host.connect("ann") as wire:
            reply = await wire.call(method=HIVE + "Fetch")
            assert reply["parameters"] == {"lines": ["a line"]}
            host.reads.journal = Failing()
            assert (await wire.call(method=HIVE + "Fetch"))["error"] == HIVE + "Busy"

    run(harness, tmp_path, main)


def test_a_slow_read_ends_with_its_party_however_many_went_before(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        host.reads.journal = journal = Stuck()
        async with host.connect("ann") as wire:
            assert "error" not in await wire.call(method=HIVE + "Fetch")
            wire.say(varlink.encode({"method": HIVE + "Fetch"}) * 2)
            assert "error" not in await wire.reply()
            await asyncio.wait_for(journal.reached.wait(), 10)
            host.sockets.close(ANN)
            await asyncio.wait_for(journal.cancelled.wait(), 10)

    run(harness, tmp_path, main)


class Stuck(MemoryJournal):
    """Answers twice."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.reached, self.cancelled = 2, asyncio.Event(), asyncio.Event()

    @override
    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        self.left -= 1
        if self.left >= 0:
            return ()
        self.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ()


class Failing(MemoryJournal):
    @override
    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        raise Busy(f"the journal of {query.uuid} rotates")


def test_a_closed_party_is_served_no_longer_and_its_file_is_gone(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with host.connect("ann") as wire:
            await wire.call(**LOOK)
            host.sockets.close(ANN)
            assert await wire.is_closed()
        assert not host.path("ann").exists()
        assert host.sockets.parties == frozenset()

    run(harness, tmp_path, main)


def test_listening_again_with_the_same_range_keeps_the_connections(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with host.connect("ann") as wire:
            await wire.call(**LOOK)
            await host.listen("ann")
            assert "parameters" in await wire.call(**LOOK)

    run(harness, tmp_path, main)


def test_the_operators_socket_has_its_mode_before_anybody_can_connect(
    harness: BrokerHarness, tmp_path: Path
) -> None:
    async def main(host: SocketHost) -> None:
        await host.sockets.listen_operator(host.path("operator"))
        assert host.path("operator").stat().st_mode & 0o777 == 0o660
        async with host.connect("operator") as wire:
            reply = await wire.call(method=HIVE + "Note", parameters={"agent": "bob"})
            assert "error" not in reply

    run(harness, tmp_path, main)
    assert harness.events("record")[0].fields["uid"] == os.getuid()


def test_clients_queue_while_the_daemon_restarts(harness: BrokerHarness, tmp_path: Path) -> None:
    keeper = FakeDescriptorStore()
    queued = socket.socket(socket.AF_UNIX)

    async def first(host: SocketHost) -> None:
        await host.listen("ann")
        await host.listen("bob")

    async def second(host: SocketHost) -> None:
        for name, fd in list(keeper.kept.items()):
            host.sockets.adopt(name, os.dup(fd))
        await host.listen("ann")
        queued.settimeout(0)
        loop = asyncio.get_running_loop()
        assert b'"name":"ann"' in await loop.sock_recv(queued, 1000)
        host.sockets.close_unadopted_sockets()
        assert set(keeper.kept) == {ANN}

    run(harness, tmp_path, first, keeper)
    queued.connect(str(tmp_path / "ann.sock"))
    queued.sendall(varlink.encode(LOOK))
    run(harness, tmp_path, second, keeper)
    queued.close()
    keeper.drop(ANN)


def test_a_fault_of_the_ledger_ends_the_service_and_acknowledges_nothing(tmp_path: Path) -> None:
    """Fail stop: asyncio would log the exception and carry on with a ledger that lies."""
    broken: list[str] = []

    def step(name: str) -> None:
        if broken and name == "commit":
            raise LedgerBroken("fsync failed")

    async def main(host: SocketHost) -> None:
        await host.listen("ann")
        async with host.connect("ann") as wire:
            await wire.call(**LOOK)
            broken.append("now")
            wire.say(varlink.encode({"method": HIVE + "Note", "parameters": {"agent": "bob"}}))
            assert await wire.is_closed()

    with open_broker(tmp_path, step=step) as harness:
        host = run(harness, tmp_path, main)
        assert [type(fault) for fault in host.faults] == [LedgerBroken]
        broken.clear()
