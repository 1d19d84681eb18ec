"""In-memory twins of the four ports, for tests of this project and of programs that build on it.

They keep the rules that the real ones keep (what privd would refuse is refused), so a plan that
works here fails there only for reasons that a machine alone can have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

from hive_core.errors import Conflict, HiveError, NotFound
from hive_core.model.machine import Exit, Machine, Observed, Stray
from hive_core.model.names import agent_unit, slice_unit
from hive_core.model.record import LogLine, LogQuery
from hive_core.plan import actions as a
from hive_core.plan.diff import USUAL
from hive_core.plan.local import Local
from hive_core.plan.place import limits_of
from hive_core.plan.results import Done, Ended, Holder, Result
from hive_core.plan.storage import Storage

TIME = 1_700_000_000.0


@dataclass
class ManualClock:
    """Time that passes when told to."""

    time: float = TIME
    steady: float = 1000.0
    _timers: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _serial: count[int] = field(default_factory=count)
    _cancelled: set[int] = field(default_factory=set)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.steady

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        serial = next(self._serial)
        heappush(self._timers, (when, serial, callback))
        return lambda: self._cancelled.add(serial)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers run in order, each at its own time."""
        until = self.steady + seconds
        while self._timers and self._timers[0][0] <= until:
            when, serial, callback = heappop(self._timers)
            self._pass(max(0.0, when - self.steady))
            if serial not in self._cancelled:
                callback()
        self._pass(until - self.steady)

    def _pass(self, seconds: float) -> None:
        self.steady += seconds
        self.time += seconds


