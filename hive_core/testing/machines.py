"""A host in memory, which refuses the actions that the root helper refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from hive_core.errors import Conflict, HiveError, NotFound
from hive_core.model.agents.machine import Cpu, Exit, Machine, Observed, Orphan
from hive_core.model.names import agent_unit, slice_unit
from hive_core.plan import actions as a
from hive_core.plan.agent_steps import copied_root
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.diff import USUAL
from hive_core.plan.placement import limits_of
from hive_core.plan.results import Done, Result
from hive_core.plan.storage_state import StorageState
from hive_core.testing.clock import ManualClock


@dataclass
class MemoryMachines:
    """A host that starts units as requested, and fails as a test sets it.

    `slow`: units stay in transition until `settle` is called. `refused`: actions that fail, by
    kind. `meanwhile`: callbacks to run once during an observation; `beside`: during an action of
    this kind. `stubborn`: agents that never stop. `used`: processor time of running machines; it is
    dropped at their end.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    known: Callable[[], Iterable[str]] = tuple
    slow: bool = False
    storage: StorageState = field(default_factory=StorageState)
    units: dict[str, Machine] = field(default_factory=dict)
    exits: dict[str, Exit] = field(default_factory=dict)
    slices: dict[str, dict[str, int]] = field(default_factory=dict)
    strays: tuple[Orphan, ...] = ()
    refused: dict[str, HiveError] = field(default_factory=dict)
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    beside: dict[str, Callable[[], object]] = field(default_factory=dict)
    stubborn: set[str] = field(default_factory=set)
    used: dict[str, Cpu] = field(default_factory=dict)
    applied: list[a.Action | DaemonAction] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    _wakes: list[Callable[[str], None]] = field(default_factory=list)
    _serial: count[int] = field(default_factory=lambda: count(1))

    async def observe(self, uuids: Iterable[str] | None = None) -> Observed:
        """Facts about these agents; None: about everything on the host."""
        observed = self.snapshot(uuids)
        while self.meanwhile:
            self.meanwhile.pop(0)()
        return observed

    async def apply(self, action: a.Action | DaemonAction) -> Result:
        """Apply one action: on a host by the root helper, or by hived itself."""
        result = self.apply_now(action)
        if other := self.beside.pop(type(action).__name__, None):
            other()
        return result

    def subscribe(self, wake: Callable[[str], None]) -> None:
        self._wakes.append(wake)

    def forget_watchers(self) -> None:
        """Drop watchers and sockets, as a restart of the daemon does."""
        self._wakes.clear()
        store = self.storage
        for shown in (store.listening, store.identities, store.views, store.configs):
            shown.clear()

    def snapshot(self, uuids: Iterable[str] | None = None) -> Observed:
        known = {*self.known(), *self.units, *self.exits, *self.storage.uuids}
        shorts = {uuid[:8] for uuid in known}
        lost = sorted("/".join(node) for node in self.storage.nodes_without(shorts))
        strays = (*self.strays, *(Orphan("node", node) for node in lost))
        chosen = known if uuids is None else set(uuids)
        machines = {uuid: self._machine(uuid) for uuid in sorted(chosen)}
        return Observed(machines, strays if uuids is None else (), dict(self.slices))

    def _machine(self, uuid: str) -> Machine:
        store = self.storage
        return replace(
            self.units.get(uuid, Machine(uuid)),
            exit=self.exits.get(uuid), node=store.node(uuid[:8]), mounted=uuid in store.mounts,
            root=uuid in store.roots, copying=copied_root(uuid) in store.roots,
            archived=uuid in store.archives, socket_directory=uuid in store.socket_directories,
            listening=uuid in store.listening, identity=store.identities.get(uuid, 0),
            view=store.views.get(uuid, 0), config=store.configs.get(uuid, ""),
            stores=store.stores.get(uuid, frozenset()),
        )  # fmt: skip

    def apply_now(self, action: a.Action | DaemonAction) -> Result:
        """Apply one action at once."""
        if refusal := self.refused.get(type(action).__name__):
            raise refusal
        self._check(action)
        self.applied.append(action)
        self.storage.record(action)
        match action:
            case a.StartUnit():
                self._start(action)
            case a.StopUnit(uuid) | a.KillUnit(uuid):
                self._stop(uuid, killed=isinstance(action, a.KillUnit))
            case a.SetSlice(path, limits):
                self.slices[slice_unit(path)] = limits_of(limits)
            case a.RemoveSocketDirectory(uuid):
                self.exits.pop(uuid, None)
            case _:
                pass
        return Done(changed=True)

    def _check(self, action: a.Action | DaemonAction) -> None:
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

    def _check_unit(self, action: a.Action | DaemonAction) -> None:
        store = self.storage
        match action:
            case a.RemoveSocketDirectory(uuid) if uuid in store.mounts:
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
        if (
            action.uuid not in self.storage.mounts
            or action.uuid not in self.storage.socket_directories
        ):
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
        """Let the unit reach the state of its transition."""
        unit = self.units[uuid]
        if unit.active == "activating":
            self._put(uuid, replace(unit, active="active", sub="running", verified=True,
                                    executed=True, leader=unit.main_pid + 1))  # fmt: skip
        elif unit.active == "deactivating":
            self.end(uuid, Exit(unit.invocation, "success", "exited", "0", unit.nonce, asked=True))

    def _stop(self, uuid: str, *, killed: bool) -> None:
        unit = self.units.get(uuid)
        if unit is None or uuid in self.stubborn:
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
        """Remove the unit and record its exit."""
        self.exits[uuid] = replace(end, cpu=self.used.pop(uuid, None))
        self.storage.stores.pop(uuid, None)
        del self.units[uuid]
        self._wake(uuid)

    def crash(self, uuid: str, status: str = "1") -> None:
        """End the payload by itself; status "0" is not a crash."""
        unit = self.units[uuid]
        result = "success" if status == "0" else "exit-code"
        self.end(uuid, Exit(unit.invocation, result, "exited", status, unit.nonce))

    def stop_by_hand(self, uuid: str) -> None:
        """Stop the unit like `systemctl stop`."""
        unit = self.units[uuid]
        self.end(uuid, Exit(unit.invocation, "success", "exited", "0", unit.nonce, asked=True))

    def vanish(self, uuid: str) -> None:
        """Remove the unit without a trace, like a power failure."""
        del self.units[uuid]
        self._wake(uuid)

    def reboot(self) -> None:
        """Restart the host: only the storage on disk is left."""
        self.units.clear()
        self.exits.clear()
        self.slices.clear()
        self.storage = StorageState(self.storage.parents, self.storage.archives, self.storage.roots)

    def change(self, uuid: str, **facts: object) -> None:
        """Change facts of a unit, like a change by hand."""
        self._put(uuid, replace(self.units[uuid], **facts))  # type: ignore[arg-type]

    def _put(self, uuid: str, unit: Machine) -> None:
        self.units[uuid] = unit
        self._wake(uuid)

    def _wake(self, uuid: str) -> None:
        for wake in self._wakes:
            wake(uuid)
