"""Real sockets: who is behind them, in what time, and how much of everything."""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.broker import House, SlowReads, open_house, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from hive_core import varlink
from hive_core.broker.batch import CallBatch
from hive_core.broker.connection import CallOutcome, ClientConnection, PendingCall
from hive_core.errors import HIVE, BadFrame, Busy
from hive_core.host.sockets.connection import PeerTimeouts
from hive_core.host.sockets.server import SocketServer
from hive_core.ledger.core.connection import LedgerBroken
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.testing import MemoryJournal

ANN, BOB = spec("ann").id, spec("bob").id
LOOK: varlink.Message = {"method": "org.hive.Broker.Look", "parameters": {}}
Main = Callable[["SocketHost"], Awaitable[None]]


class FakeDescriptorStore:
    """systemd's store of descriptors: they outlive the daemon."""

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}

    def store(self, name: str, fd: int) -> None:
        self.kept[name] = os.dup(fd)

    def drop(self, name: str) -> None:
        if name in self.kept:
            os.close(self.kept.pop(name))


class SocketHost:
    """A house with sockets in `folder`, and what ended it."""

    def __init__(
        self, house: House, folder: Path, keeper: FakeDescriptorStore | None = None
    ) -> None:
        self.house, self.folder = house, folder
        self.faults: list[BaseException] = []
        self.reads = SlowReads()
        patience = PeerTimeouts(first=0.2, begun=0.4, look=0.1)
        self.sockets = SocketServer(house.broker, self.reads, self.faults.append, keeper, patience)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.sock"

    async def listen(self, name: str, base: int = 0) -> None:
        await self.sockets.listen(spec(name).id, self.path(name), base)

    @asynccontextmanager
    async def dial(self, name: str) -> AsyncIterator[SocketClient]:
        reader, writer = await asyncio.open_unix_connection(self.path(name), limit=1 << 22)
        try:
            yield SocketClient(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)


class SocketClient:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def call(self, **message: object) -> varlink.Message:
        self.say(varlink.encode(message))
        return await self.reply()

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self) -> varlink.Message:
        frame = await asyncio.wait_for(self.reader.readuntil(b"\0"), 10)
        return varlink.decode(frame[:-1])

    async def is_closed(self) -> bool:
        """Whether the other side closes without another word."""
        try:
            return await asyncio.wait_for(self.reader.read(), 15) == b""
        except ConnectionError:
            return True


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as house:
        yield house


def run(
    house: House, folder: Path, main: Main, keeper: FakeDescriptorStore | None = None
) -> SocketHost:
    async def open_host() -> SocketHost:
        office = SocketHost(house, folder, keeper)
        try:
            await asyncio.wait_for(main(office), 30)
        finally:
            office.sockets.stop()
            await asyncio.sleep(0)
        return office

    return asyncio.run(open_host())


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


def test_attack_36_only_so_many_connections_of_one_agent_are_served(tmp_path: Path) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        await office.listen("bob")
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                wire = await stack.enter_async_context(office.dial("ann"))
                assert "parameters" in await wire.call(**LOOK)
            extra = await stack.enter_async_context(office.dial("ann"))
            assert await extra.is_closed()
            other = await stack.enter_async_context(office.dial("bob"))
            assert "parameters" in await other.call(**LOOK)
        await asyncio.sleep(0)
        async with office.dial("ann") as wire:
            assert "parameters" in await wire.call(**LOOK)

    three = Settings(limits=HostLimits(connections=3))
    with open_house(tmp_path, settings=three) as house:
        run(house, tmp_path, main)


