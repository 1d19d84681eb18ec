"""Beside HiveKernel's own limits: an earlier system for trees of agents, as processes of one host.

Its figures are quoted, not measured here: they are those that its study reports for its revision
4928279 on two shared cores, "rough". What they are of is told with each. Its tables are in memory
and its events are not synced; what ours measures is durable where it says so.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import UUID

from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from fixtures.world import World, world

from benchmarks.mail import deliveries
from benchmarks.report.rows import Row
from benchmarks.scale import changes, forest
from hive_core import varlink
from hive_core.broker.connection import ClientConnection
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.letters import NewMessage
from hive_core.ledger.mail.queues import TakeFilter
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.model.wire.record import Relation
from hive_core.model.work.queue import Queue, QueueAccess, QueueItem, queue_item_id

THEIRS = "HiveKernel (quoted)"
POPS = {10: 2.3, 1_000: 154.0, 10_000: 1_400.0}
DELIVERED = (815.0, 1_150.0)
ROUNDS, BATCH, POPPED = 15, 100, 5
STARTS = 7
WIDE = HostLimits(inbox_count=10**7, inbox_bytes=10**12, send_burst=10**7, change_burst=10**7)


def run() -> list[Row]:
    return [*_route(), *_pops(), *_events(), *_spawns(), *_delivery_rows(), *_machines()]


def _row(name: str, value: float, unit: str, theirs: float | None = None) -> Row:
    row: Row = {"name": name, "value": value, "unit": unit}
    return row if theirs is None else {**row, "peer": THEIRS, "peer_value": theirs}


def _best(work: Callable[[], object], count: int) -> float:
    """Microseconds for each of so many, the best of some rounds."""
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent) / count * 1e6


# A message from one agent to another, without sockets.


def _route() -> Iterator[Row]:
    with world(Settings(limits=WIDE), "root/a", "a/a1", "a/a2") as hive:
        frame = varlink.encode(
            {"method": "org.hive.Broker.Send", "parameters": {"to": "a2", "body": "hello"}}
        )[:-1]
        lines = [
            ClientConnection(hive.uuid("a1"), 0, lambda _data, _closing: None) for _ in range(BATCH)
        ]
        value = _best(lambda: _feed_all(hive, lines, frame), BATCH)
    name = "a message in process: judged, recorded, queued (theirs: queued in memory)"
    yield _row(name, value, "us", 6.7)


def _feed_all(hive: World, lines: list[ClientConnection], frame: bytes) -> None:
    for line in lines:
        hive.broker.receive(line, [frame])
    hive.run()


# The next one of a queue that has so many.


def _pops() -> Iterator[Row]:
    for depth, theirs in POPS.items():
        with TemporaryDirectory(dir="/dev/shm") as folder:
            ledger = Ledger.open(Path(folder) / "hive.db", limits=WIDE)
            _fill(ledger, depth)
            yield _row(
                f"pop of an inbox at depth {depth:,}, with its ack", _mail(ledger), "us", theirs
            )
            yield _row(
                f"pop of a named queue at depth {depth:,}, with its ack",
                _thing(ledger),
                "us",
                theirs,
            )
            ledger.close()


def _fill(ledger: Ledger, depth: int) -> None:
    now = time.time()
    with ledger.transaction():
        ledger.queues.open(Queue(0, "anna", "q", QueueAccess(), QueueAccess(), 10**6, now, 0, 0))
    queue = ledger.queues.find("anna", "q")
    assert queue is not None
    for at in range(0, depth, 1000):
        with ledger.transaction():
            for number in range(at, min(depth, at + 1000)):
                _put(ledger, number, now)


def _put(ledger: Ledger, number: int, now: float) -> None:
    queue = ledger.queues.find("anna", "q")
    assert queue is not None
    rank = number % 4
    letter = NewMessage("anna", "anna", "bob", "bob", Relation.CHILD, "hello", priority=rank)
    ledger.messages.send(letter, now)
    ledger.queues.put(queue, QueueItem(0, "anna", "anna", "thing", rank, now, "hello"), 1 << 40)


def _mail(ledger: Ledger) -> float:
    def pop() -> None:
        (letter,) = ledger.messages.lease("bob", 1, 60, time.time())
        ledger.messages.ack("bob", [letter.id])

    return _pop_time(ledger, pop)


def _thing(ledger: Ledger) -> float:
    queue = ledger.queues.find("anna", "q")
    assert queue is not None

    def pop() -> None:
        (item,) = ledger.queues.take(queue, "bob", TakeFilter(1, 60), time.time())
        ledger.queues.ack("bob", [queue_item_id(item.id)])

    return _pop_time(ledger, pop)


def _pop_time(ledger: Ledger, pop: Callable[[], None]) -> float:
    """Microseconds of one that is taken and acked; after each round there are as many as before."""
    spent = []
    for number in range(ROUNDS):
        with ledger.transaction():
            for step in range(POPPED):
                _put(ledger, number + step, time.time())
        start = time.process_time()
        with ledger.transaction():
            for _ in range(POPPED):
                pop()
        spent.append(time.process_time() - start)
    return min(spent) / POPPED * 1e6


# One line of the log.


def _events() -> Iterator[Row]:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        ledger = Ledger.open(Path(folder) / "hive.db")
        entry = AuditEntry(
            kind="recorded", caller="anna", operation="send", target="bob", allowed=True,
            rule="parent", reason="to its parent", commit="", request="r1", now=time.time(),
        )  # fmt: skip

        def work() -> None:
            with ledger.transaction():
                for _ in range(BATCH):
                    ledger.events.append(entry)

        yield _row("an event, hash-chained, a hundred a commit", _best(work, BATCH), "us", 10.7)
        ledger.close()


# One agent more where ten thousand are.


def _spawns() -> Iterator[Row]:
    hive = forest(10_000)
    spec = AgentSpec(uuid=UUID(int=20_000 << 96 | 1))
    value = _best(lambda: hive.with_agent("new", "a0", spec), 1)
    yield _row("an agent in the tree of 10,000, in memory", value, "us", 105)
    value = median(changes(10_000)) * 1e6
    yield _row("an agent in the tree of 10,000, committed and synced, p50", value, "us", 105)


def _delivery_rows() -> Iterator[Row]:
    for (name, value), theirs in zip(deliveries().items(), DELIVERED, strict=True):
        yield _row(name, value, "messages/s", theirs)


# Containers: theirs are processes without any.


def _machines() -> Iterator[Row]:
    with Lab() as lab:
        host = HiveHost(lab)
        host.setup()
        serve = ["hive-agent", "serve", "--", "cat"]
        host.grow(agent={"command": serve, "wakes": True})
        yield _row("start of a container to running, p50", _start_time(host), "s", 0.37)
        memory = int(host.show("agent", "MemoryCurrent")) / 1e6
        yield _row("its memory, with a Python agent in it", memory, "MB", 41)
        running, answered = _wake_times(host)
        yield _row("asleep: from a message to running, p50", running, "s")
        yield _row("asleep: from a message to its answer, p50", answered, "s")


def _start_time(host: HiveHost) -> float:
    spent = []
    for _ in range(STARTS):
        host.call("Stop", agent="agent", wait=20)
        start = time.perf_counter()
        assert not host.call("Start", agent="agent", wait=30).error
        spent.append(time.perf_counter() - start)
    return median(spent)


def _wake_times(host: HiveHost) -> tuple[float, float]:
    running, answered = [], []
    for _ in range(STARTS):
        host.call("Sleep", agent="agent", wait=20)
        host.wait("sleeping", "agent")
        start = time.perf_counter()
        sent = host.call("Send", to="agent", body="hello", reply_within=60)
        host.wait("running", "agent")
        running.append(time.perf_counter() - start)
        assert host.call("WaitReply", id=sent["id"], wait=30)["reply"]["body"] == "hello"
        answered.append(time.perf_counter() - start)
    return median(running), median(answered)
