"""Real sockets: who is behind them, in what time, and how much of everything."""

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

from fixtures.broker import House, open_house
from fixtures.socket_host import ANN, LOOK, FakeDescriptorStore, SocketHost, run
from typing_extensions import override

from hive_core import varlink
from hive_core.errors import HIVE, Busy
from hive_core.ledger.core.connection import LedgerBroken
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.testing import MemoryJournal


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_calls_are_answered_in_order_on_one_connection(house: House, tmp_path: Path) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with office.dial("ann") as wire:
            for number in range(200):
                wire.say(varlink.encode({"method": HIVE + "Count", "parameters": {
                    "after": number, "to": 1000,
                }}))  # fmt: skip
            replies = [await wire.reply() for _ in range(200)]
            assert [reply["parameters"]["next"] for reply in replies] == list(range(2, 202))  # type: ignore[index]  # checked above

    run(house, tmp_path, main)


def test_attack_33_a_peer_outside_of_the_agents_range_is_not_served(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann", 0x30000000)
        async with office.dial("ann") as wire:
            assert await wire.is_closed()

    office = run(house, tmp_path, main)
    house.run()
    (event,) = house.events("refusal")
    assert (event.operation, event.target, event.caller) == ("connect", ANN, f"uid:{os.getuid()}")
    assert not office.faults


def test_attack_34_another_agents_socket_is_that_agents_identity_only_for_its_own_uids(
    house: House,
) -> None:
    """Path sharing: a process with a uid of bob's range gets nothing on ann's socket."""
    ours, theirs = 700_000_000, 700_065_536
    script = (
        "import os,socket,sys\n"
        "os.setuid(int(sys.argv[2]))\n"
        "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        's.sendall(b\'{"method":"org.hive.Broker.Look"}\\0\'); print(s.recv(99))\n'
    )

    async def ask(office: SocketHost, uid: int) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(office.path("ann")), str(uid),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        out, _ = await process.communicate()
        return out

    async def main(office: SocketHost) -> None:
        await office.listen("ann", ours)
        assert b'"name":"ann"' in await ask(office, ours + 1000)
        assert b"name" not in await ask(office, theirs)
        assert b"name" not in await ask(office, 65534)

    with TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o755)
        run(house, Path(folder), main)


def test_attack_34_descriptors_that_a_peer_attaches_are_never_received(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        count = open_descriptors()
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(office.path("ann")))
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

    run(house, tmp_path, main)


