"""A whole hive for tests: the real broker, ledger and git, and twins of what needs a machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from seeds import Seed, folder_in_ram

from hive_core import varlink
from hive_core.broker.batch import Services as Parts
from hive_core.broker.connection import ClientConnection, SlowRead
from hive_core.broker.core import Broker
from hive_core.broker.operation import Result, camel
from hive_core.broker.timers import DUES
from hive_core.errors import HIVE, HiveError, NotFound, from_wire
from hive_core.host.config.diffs import ReviewDiffs
from hive_core.host.git import MetaRepo
from hive_core.host.git.applied_repositories import AppliedRepositories
from hive_core.host.git.lending import PackExports
from hive_core.host.git.pushes import Pushes
from hive_core.host.git.server import MetaGitServer
from hive_core.host.storage.artifacts import ArtifactContents
from hive_core.host.storage.secrets import SecretStore
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import Cpu, Machine, State
from hive_core.model.config.settings import Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.operations import load
from hive_core.plan.desired import ReconcilePlan
from hive_core.reconcile.timers.agenda import Agenda
from hive_core.testing import ManualClock, MemoryJournal

Reply = dict[str, object]
T = TypeVar("T")


@dataclass
class Seen:
    """What the change road saw last, as a test sets it; without a word: what is wanted."""

    ledger: Ledger
    states: dict[str, State] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    planned: ReconcilePlan = field(default_factory=ReconcilePlan)
    parked: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    agent_warnings: dict[str, str] = field(default_factory=dict)

    def state(self, uuid: str) -> State:
        run = self.ledger.runs.get(uuid)
        usual = State(run.wanted) if run else State.STOPPED
        return self.states.get(uuid, usual)

    def activity(self, uuid: str) -> str:
        return self.ledger.activity(uuid)

    def machine(self, uuid: str) -> Machine | None:
        return self.machines.get(uuid)

    def plan(self) -> ReconcilePlan:
        return self.planned

    def parked_commits(self) -> list[tuple[str, str]]:
        return self.parked

    def since(self) -> float:
        return 1.0

    def agent_alarms(self) -> dict[str, str]:
        return self.agent_warnings

    def alarms(self) -> list[str]:
        return [*self.warnings, *self.agent_warnings.values()]


@dataclass
class Reads:
    seen: Seen
    diffs: ReviewDiffs
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    used: dict[str, Cpu] = field(default_factory=dict)

    async def fresh_plan(self) -> ReconcilePlan:
        return self.seen.planned

    async def cpu(self, uuids: Iterable[str]) -> dict[str, Cpu]:
        return {uuid: self.used[uuid] for uuid in uuids if uuid in self.used}

    async def diff(self, uuid: str, approval: str, at: int) -> tuple[bytes, bool]:
        return await self.diffs.read(uuid, approval, at)


@dataclass
class Exchange:
    """One call and what has come of it so far."""

    world: World
    line: ClientConnection
    replies: list[Reply] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        return not self.replies or bool(self.replies[-1].get("continues"))

    @property
    def pages(self) -> list[Reply]:
        """Parameters of all replies; raises the error of the last."""
        return [_parameters(reply) for reply in self.replies]

    def result(self) -> Reply:
        assert self.replies, "no reply yet"
        return self.pages[-1]

    def close(self) -> None:
        self.world.broker.drop(self.line)


class World:
    """The operator made `root`; everything else is made by calls."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.settings = settings
        self.folder = folder
        self.clock = ManualClock()
        self._open()

    def _open(self) -> None:
        """Everything that a daemon has in memory, from what is on disk."""
        folder, settings = self.folder, self.settings
        self.ledger = Ledger.open(folder / "hive.db", limits=settings.limits, primed=0)
        self.repo = MetaRepo.open(folder / "meta", settings.limits.depth, clock=self.clock.now)
        self.seen = Seen(self.ledger)
        self.reads = Reads(self.seen, ReviewDiffs(folder / "applied"))
        self.loop = asyncio.new_event_loop()
        self._woken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.vault = SecretStore(folder / "secrets", at_once)
        self.ledger.events.masks = self.vault.masks
        self.contents = ArtifactContents(
            folder / "artifacts", clock=self.clock.monotonic, beside=at_once
        )
        stores = self.vault, self.contents
        applied, lending = AppliedRepositories(folder / "applied"), PackExports(folder / "served")
        git = MetaGitServer(self.repo, applied.repo, lending, _no_jobs)
        parts = Parts(self.ledger, self.repo, settings, self.seen, self.clock, *stores, git=git)
        head, empty = self.ledger.head, Hive(depth_limit=settings.limits.depth)
        hive = self.repo.read(head) if head else empty
        self.broker = Broker(parts, hive, load(), {})
        self.broker.attach(self)
        self.agenda = Agenda(self.clock, self.ledger, self.broker.perform, DUES)
        self.broker.listeners.append(self.agenda.on_topics)
        self.agenda.start()

    def close(self) -> None:
        self._let_go()
        with closing(self.ledger):
            self._check_stored()

    def leave(self) -> None:
        """Close what somebody else has written to, so that no account of it holds."""
        self._let_go()
        self.ledger.close()

    def _let_go(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def restart(self, off: float = 0.0) -> None:
        """The daemon ends, `off` seconds pass, and another one starts on the same disk."""
        self.close()
        self._start_again(off)

    def _start_again(self, off: float) -> None:
        self.clock = ManualClock(self.clock.time + off, self.clock.steady + off)
        self._open()
        self.run()

    def kill(self, off: float = 0.0) -> None:
        """It ends, and nothing of what it had in memory is written down."""
        self._let_go()
        self.ledger.connection.close()
        self._start_again(off)

    def set_clock(self, seconds: float) -> None:
        """Somebody sets the wall clock by so much, and the daemon sees it."""
        self.clock.set(seconds)
        longest = self.settings.retention.events
        with self.ledger.transaction():
            self.ledger.shifts.move(seconds, self.clock.now() + seconds, longest)
            self.ledger.messages.shift(seconds)
        self.clock.follow()
        self.agenda.on_clock_set()
        self.advance(0)

    def _check_stored(self) -> None:
        """Whatever a test did: what is kept of the bytes of each party is what the tables hold."""
        with self.ledger.transaction():
            for party in ("operator", *(spec.id for spec in self.hive.specs.values())):
                self.ledger.messages.lease(party, 0, 1.0, 0.0)  # mail gets its places
        assert self.ledger.stored.recorded_sizes() == self.ledger.stored.recount()

    # The transport, as the broker sees it.

    def wake(self) -> None:
        self._woken = True

    def read(self, line: ClientConnection, read: SlowRead) -> None:
        task = self.loop.create_task(self._bring(line, read))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What tests say.

    @property
    def hive(self) -> Hive:
        return self.broker.hive

    def uuid(self, name: str) -> str:
        return name if name == OPERATOR else self.hive.spec(name).id

    def ask(
        self, caller: str, operation: str, /, *, more: bool = False, **params: object
    ) -> Exchange:
        """Begin a call on a connection of its own; it may be left waiting."""
        return self.ask_as(self.uuid(caller), operation, params, more=more)

    def ask_as(self, party: str, operation: str, params: Reply, *, more: bool = False) -> Exchange:
        """The same by UUID, for those who are no more."""
        replies: list[Reply] = []

        def send(data: bytes, _closing: bool) -> None:  # noqa: FBT001 - as Line.send is called
            replies.extend(varlink.decode(frame) for frame in data.split(b"\0")[:-1])

        exchange = Exchange(self, ClientConnection(party, 0, send), replies)
        message: varlink.Message = {"method": HIVE + camel(operation), "parameters": params}
        frame = varlink.encode({**message, "more": True} if more else message)
        self.broker.receive(exchange.line, [frame[:-1]])
        self.run()
        return exchange

    def call(self, caller: str, operation: str, /, **params: object) -> Reply:
        """One call, answered at once; raises the error that it is answered with."""
        return self.ask_as(self.uuid(caller), operation, params).result()

    def fault(self, caller: str, operation: str, /, **params: object) -> str:
        """Name of the error that a call is answered with, empty when it is allowed."""
        try:
            self.call(caller, operation, **params)
        except HiveError as error:
            return type(error).__name__
        return ""

    def run(self) -> None:
        """Turn until nothing is left to do at this moment."""
        for _ in range(1000):
            while self._woken:
                self._woken = False
                self.broker.serve_batch()
            for _ in range(4):
                self.loop.run_until_complete(asyncio.sleep(0))
            if not self._woken:
                return
        raise AssertionError("the broker does not come to rest")

    def settle(self) -> None:
        """Wait for what is read in threads and by processes beside the loop."""
        while self._tasks:
            self.loop.run_until_complete(asyncio.wait(self._tasks))
            self.run()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.run()

    def grow(self, *edges: str) -> None:
        """Agents by the operator: `grow("a", "a/b")`; the word behind a colon is the role."""
        for edge in edges:
            path, _, role = edge.partition(":")
            parent, _, name = path.rpartition("/")
            self.call(OPERATOR, "spawn", name=name, parent=parent, role=role or "agent")

    def finish(self, job: object, error: str = "", **progress: object) -> None:
        """What the change road does when a job's goals are reached."""
        with self.ledger.transaction():
            if progress:
                self.ledger.jobs.progress(str(job), progress)
            self.ledger.jobs.finish(str(job), error, self.clock.now())
        self.broker.touch({f"job:{job}"})
        self.run()

    def mail(self, name: str) -> list[Reply]:
        """Everything that waits for somebody, without taking it."""
        return rows(self.call(OPERATOR, "list_messages", agent=name)["messages"])

    def events(self) -> list[Reply]:
        return rows(self.call(OPERATOR, "list_events", limit=1000)["events"])

    async def _bring(self, line: ClientConnection, read: SlowRead) -> None:
        contents: Result | HiveError
        try:
            contents = await read(self.reads)
        except HiveError as error:
            contents = error
        self.broker.read_completed(line, contents)


def _no_jobs() -> Pushes:
    raise NotFound("nothing checks what is pushed here")


async def at_once(work: Callable[[], T], /) -> T:
    """What takes a thread in a daemon; a test may hold it up."""
    return work()


def rows(value: object) -> list[Reply]:
    assert isinstance(value, list)
    return value


def names(value: object, key: str = "name") -> list[object]:
    """One field of every row."""
    return [row[key] for row in rows(value)]


def texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return value


def fields(event: Reply) -> Reply:
    """What is particular to an event."""
    result = event["fields"]
    assert isinstance(result, dict)
    return result


def _parameters(reply: Reply) -> Reply:
    parameters = reply.get("parameters", {})
    assert isinstance(parameters, dict)
    if "error" in reply:
        raise from_wire(str(reply["error"]), parameters)
    return parameters


@contextmanager
def world(settings: Settings | None = None, *edges: str) -> Iterator[World]:
    """A fresh world on the RAM disk, with `root` in it."""
    with folder_in_ram() as folder:
        chosen = settings or Settings()
        _seed_world(chosen.model_dump_json(), edges).plant(folder)
        with closing(World(folder, chosen)) as made:
            yield made


@cache
def _seed_world(settings: str, edges: tuple[str, ...]) -> Seed:
    """To copy what has grown once is quicker."""
    with folder_in_ram() as folder:
        with closing(World(folder, Settings.model_validate_json(settings))) as made:
            made.grow("root", *edges)
        return Seed.of(folder)
