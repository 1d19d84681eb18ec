"""The containers of this host, as seen by systemd and by the root helper.

Facts of a unit that only root can see are read once per invocation: a user namespace never changes.
The storage on disk is listed at intervals, and kept up to date by successful actions in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from hive_core.errors import Busy, HiveError
from hive_core.host.config.nix_profiles import NixProfiles
from hive_core.host.storage.disk_usage import has_quota, with_limits
from hive_core.host.storage.mountinfo import Mounts, MountWatch
from hive_core.host.storage.socket_directory import SocketDirectories
from hive_core.host.systemd import exits
from hive_core.host.systemd.bus import Bus, Unit, Unloaded
from hive_core.host.systemd.root_helper import Privd
from hive_core.model.agents.machine import Machine, Observed, Orphan
from hive_core.model.config.settings import Paths
from hive_core.model.names import agent_unit, is_uuid, slice_unit
from hive_core.plan import actions as a
from hive_core.plan.agent_steps import copied_root
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.placement import limits_of
from hive_core.plan.results import Done, Result, StorageFacts, UnitFacts
from hive_core.plan.storage_state import StorageState

AGENTS: Final = "hive-agent@"
_AT_A_LOOK: Final = 100
_AT_ONCE: Final = 20
_FORMING: Final = 0.4  # seconds in which a starting container shows nothing yet
_INFINITY: Final = 2**64 - 1
_MOVING: Final = (
    ("Unit", "InvocationID"), ("Unit", "StateChangeTimestampMonotonic"), ("Service", "MainPID"),
)  # fmt: skip
_STATIC: Final = (
    ("MemoryMax", "memory_max"), ("MemoryHigh", "memory_high"), ("TasksMax", "tasks_max"),
    ("CPUQuotaPerSecUSec", "cpu_quota"), ("CPUWeight", "cpu_weight"), ("IOWeight", "io_weight"),
)  # fmt: skip


class Roster(Protocol):
    """The agents that should be on this host; some have no unit."""

    def uuids(self) -> Iterable[str]: ...
    def name(self, uuid: str) -> str | None: ...
    def base(self, uuid: str) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Label:
    """The label that hive writes into a unit's description.

    Its agent, and what it was made from.
    """

    uuid: str
    nonce: int
    spec: str

    @classmethod
    def of(cls, unit: Unit) -> Label | None:
        match unit.description.split(" "):
            case ["hive", "agent", uuid, nonce, spec] if is_uuid(uuid) and nonce.isdecimal():
                return cls(uuid, int(nonce), spec)
            case _:
                return None


class UnitOwners:
    """The unit of each agent, including destroyed ones, whose start may complete late.

    Agents that had one name, one after the other, have one unit: the latest of them owns it.
    """

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._units: dict[str, str] = {}

    def remember(self, uuid: str, unit: str) -> None:
        self._owners[unit], self._units[uuid] = uuid, unit

    def owner(self, unit: str) -> str:
        """The agent that owns a unit; empty if it is unknown."""
        return self._owners.get(unit, "")

    def unit(self, uuid: str) -> str:
        """The last known unit of an agent; empty if there is none."""
        return self._units.get(uuid, "")

    def forget_others(self, uuids: Collection[str]) -> None:
        """Forget the units of all agents but these."""
        for uuid in self._units.keys() - uuids:
            unit = self._units.pop(uuid)
            if self._owners.get(unit) == uuid:
                del self._owners[unit]


class NspawnMachines:
    """The port `Machines` on a real host."""

    def __init__(
        self, bus: Bus, privd: Privd, shown: SocketDirectories, paths: Paths, roster: Roster
    ) -> None:
        self._bus, self._privd, self._shown = bus, privd, shown
        self._paths, self._roster = paths, roster
        self._loop = asyncio.get_running_loop()
        self._storage = StorageState()
        self._units = UnitOwners()
        self._known: dict[str, Machine] = {}  # by uuid: the last facts of a unit that is up
        self._slices: dict[str, dict[str, int]] = {}
        self._wakes: list[Callable[[str], None]] = []
        self._suspected: frozenset[str] = frozenset()
        self.has_quota = has_quota(paths.state / "tree")
        self.profiles = NixProfiles()
        self.mounts = MountWatch(
            paths.state / "mounts", paths.runtime / "agents", self._on_mounts_changed
        )

    def subscribe(self, wake: Callable[[str], None]) -> None:
        self._wakes.append(wake)

    def on_unit_signal(self, unit: str) -> None:
        """Handle a signal about a unit; an unknown unit causes a look at all agents."""
        uuid = self._units.owner(unit)
        for wake in self._wakes:
            wake(uuid)

    def on_topics(self, topics: frozenset[str]) -> None:
        """Show the identity again when secrets changed, because both are shown together."""
        for topic in topics:
            kind, _, uuid = topic.partition(":")
            if kind == "secret" and self._storage.identities.pop(uuid, None) is not None:
                for wake in self._wakes:
                    wake(uuid)

    def _on_mounts_changed(self, uuids: frozenset[str]) -> None:
        for uuid in uuids:
            for wake in self._wakes:
                wake(uuid)

    async def observe(self, uuids: Iterable[str] | None = None) -> Observed:
        if uuids is not None:
            wanted = set(uuids)
            units = await self._bus.list_named_units(sorted(self._unit_names(wanted)))
            return await self._observe(wanted, units)
        if await self._bus.state() == "stopping":
            raise Busy("the host is shutting down")
        self._storage.update(await self._privd.ask(a.ObserveStorage(), StorageFacts))
        units = await self._bus.list_units([f"{AGENTS}*.service"])
        self._suspected = self._next_machines_to_check()
        self._slices = await self._loaded_slices()
        labels = {label.uuid for unit in units if (label := Label.of(unit))}
        everyone = {*self._roster.uuids(), *self._storage.uuids, *labels}
        self._units.forget_others(everyone)
        observed = await self._observe(everyone, units)
        return replace(observed, orphans=tuple(self._strays(everyone, units)))

    def _next_machines_to_check(self) -> frozenset[str]:
        """The agents whose limits are read again: systemd does not report changes by hand.

        A few at each full observation, the longest unread first.
        """
        chosen = list(self._known)[:_AT_A_LOOK]
        for uuid in chosen:
            self._known[uuid] = self._known.pop(uuid)  # to the end of the order
        return frozenset(chosen)

    def _unit_names(self, uuids: Iterable[str]) -> Iterable[str]:
        for uuid in uuids:
            if name := self._roster.name(uuid):
                yield agent_unit(name)
            if unit := self._units.unit(uuid):
                yield unit

    def _strays(self, everyone: set[str], units: Iterable[Unit]) -> Iterable[Orphan]:
        for unit in units:
            if Label.of(unit) is None:
                yield Orphan("unit", unit.name, unit.active)
        shorts = {uuid[:8] for uuid in everyone}
        for node in sorted(self._storage.nodes_without(shorts)):
            yield Orphan("node", "/".join(node))

    async def _observe(self, uuids: set[str], units: Iterable[Unit]) -> Observed:
        labelled = {label.uuid: (unit, label) for unit in units if (label := Label.of(unit))}
        up = [unit for uuid, unit in labelled.items() if uuid in uuids]
        seen = {uuid: self._down(uuid) for uuid in uuids - labelled.keys()}
        for start in range(0, len(up), _AT_ONCE):
            batch = up[start : start + _AT_ONCE]
            for machine in await asyncio.gather(*(self._unit(*unit) for unit in batch)):
                seen[machine.uuid] = machine
        mounted = self.mounts.look()
        machines = {uuid: self._whole(machine, mounted) for uuid, machine in seen.items()}
        return Observed(machines, (), dict(self._slices))

    def _down(self, uuid: str) -> Machine:
        self._known.pop(uuid, None)
        return Machine(uuid)

    def _whole(self, machine: Machine, mounted: Mounts) -> Machine:
        """Add the state on disk.

        A partial mount counts as none, so that it is removed when not in use.
        """
        uuid, store = machine.uuid, self._storage
        whole = mounted.agents is None or uuid in mounted.agents or not machine.unit
        there = uuid in store.mounts and whole
        return replace(
            machine, exit=exits.read(self._paths.exits, uuid), node=store.node(uuid[:8]),
            mounted=there, root=uuid in store.roots, copying=copied_root(uuid) in store.roots,
            archived=uuid in store.archives, socket_directory=uuid in store.socket_directories,
            listening=uuid in store.listening, identity=store.identities.get(uuid, 0),
            view=store.views.get(uuid, 0), config=store.configs.get(uuid, ""),
            stores=mounted.visible_stores(uuid, store.stores.get(uuid, frozenset())),
        )  # fmt: skip

    async def _unit(self, unit: Unit, label: Label) -> Machine:
        """The facts of a loaded unit. It may end while they are read."""
        active = _active(unit)
        if active not in ("inactive", "failed"):
            with suppress(Unloaded):
                invocation, since, pid = await self._bus.get_many(unit.path, _MOVING)
                facts = Machine(
                    label.uuid, unit.name, active, unit.sub, nonce=label.nonce,
                    spec_hash=label.spec, invocation=bytes(invocation).hex(), main_pid=pid,
                    job=unit.job,
                    since=since / 1e6 if active == unit.active else self._loop.time(),
                )  # fmt: skip
                # systemd returns an empty one for a unit that it has just unloaded.
                if facts.invocation or unit.job:
                    facts = await self._with_unit_facts(unit, facts)
                    self._units.remember(label.uuid, unit.name)
                    self._known[label.uuid] = facts
                    return facts
        return self._down(label.uuid)

    async def _with_unit_facts(self, unit: Unit, facts: Machine) -> Machine:
        """Add what stays the same during an invocation: slice, limits, namespace."""
        known = self._known.get(facts.uuid)
        if known is not None and known.invocation == facts.invocation:
            facts = replace(
                facts, slice=known.slice, properties=known.properties, verified=known.verified,
                fault=known.fault, leader=known.leader, uid_base=known.uid_base,
            )  # fmt: skip
        if not facts.slice:
            facts = replace(facts, slice=await self._bus.get(unit.path, "Service", "Slice"))
        if facts.uuid in self._suspected:
            names = (("Service", property_name) for property_name, _ in _STATIC)
            facts = replace(facts, properties=_limits(await self._bus.get_many(unit.path, names)))
        age, done = self._loop.time() - facts.since, facts.verified or facts.fault
        there = facts.active == "active" or (facts.active == "activating" and age >= _FORMING)
        if there and facts.main_pid > 1 and not done:
            facts = await self._with_root_facts(facts)
        # systemd calls the unit active when its command is executed (hive-gate), or when its init
        # reports so.
        return replace(facts, executed=facts.verified and facts.active == "active")

    async def _with_root_facts(self, facts: Machine) -> Machine:
        """Add what only root can see: the namespace of the processes, and their root."""
        uuid, base = facts.uuid, self._roster.base(facts.uuid)
        node = self._storage.node(uuid[:8])
        name = facts.unit.removeprefix(AGENTS).removesuffix(".service")
        if base is None or not node:
            return facts
        try:
            look = a.ObserveUnit(uuid, name, node, base, facts.main_pid)
            unit_facts = await self._privd.ask(look, UnitFacts)
        except HiveError:
            return facts  # it may be ending; the next observation decides
        mapped = unit_facts.mapped
        return replace(
            facts,
            verified=unit_facts.ours and mapped and unit_facts.tree and unit_facts.payload,
            leader=unit_facts.leader,
            uid_base=base if mapped else 0,
            fault=_fault(unit_facts),
        )

    async def _loaded_slices(self) -> dict[str, dict[str, int]]:
        slices = {}
        for unit in await self._bus.list_units(["hive.slice", "hive-*.slice"]):
            if unit.name != "hive-jobs.slice" and unit.active == "active":
                names = (("Slice", property_name) for property_name, _ in _STATIC)
                with suppress(Unloaded):
                    slices[unit.name] = _limits(await self._bus.get_many(unit.path, names))
        return slices

    async def apply(self, action: a.Action | DaemonAction) -> Result:
        if not isinstance(action, DaemonAction):
            return await self._apply(action)
        await self._shown.apply(action)
        self._storage.record(action)
        return Done(changed=True)

    async def _apply(self, action: a.Action) -> Result:
        if isinstance(action, a.StartUnit):
            self._units.remember(action.uuid, agent_unit(action.name))
            if action.system is not None:
                self.profiles.link_booted_system(action.uuid, action.system)
        if isinstance(action, a.MakeSocketDirectory | a.RemoveSocketDirectory):
            self._shown.forget(action.uuid)
        if isinstance(action, a.Mount):
            action = with_limits(action, quota=self.has_quota)
        result = await self._privd.apply(action)
        self._storage.record(action)
        if isinstance(action, a.SetSlice):
            self._slices[slice_unit(action.path)] = limits_of(action.limits)
        return result


def _active(unit: Unit) -> str:
    """The state to which a pending job of the unit leads."""
    if unit.job in ("start", "restart") and unit.active in ("inactive", "failed"):
        return "activating"
    if unit.job == "stop" and unit.active in ("active", "activating", "reloading"):
        return "deactivating"
    return unit.active


def _fault(facts: UnitFacts) -> str:
    """Why a running payload must not continue (attack 1); empty before the payload runs."""
    if not facts.payload:
        return ""
    if not facts.mapped:
        return "its user namespace is not mapped to its uid range"
    return "" if facts.tree else "it sees a directory that is not its own"


def _limits(values: Iterable[int]) -> dict[str, int]:
    """The limits that are set, with the names of `actions.Limits`; weights have a default."""
    pairs = zip((name for _, name in _STATIC), values, strict=True)
    limits = {name: value for name, value in pairs if value < _INFINITY}
    if "cpu_quota" in limits:  # microseconds of each second -> percent
        limits["cpu_quota"] //= 10_000
    return limits
