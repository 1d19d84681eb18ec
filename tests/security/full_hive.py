"""A hive in which two agents, and those below them, have as much of everything as they may have.

In the default suite the first has half of it, and the second a twentieth.

`served()` runs it in a process of its own: the real sockets, broker, ledger and repo. The agents h1
and h2 are those that mean no good, n is the neighbour; each has a socket, and so has the operator.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from uuid import UUID

from fixtures.broker import NothingObserved, SlowReads
from fuzz.served import ROOT, HiveProcess, of_the_unit
from long import times
from typing_extensions import override

from hive_core import varlink
from hive_core.broker.batch import Services
from hive_core.broker.connection import ClientConnection, SlowRead
from hive_core.broker.core import Broker
from hive_core.broker.operation import Result, camel
from hive_core.errors import HIVE, HiveError
from hive_core.host.git.repo import MetaRepo
from hive_core.host.sockets.server import SocketServer
from hive_core.host.storage.artifacts import ArtifactContents
from hive_core.host.storage.secrets import SecretStore
from hive_core.host.systemd.clock import SystemClock
from hive_core.host.systemd.watchdog import freeze_heap
from hive_core.ledger.agents.archives import Archive
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import State
from hive_core.model.agents.topology import Topology
from hive_core.model.config.approval import Generation
from hive_core.model.config.settings import ApprovalSettings, HostLimits, Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.operations import load
from hive_core.ports import Clock
from hive_core.surfaces.service import introspection_methods
from hive_core.testing import ManualClock

HOSTILE = ("h1", "h2")
NEIGHBOUR = "n"
BELOW = 480  # agents below each hostile one; about a thousand in all
BOUNDS = HostLimits(
    children=1000, open_jobs=1000, send_rate=10**9, send_burst=10**9, change_rate=10**9,
    change_burst=10**9, commit_rate=10**9, commit_burst=10**9,
)  # fmt: skip
SETTINGS = Settings(limits=BOUNDS, approvals=ApprovalSettings(pending=500, a_day=500))
Reply = Mapping[str, object]


def family() -> Hive:
    """Below each hostile agent a chief, and below that one many workers."""
    parents: dict[str, str | None] = {}
    specs: dict[str, AgentSpec] = {}

    def add(name: str, parent: str | None, **more: object) -> None:
        number = len(specs) + 2
        result: dict[str, object] = {"uuid": UUID(int=number << 96 | number), **more}
        parents[name], specs[name] = parent, AgentSpec.model_validate(result)

    add("root", None)
    add(NEIGHBOUR, "root")
    for name in HOSTILE:
        add(name, "root", capabilities=["escalate", "config.propose", "trigger", "artifact.write"])
        add(f"{name}-chief", name)
        for worker in range(BELOW):
            add(f"{name}-w{worker}", f"{name}-chief", title="x" * 200)
    return Hive(topology=Topology.forest(parents), specs=specs).validate()


class AllRunning(NothingObserved):
    """Every agent is running."""

    @override
    def state(self, uuid: str) -> State:
        return State.RUNNING if uuid else State.ABSENT


def broker_of(folder: Path, ledger: Ledger, clock: Clock) -> Broker:
    """Everything of a daemon but the machines and the sockets."""
    repo, registry = MetaRepo.open(folder / "meta"), load()
    if not ledger.head:
        _settle(repo, ledger)
    stores = (
        SecretStore(folder / "secrets"),
        ArtifactContents(folder / "artifacts", clock=clock.monotonic),
    )
    world = Services(ledger, repo, SETTINGS, AllRunning(), clock, *stores)
    return Broker(world, repo.read(ledger.head), registry, introspection_methods(registry, "1"))


def _settle(repo: MetaRepo, ledger: Ledger) -> None:
    oid = repo.write(family(), Hive(), "family", {})
    with repo.hold("") as move, ledger.transaction():
        ledger.head = oid
        move(oid)


class FilledHive:
    """A broker that tests call directly, with the results of the calls."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger.open(folder / "hive.db", limits=BOUNDS)
        self.clock = ManualClock(time.time() - 3600)
        self.loop = asyncio.new_event_loop()
        self.broker = broker_of(folder, self.ledger, self.clock)
        self.broker.attach(self)
        self._woken = False
        self._reads: list[tuple[ClientConnection, Callable[[], Awaitable[Result | HiveError]]]] = []
        # Processor time of the longest turn since it was looked at.
        self.longest = 0.0

    def close(self) -> None:
        self.loop.close()
        self.ledger.close()

    def wake(self) -> None:
        self._woken = True

    def read(self, line: ClientConnection, read: SlowRead) -> None:
        async def bring() -> Result | HiveError:
            try:
                return await read(SlowReads())
            except HiveError as error:
                return error

        self._reads.append((line, bring))

    def uuid(self, name: str) -> str:
        return name if name == OPERATOR else self.broker.hive.spec(name).id

    def answers(self, caller: str, operation: str, calls: Iterable[Reply]) -> list[varlink.Message]:
        """The same operation again and again, as fast as it goes; what came of it."""
        replies: list[bytes] = []
        line = ClientConnection(self.uuid(caller), 0, lambda data, _: replies.append(data))
        method = HIVE + camel(operation)
        frames = [varlink.encode({"method": method, "parameters": dict(call)})[:-1]
                  for call in calls]  # fmt: skip
        self.broker.receive(line, frames)
        self._run()
        data = b"".join(replies)
        return [varlink.decode(word) for word in data.split(b"\0")[:-1]]

    def _run(self) -> None:
        while self._woken or self._reads:
            if self._woken:
                self._woken = False
                began = time.thread_time()
                self.broker.serve_batch()
                self.longest = max(self.longest, time.thread_time() - began)
            for line, bring in self._reads[:1]:
                self._reads.pop(0)
                self.broker.on_read_completed(line, self.loop.run_until_complete(bring()))

    def say(self, caller: str, operation: str, calls: Iterable[Reply]) -> list[Reply]:
        """The same, each of which has to go well."""
        return [_result(answer, operation) for answer in self.answers(caller, operation, calls)]

    def ids(self, caller: str, operation: str, calls: Iterable[Reply], key: str) -> list[str]:
        return [str(answer[key]) for answer in self.say(caller, operation, calls)]