@dataclass
class MemoryMachines:
    """A host that starts what it is told to, and breaks when a test says so.

    `slow`: units stay on their way until `settle` is called. `refused`: actions that fail, by kind.
    `holding`: processes that `EndHolders` finds, by agent.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    known: Callable[[], Iterable[str]] = tuple
    slow: bool = False
    storage: Storage = field(default_factory=Storage)
    units: dict[str, Machine] = field(default_factory=dict)
    exits: dict[str, Exit] = field(default_factory=dict)
    slices: dict[str, dict[str, int]] = field(default_factory=dict)
    strays: tuple[Stray, ...] = ()
    refused: dict[str, HiveError] = field(default_factory=dict)
    holding: dict[str, tuple[Holder, ...]] = field(default_factory=dict)
    applied: list[a.Action | Local] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    _wakes: list[Callable[[str], None]] = field(default_factory=list)
    _serial: count[int] = field(default_factory=lambda: count(1))

    async def observe(self, uuids: Iterable[str] | None = None) -> Observed:
        return self.look(uuids)

    async def apply(self, action: a.Action | Local) -> Result:
        return self.do(action)

    def subscribe(self, wake: Callable[[str], None]) -> None:
        self._wakes.append(wake)

    def look(self, uuids: Iterable[str] | None = None) -> Observed:
        known = {*self.known(), *self.units, *self.exits, *self.storage.uuids}
        shorts = {uuid[:8] for uuid in known}
        lost = sorted("/".join(node) for node in self.storage.nodes_without(shorts))
        strays = (*self.strays, *(Stray("node", node) for node in lost))
        chosen = known if uuids is None else set(uuids)
        machines = {uuid: self._machine(uuid) for uuid in sorted(chosen)}
        return Observed(machines, strays if uuids is None else (), dict(self.slices))

    def _machine(self, uuid: str) -> Machine:
        store = self.storage
        return replace(
            self.units.get(uuid, Machine(uuid)),
            exit=self.exits.get(uuid), node=store.node(uuid[:8]), mounted=uuid in store.mounts,
            root=uuid in store.roots, archived=uuid in store.archives, door=uuid in store.doors,
            listening=uuid in store.listening, identity=store.identities.get(uuid, 0),
            view=store.views.get(uuid, 0),
        )  # fmt: skip

    def do(self, action: a.Action | Local) -> Result:
        """Apply one action at once."""
        if refusal := self.refused.get(type(action).__name__):
            raise refusal
        self._check(action)
        self.applied.append(action)
        self.storage.applied(action)
        match action:
            case a.StartUnit():
                self._start(action)
            case a.StopUnit(uuid) | a.KillUnit(uuid):
                self._stop(uuid, killed=isinstance(action, a.KillUnit))
            case a.SetSlice(path, limits):
                self.slices[slice_unit(path)] = limits_of(limits)
            case a.EndHolders(uuid):
                return Ended(self.holding.pop(uuid, ()), 2)
            case _:
                pass
        return Done(changed=True)

    def _check(self, action: a.Action | Local) -> None:
        store = self.storage
        match action:
            case a.MakeNode(lineage) | a.RestoreNode(_, lineage) | a.MoveNode(_, lineage):
                if isinstance(action, a.MoveNode) and store.node(lineage[-1]) != action.source:
                    raise NotFound(f"no node {'/'.join(action.source)}")
                if len(lineage) > 1 and store.node(lineage[-2]) != lineage[:-1]:
                    raise NotFound(f"no node {'/'.join(lineage[:-1])}")
            case a.ArchiveNode(lineage):
                if store.node(lineage[-1]) != lineage or any(store.kids(lineage[-1])):
                    raise Conflict("the node is elsewhere, or has children")
            case _:
                self._check_unit(action)

    def _check_unit(self, action: a.Action | Local) -> None:
        store = self.storage
        match action:
            case a.CloseDoor(uuid) if uuid in store.mounts:
                raise Conflict("the root is mounted")
            case a.Mount(uuid, lineage):
                if store.node(uuid[:8]) != lineage:
                    raise NotFound("no such node")
            case a.StartUnit():
                self._check_start(action)
            case _:
                pass

    def _check_start(self, action: a.StartUnit) -> None:
        names = {unit.unit for unit in self.units.values() if unit.active != "inactive"}
        if agent_unit(action.name) in names:
            raise Conflict(f"{agent_unit(action.name)} runs already")
        if action.uuid not in self.storage.mounts or action.uuid not in self.storage.doors:
            raise Conflict("nothing is mounted")

    def _start(self, action: a.StartUnit) -> None:
        self.starts.append(action.uuid)
        serial = next(self._serial)
        self.units[action.uuid] = Machine(
            action.uuid, agent_unit(action.name), "activating", "start", nonce=action.nonce,
            spec_hash=action.spec, invocation=f"{serial:032x}", main_pid=1000 + serial,
            since=self.clock.monotonic(), slice=slice_unit(action.slice), uid_base=action.base,
            properties={**USUAL, **limits_of(action.limits)},
        )  # fmt: skip
        if not self.slow:
            self.settle(action.uuid)

    def settle(self, uuid: str) -> None:
        """The unit gets where it was going."""
        unit = self.units[uuid]
        if unit.active == "activating":
            self._put(uuid, replace(unit, active="active", sub="running", verified=True,
                                    executed=True, leader=unit.main_pid + 1))  # fmt: skip
        elif unit.active == "deactivating":
            self.end(uuid, Exit(unit.invocation, "success", "exited", "0", unit.nonce, asked=True))

    def _stop(self, uuid: str, *, killed: bool) -> None:
        unit = self.units.get(uuid)
        if unit is None:
            return
        if killed:
            asked = unit.active == "deactivating"
            end = Exit(unit.invocation, "signal", "killed", "KILL", unit.nonce, asked=asked)
            self.end(uuid, end)
        elif unit.active != "deactivating":
            stopping = replace(unit, active="deactivating", sub="stop-sigterm")
            self._put(uuid, replace(stopping, since=self.clock.monotonic()))
            if not self.slow:
                self.settle(uuid)

    def end(self, uuid: str, end: Exit) -> None:
        """The unit is gone, and its exit stands written."""
        self.exits[uuid] = end
        del self.units[uuid]
        self._wake(uuid)

    def crash(self, uuid: str, status: str = "1") -> None:
        """The payload ends by itself; "0" is no crash."""
        unit = self.units[uuid]
        result = "success" if status == "0" else "exit-code"
        self.end(uuid, Exit(unit.invocation, result, "exited", status, unit.nonce))

    def stopped_by_hand(self, uuid: str) -> None:
        """As `systemctl stop` does."""
        unit = self.units[uuid]
        self.end(uuid, Exit(unit.invocation, "success", "exited", "0", unit.nonce, asked=True))

    def vanish(self, uuid: str) -> None:
        """The unit is gone without a trace, as after a power failure."""
        del self.units[uuid]
        self._wake(uuid)

    def reboot(self) -> None:
        """The host starts anew: only what lies on disk is left."""
        self.units.clear()
        self.exits.clear()
        self.slices.clear()
        self.storage = Storage(self.storage.parents, self.storage.archives, self.storage.roots)

    def change(self, uuid: str, **facts: object) -> None:
        """Drift by hand on a unit."""
        self._put(uuid, replace(self.units[uuid], **facts))  # type: ignore[arg-type]

    def _put(self, uuid: str, unit: Machine) -> None:
        self.units[uuid] = unit
        self._wake(uuid)

    def _wake(self, uuid: str) -> None:
        for wake in self._wakes:
            wake(uuid)


@dataclass
class MemoryJournal:
    """Lines that a test wrote down."""

    lines: list[tuple[str, LogLine]] = field(default_factory=list)
    _new: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, uuid: str, text: str, unit: str = "", time: float = TIME) -> None:
        cursor = str(len(self.lines) + 1)
        self.lines.append((uuid, LogLine(time, unit, text, cursor)))
        self._new.set()

    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        found = self._matching(query)
        return found[: query.lines] if query.after else found[-query.lines :]

    def _matching(self, query: LogQuery) -> list[LogLine]:
        return [
            line for uuid, line in self.lines
            if uuid == query.uuid and query.grep in line.text and line.time >= (query.since or 0)
            and int(line.cursor) > int(query.after or 0)
        ]  # fmt: skip

    async def follow(self, query: LogQuery) -> AsyncIterator[LogLine]:
        seen = query
        while True:
            for line in self._matching(seen):
                seen = replace(seen, after=line.cursor)
                yield line
            self._new.clear()
            await self._new.wait()


@dataclass
class MemoryJobs:
    """Jobs that do their work on a `MemoryMachines` at once, or fail as told."""

    machines: MemoryMachines
    ran: list[a.RunJob] = field(default_factory=list)
    refused: HiveError | None = None

    def run(self, action: a.RunJob) -> Awaitable[Result]:
        return self._run(action)

    async def _run(self, action: a.RunJob) -> Result:
        self.ran.append(action)
        if self.refused is not None:
            raise self.refused
        if action.work is a.JobKind.COPY_TREE:
            self.machines.storage.roots.add(action.job)
        return Done(changed=True)