def test_attack_36_who_says_nothing_or_half_a_frame_is_cut_off_in_time(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with (
            office.dial("ann") as silent,
            office.dial("ann") as half,
            office.dial("ann") as good,
        ):
            half.say(varlink.encode(LOOK) + b'{"method":')
            assert "parameters" in await half.reply()
            assert "parameters" in await good.call(**LOOK)
            assert await silent.is_closed()
            assert await half.is_closed()
            assert "parameters" in await good.call(**LOOK)

    run(house, tmp_path, main)


def test_attack_36_a_frame_that_never_ends_is_answered_and_closed(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        async with office.dial("ann") as wire:
            wire.say(varlink.encode(LOOK) + b"x" * (varlink.FRAME_LIMIT + 2))
            assert "error" not in await wire.reply()
            assert (await wire.reply())["error"] == HIVE + "BadFrame"
            assert await wire.is_closed()

    run(house, tmp_path, main)


def test_attack_36_a_flood_of_tiny_frames_does_not_hold_up_the_others(
    house: House, tmp_path: Path
) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        await office.listen("bob")
        async with office.dial("ann") as flood, office.dial("bob") as other:
            flood.say(b"{}\0" * 300_000)
            for _ in range(20):
                assert "parameters" in await other.call(**LOOK)

    run(house, tmp_path, main)


def test_attack_66_one_read_of_very_many_frames_is_cut_a_few_at_a_time_and_all_are_answered(
    house: House, tmp_path: Path
) -> None:
    """A read brings up to 256 KiB, which may be 87,000 frames."""
    queued = list[int]()
    feed = house.broker.receive

    def counting(connection: ClientConnection, frames: Sequence[bytes | BadFrame]) -> None:
        feed(connection, frames)
        queued.append(len(connection.frames))

    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        house.broker.receive = counting  # type: ignore[method-assign]
        async with office.dial("ann") as ann:
            ann.say(b"{}\0" * 5_000 + varlink.encode(LOOK))
            ann.writer.write_eof()
            for _ in range(5_000):
                assert "method" in str(await ann.reply())
            assert "name" in str(await ann.reply())
            assert await ann.is_closed()
        assert max(queued) <= 1024

    run(house, tmp_path, main)


def test_attack_61_who_writes_during_a_turn_is_among_those_of_the_next_one(
    house: House, tmp_path: Path
) -> None:
    """A turn that follows another used to come before what had arrived meanwhile was read."""
    turns = list[set[str]]()
    run_call, turn = house.broker._dispatch.run, house.broker.serve_batch

    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        await office.listen("bob")
        async with office.dial("ann") as ann, office.dial("bob") as bob:
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
            house.broker.serve_batch = count_batch  # type: ignore[method-assign]
            house.broker._dispatch.run = note_party  # type: ignore[method-assign]
            ann.say(varlink.encode(LOOK) * 300)
            await bob.reply()

    run(house, tmp_path, main)
    assert [BOB in turn for turn in turns[:2]] == [False, True]


def test_attack_37_a_peer_that_does_not_read_is_not_asked_for_more(
    house: House, tmp_path: Path
) -> None:
    """What waits for it stays bounded, and others are served."""

    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        await office.listen("bob")
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.settimeout(0)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, str(office.path("ann")))
            frame = varlink.encode({"method": "org.varlink.service.GetInterfaceDescription",
                                    "parameters": {"interface": "org.hive.Broker"}})  # fmt: skip
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(loop.sock_sendall(deaf, frame * 100_000), 0.5)
            async with office.dial("bob") as other:
                assert "parameters" in await other.call(**LOOK)
            (line,) = office.sockets._listeners[ANN].connections
            assert line.transport is not None
            assert line.transport.get_write_buffer_size() < 3 << 20
            assert line._line is not None
            assert len(line._line.frames) < 5_000

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


@pytest.fixture(scope="module")
def old_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for many examples."""
    with open_house(tmp_path_factory.mktemp("h")) as house:
        yield house


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=12))
def test_attack_36_any_bytes_leave_the_others_served(old_house: House, parts: list[bytes]) -> None:
    async def main(office: SocketHost) -> None:
        await office.listen("ann")
        await office.listen("bob")
        async with office.dial("bob") as other:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(office.path("ann")))
                peer.settimeout(0)
                for part in parts:
                    with contextlib.suppress(OSError):
                        peer.send(part)
                    assert "parameters" in await other.call(**LOOK)
            assert "parameters" in await other.call(**LOOK)
        assert not office.faults

    with TemporaryDirectory() as folder:
        run(old_house, Path(folder), main)