def _result(answer: varlink.Message, operation: str) -> Reply:
    parameters = answer["parameters"]
    if "error" in answer or not isinstance(parameters, dict):
        raise AssertionError(f"{operation}: {answer}")
    return parameters


def fill(here: FilledHive) -> None:
    """Both have all that they may have under `--long`, and a part of it in the default suite."""
    for name, part in zip(HOSTILE, (times(2, 1), times(20, 1)), strict=True):
        _fill_for(here, name, part)
    _fill_archives(here)


def workers(name: str) -> list[str]:
    return [f"{name}-w{number}" for number in range(BELOW)]


def _fill_for(here: FilledHive, name: str, part: int) -> None:
    for step in (_plans, _talk, _later, _machines, _history, _work, _stores):
        step(here, name, part)
    # Half of it would not show that a step takes all of it.
    for step in (_mail, _figures):
        step(here, name, max(part // 2, 1))


def _work(here: FilledHive, name: str, part: int) -> None:
    long = {"description": "d" * 4000, "title": "t" * 200, "deadline": None}
    tasks = here.ids(
        name, "assign_task",
        ({"agent": worker, **long} for worker in workers(name)[: 200 // part] for _ in range(10)),
        "task",
    )  # fmt: skip
    here.say(
        name, "cancel_task", ({"task": task, "reason": "r" * 200} for task in tasks[: 500 // part])
    )
    here.say("root", "start", [{"agent": name}])
    result = here.ids(
        "root", "assign_task", ({"agent": name, **long} for _ in range(900 // part)), "task"
    )
    for _ in range(300 // part):
        here.say(name, "report_progress", [{"task": result[0], "text": "p" * 1000}])
        here.clock.advance(1.0)
    here.say(name, "wait_for", ({"tasks": tasks[-64:], "until": "all"} for _ in range(64 // part)))
    batches = [{"tasks": ["x" * 500] * 64, "agents": [worker], "title": "b" * 200}
               for worker in workers(name)[200:208]]  # fmt: skip
    here.say(name, "run_parallel_workers", batches)


def _plans(here: FilledHive, name: str, part: int) -> None:
    worker = workers(name)[210]
    wish = {"agent": worker, "description": "plan it", "plan_required": True}
    here.say(name, "start", [{"agent": worker}])
    (task,) = here.ids(name, "assign_task", [wish], "task")
    steps = [{"title": "s" * 200, "detail": "d" * 2000, "tools": ["t" * 200] * 32}] * 10
    for _ in range(20 // part):
        (plan,) = here.ids(worker, "create_plan", [{"task": task, "steps": steps}], "plan")
        here.say(name, "reject_plan", [{"task": task, "plan": plan, "reason": "r" * 500}])


def _talk(here: FilledHive, name: str, part: int) -> None:
    items = [{"prompt": "p" * 500, "options": ["o" * 300] * 4}] * 8
    wish = {"items": items, "to": name, "context": "c" * 2000}
    for worker in workers(name)[: 40 // part]:
        here.say(worker, "ask", [wish])
    here.say(name, "ask", ({**wish, "to": OPERATOR} for _ in range(max(12 // part, 1))))


def _mail(here: FilledHive, name: str, part: int) -> None:
    chief = f"{name}-chief"
    letters = ({"to": name, "body": "b" * 14_000} for _ in range(350 // part))
    here.say(OPERATOR, "send", letters)
    here.say(OPERATOR, "send", ({"to": name, "body": "b"} for _ in range(500 // part)))
    for _ in range(max(9 // part, 1)):
        here.say(OPERATOR, "send", ({"to": chief, "body": "b" * 10_000} for _ in range(100)))
        (inbox,) = here.say(chief, "recv", [{"max": 100}])
        messages = inbox["messages"]
        assert isinstance(messages, list)
        here.say(chief, "nack", [{"ids": [message["id"] for message in messages], "dead": True}])


def _later(here: FilledHive, name: str, part: int) -> None:
    here.say(name, "remind", (
        {"body": "b" * 2000, "in": 9000.0 + number} for number in range(64 // part)
    ))  # fmt: skip
    action = {"kind": "message", "text": "b" * 4000}
    here.say(name, "set_trigger", (
        {"name": f"t{number}", "when": {"cron": "*/7 1-23 * * 1-5"}, "action": action}
        for number in range(100 // part)
    ))  # fmt: skip


def _stores(here: FilledHive, name: str, part: int) -> None:
    here.say(name, "open_queue", ({"name": f"q{number}"} for number in range(32)))
    here.say(name, "put", ({"queue": "q0", "body": "b" * 10_000} for _ in range(900 // part)))
    here.say(name, "follow_topic", ({"topic": f"topic-{number}"} for number in range(64)))
    pipe = here.ids(name, "open_pipe", [{"agent": f"{name}-chief"}], "pipe")[0]
    here.say(name, "write_pipe", ({"pipe": pipe, "data": "d" * 10_000} for _ in range(60)))
    here.say(name, "keep_snapshot", [{"data": "s" * 60_000}])
    here.say(name, "keep_turn", (
        {"conversation": "main", "turn": number, "status": "done", "text": "t" * 20_000}
        for number in range(200 // part)
    ))  # fmt: skip
    here.say(name, "store_artifact", (
        {"name": f"{'a' * 60}/{'b' * 60}/{number}", "text": "x", "visibility": "private"}
        for number in range(600 // part)
    ))  # fmt: skip


def _figures(here: FilledHive, name: str, part: int) -> None:
    for worker in workers(name)[: BELOW // part]:
        here.say(worker, "report_usage", (
            {"model": f"model-{number}", "tokens_in": 5, "tokens_out": 5, "cost": 5,
             "iterations": 1, "context": 1000} for number in range(6)
        ))  # fmt: skip
    here.say(
        name, "note_event", ({"kind": "own.note", "text": "n" * 3500} for _ in range(1500 // part))
    )


def _machines(here: FilledHive, name: str, part: int) -> None:
    """Jobs that are about hundreds of agents each."""
    calls = ({"agent": f"{name}-chief", "recursive": True} for _ in range(100 // part))
    jobs = here.ids(name, "start", calls, "job")
    with here.ledger.transaction():
        for job in jobs:
            here.ledger.jobs.progress(job, {"said": "p" * 500})


def _history(here: FilledHive, name: str, part: int) -> None:
    uuid, now = here.uuid(name), here.clock.now()
    calls = ({"agent": agent, "commit": f"{at:040x}", "message": "m" * 1000}
             for at, agent in enumerate(workers(name)[: 400 // part]))  # fmt: skip
    ids = here.ids(name, "request_apply_commit", calls, "approval")
    with here.ledger.transaction():
        for number in range(1, 1001 // part):
            here.ledger.generations.put(Generation(
                uuid, number, f"{number:040x}", ids[number % len(ids)], now, "", {}, "f" * 500,
            ))  # fmt: skip


def _fill_archives(here: FilledHive) -> None:
    spec, now = here.broker.hive.spec("n"), here.clock.now()
    with here.ledger.transaction():
        for number in range(1500):
            gone = spec.model_copy(update={"uuid": UUID(int=number + 1)})
            archive = Archive(
                gone.id, f"gone{number}", gone.model_dump_json(), None, now, now + 1e6
            )
            here.ledger.archives.put(archive)


@contextmanager
def serve_full(folder: Path) -> Iterator[HiveProcess]:
    """A filled folder, made by a separate process."""
    argv = [sys.executable, "-m", "security.full_hive", str(folder)]
    environment = {**os.environ, **of_the_unit(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    process = Popen(argv, stdout=PIPE, env=environment)
    try:
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise RuntimeError("the service does not start")
        yield HiveProcess(folder, process.pid)
        assert process.poll() is None, "the service has ended"
    finally:
        process.kill()
        process.communicate()


async def serve(folder: Path) -> None:
    with closing(Ledger.open(folder / "hive.db", limits=BOUNDS)) as ledger:
        broker = broker_of(folder, ledger, SystemClock())
        sockets = SocketServer(broker, SlowReads(), lambda _: os._exit(1))
        for name in (*HOSTILE, NEIGHBOUR):
            await sockets.listen(broker.hive.specs[name].id, folder / f"{name}.sock", 0)
        await sockets.listen_operator(folder / "operator.sock")
        freeze_heap()  # as the daemon does when it has started
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