def test_what_was_asked_before_the_peer_hung_up_its_side_is_answered(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with office.dial("ann") as wire:
            wire.say(varlink.encode(LOOK) * 100)
            wire.writer.write_eof()
            data = await asyncio.wait_for(wire.reader.read(), 10)
            assert data.count(b"\0") == 100

    run(house, tmp_path, main)


def test_a_peer_that_hung_up_its_side_still_gets_slow_answers(house: House, tmp_path: Path) -> None:
    async def main(office: SocketHost) -> None:
        begun = asyncio.Event()
        house.broker.listeners.append(lambda _: begun.set())
        await office.listen("ann")
        office.reads.journal.write(ANN, "a line")
        async with office.dial("ann") as wire:
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
            house.clock.advance(10)
            assert "job" in str(await wire.reply())
            assert await wire.is_closed()

    run(house, tmp_path, main)


def test_a_socket_whose_file_is_gone_is_not_taken_over(house: House, tmp_path: Path) -> None:
    keeper = FakeDescriptorStore()

    async def first(office: SocketHost) -> None:
        await office.listen("ann")

    async def second(office: SocketHost) -> None:
        office.sockets.adopt(ANN, os.dup(keeper.kept[ANN]))
        await office.listen("ann")
        async with office.dial("ann") as wire:
            assert "parameters" in await wire.call(**LOOK)

    run(house, tmp_path, first, keeper)
    (tmp_path / "ann.sock").unlink()
    run(house, tmp_path, second, FakeDescriptorStore())
    keeper.drop(ANN)


def test_nobody_waits_for_mail_that_nobody_will_read(house: House, tmp_path: Path) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with office.dial("ann") as wire:
            wire.say(varlink.encode({"method": HIVE + "Hear", "parameters": {"wait": 50.0}}))
            wire.writer.write_eof()
            assert await wire.is_closed()
        async with office.dial("ann") as wire:
            wire.say(varlink.encode({"method": HIVE + "Hear", "parameters": {"wait": 50.0}}))
            await wire.writer.drain()
        async with office.dial("ann") as wire:
            await wire.call(method=HIVE + "Tell", parameters={"agent": "ann", "text": "x"})
            reply = await wire.call(method=HIVE + "Hear")
            assert reply["parameters"] == {"texts": ["x"]}

    run(house, tmp_path, main)


def test_a_slow_read_is_answered_and_its_failure_too(house: House, tmp_path: Path) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        office.reads.journal.write(ANN, "a line")
        async with office.dial("ann") as wire:
            reply = await wire.call(method=HIVE + "Fetch")
            assert reply["parameters"] == {"lines": ["a line"]}
            office.reads.journal = Failing()
            assert (await wire.call(method=HIVE + "Fetch"))["error"] == HIVE + "Busy"

    run(house, tmp_path, main)


def test_a_slow_read_ends_with_its_party_however_many_went_before(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        office.reads.journal = journal = Stuck()
        async with office.dial("ann") as wire:
            assert "error" not in await wire.call(method=HIVE + "Fetch")
            wire.say(varlink.encode({"method": HIVE + "Fetch"}) * 2)
            assert "error" not in await wire.reply()
            await asyncio.wait_for(journal.reached.wait(), 10)
            office.sockets.close(ANN)
            await asyncio.wait_for(journal.cancelled.wait(), 10)

    run(house, tmp_path, main)


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
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with office.dial("ann") as wire:
            await wire.call(**LOOK)
            office.sockets.close(ANN)
            assert await wire.is_closed()
        assert not office.path("ann").exists()
        assert office.sockets.parties == frozenset()

    run(house, tmp_path, main)


def test_listening_again_with_the_same_range_keeps_the_connections(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with office.dial("ann") as wire:
            await wire.call(**LOOK)
            await office.listen("ann")
            assert "parameters" in await wire.call(**LOOK)

    run(house, tmp_path, main)


def test_the_operators_socket_has_its_mode_before_anybody_can_connect(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.sockets.listen_operator(office.path("operator"))
        assert office.path("operator").stat().st_mode & 0o777 == 0o660
        async with office.dial("operator") as wire:
            reply = await wire.call(method=HIVE + "Note", parameters={"agent": "bob"})
            assert "error" not in reply

    run(house, tmp_path, main)
    assert house.events("record")[0].fields["uid"] == os.getuid()


def test_clients_queue_while_the_daemon_restarts(house: House, tmp_path: Path) -> None:
    keeper = FakeDescriptorStore()
    queued = socket.socket(socket.AF_UNIX)

    async def first(office: SocketHost) -> None:
        await office.listen("ann")
        await office.listen("bob")

    async def second(office: SocketHost) -> None:
        for name, fd in list(keeper.kept.items()):
            office.sockets.adopt(name, os.dup(fd))
        await office.listen("ann")
        queued.settimeout(0)
        loop = asyncio.get_running_loop()
        assert b'"name":"ann"' in await loop.sock_recv(queued, 1000)
        office.sockets.close_unadopted()
        assert set(keeper.kept) == {ANN}

    run(house, tmp_path, first, keeper)
    queued.connect(str(tmp_path / "ann.sock"))
    queued.sendall(varlink.encode(LOOK))
    run(house, tmp_path, second, keeper)
    queued.close()
    keeper.drop(ANN)


def test_a_fault_of_the_ledger_ends_the_service_and_acknowledges_nothing(tmp_path: Path) -> None:
    """Fail stop: asyncio would log the exception and carry on with a ledger that lies."""
    broken: list[str] = []

    def step(name: str) -> None:
        if broken and name == "commit":
            raise LedgerBroken("fsync failed")

    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with office.dial("ann") as wire:
            await wire.call(**LOOK)
            broken.append("now")
            wire.say(varlink.encode({"method": HIVE + "Note", "parameters": {"agent": "bob"}}))
            assert await wire.is_closed()

    with open_house(tmp_path, step=step) as house:
        office = run(house, tmp_path, main)
        assert [type(fault) for fault in office.faults] == [LedgerBroken]
        broken.clear()
