"""A broker with a real ledger and a real meta repo, a clock that is told the time, and callers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from broker.small import SMALL
from seeds import empty_ledger, empty_repo

from hive_core import varlink
from hive_core.broker.batch import Services
from hive_core.broker.connection import ClientConnection, SlowRead
from hive_core.broker.core import Broker
from hive_core.broker.operation import Operation
from hive_core.errors import BadFrame, HiveError, from_wire
from hive_core.host.git import MetaRepo
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import Cpu, Machine, State
from hive_core.model.config.settings import Settings
from hive_core.model.wire.record import OPERATOR, Event
from hive_core.plan.desired import ReconcilePlan
from hive_core.surfaces.service import introspection_methods
from hive_core.testing import ManualClock, MemoryJournal

Parameters = dict[str, Any]
FAMILY: Mapping[str, str | None] = {
    "root": None, "ann": "root", "bob": "ann", "cat": "bob", "dan": "root", "lone": None,
}  # fmt: skip


def spec(name: str) -> AgentSpec:
    """The same UUID for the same name in every test."""
    head = sum(byte << 8 * at for at, byte in enumerate(name.encode()[:4]))
    return AgentSpec(uuid=UUID(int=(head << 96) + len(name)))


def family(parents: Mapping[str, str | None] = FAMILY) -> Hive:
    hive = Hive()
    for name, parent in parents.items():
        hive = hive.with_agent(name, parent, spec(name))
    return hive.validate()


class Asleep:
    """What the change road saw: nothing."""

    def state(self, uuid: str) -> State:
        return State.ABSENT if not uuid else State.STOPPED

    def activity(self, uuid: str) -> str:
        return "idle" if uuid else ""

    def machine(self, uuid: str) -> Machine | None:
        return Machine(uuid)

    def plan(self) -> ReconcilePlan:
        return ReconcilePlan()

    def parked_commits(self) -> list[tuple[str, str]]:
        return []

    def since(self) -> float:
        return 0.0

    def agent_alarms(self) -> dict[str, str]:
        return {}

    def alarms(self) -> list[str]:
        return []


class SlowReads:
    """What `Later` reads reach: a journal in memory, and a host where nothing is to do."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()

    async def fresh_plan(self) -> ReconcilePlan:
        return ReconcilePlan()

    async def cpu(self, _uuids: Iterable[str]) -> dict[str, Cpu]:
        return {}

    async def diff(self, _uuid: str, _approval: str, _at: int) -> tuple[bytes, bool]:
        return b"", False


@dataclass
class Desk:
    """The broker's side of the transport: turns happen when `run` is called."""

    woken: bool = False
    reads: list[tuple[ClientConnection, SlowRead]] = field(default_factory=list)

    def wake(self) -> None:
        self.woken = True

    def read(self, line: ClientConnection, read: SlowRead) -> None:
        self.reads.append((line, read))


class Phone:
    """One connection of one party."""

    def __init__(self, house: House, party: str, uid: int = 0) -> None:
        self.house = house
        self.replies: list[varlink.Message] = []
        self.closed = False
        self.line = ClientConnection(party, uid, self._take)

    def _take(self, data: bytes, close: bool) -> None:  # noqa: FBT001 - as Line.send
        self.closed = self.closed or close
        self.replies += [varlink.decode(frame) for frame in data.split(b"\0")[:-1]]

    def say(self, *frames: bytes | BadFrame) -> None:
        """Put frames on the wire without waiting for anything."""
        self.house.broker.receive(self.line, frames)

    def ask(self, method: str, parameters: Parameters | None = None, **flags: bool) -> None:
        """Put a call on the wire. `method` without a dot is one of ours."""
        full = method if "." in method else f"org.hive.Broker.{method}"
        message: varlink.Message = {"method": full, "parameters": parameters or {}, **flags}
        self.say(varlink.encode(message)[:-1])

    def call(self, method: str, parameters: Parameters | None = None) -> Parameters:
        """The result, or the error raised."""
        self.ask(method, parameters)
        self.house.run()
        return self.result()

    def result(self) -> Parameters:
        """The oldest reply that was not looked at."""
        assert self.replies, "no reply has come"
        reply = self.replies.pop(0)
        parameters = reply.get("parameters")
        assert isinstance(parameters, dict)
        if "error" in reply:
            raise from_wire(str(reply["error"]), parameters)
        return parameters

    def results(self) -> list[Parameters]:
        return [self.result() for _ in range(len(self.replies))]

    def error(self, method: str, parameters: Parameters | None = None) -> HiveError:
        """The error that the call must bring."""
        try:
            answer = self.call(method, parameters)
        except HiveError as error:
            return error
        raise AssertionError(f"{method} was answered: {answer}")


class House:
    """Everything of one hive but machines and sockets."""

    def __init__(
        self, ledger: Ledger, repo: MetaRepo, settings: Settings, registry: Mapping[str, Operation]
    ) -> None:
        self.clock = ManualClock()
        self.ledger, self.repo = ledger, repo
        self.desk = Desk()
        self.woken: list[frozenset[str]] = []
        hive = family()
        oid = repo.write(hive, Hive(), "family", {})
        with repo.hold("") as move, ledger.transaction():
            ledger.head = oid
            move(oid)
        world = Services(ledger, repo, settings, Asleep(), self.clock)
        self.broker = Broker(
            world, hive.at_commit(oid), registry, introspection_methods(registry, "1")
        )
        self.broker.attach(self.desk)
        self.broker.listeners.append(self.woken.append)

    @property
    def hive(self) -> Hive:
        return self.broker.hive

    def phone(self, name: str) -> Phone:
        """A new connection of an agent, or of the operator."""
        if name == OPERATOR:
            return Phone(self, OPERATOR, 1000)
        return Phone(self, spec(name).id)

    def run(self) -> None:
        """Turns until nothing is left to do."""
        while self.desk.woken:
            self.turn()

    def turn(self) -> None:
        self.desk.woken = False
        self.broker.serve_batch()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.run()

    def events(self, kind: str | None = None) -> list[Event]:
        events = self.ledger.events.page(0, 1000)
        return [entry for entry in events if kind in (None, entry.kind)]


@contextmanager
def open_house(
    folder: Path,
    registry: Mapping[str, Operation] = SMALL,
    settings: Settings | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> Iterator[House]:
    chosen = settings or Settings()
    empty_ledger().plant(folder)
    empty_repo().plant(folder)
    with closing(
        Ledger.open(folder / "hive.db", limits=chosen.limits, step=step, primed=0)
    ) as ledger:
        repo = MetaRepo.open(folder / "meta", step=step)
        yield House(ledger, repo, chosen, registry)
