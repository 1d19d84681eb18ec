"""Compares desired with observed state and gives the steps between them. Pure, level-triggered.

`tree` steps change the storage and go first, one after another. Then every agent has a list of
steps of its own, and these lists run in parallel. A list ends where the daemon has to wait; the
next pass plans the rest. Once all is applied, planning again gives no steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import cached_property
from typing import Final

from hive_core.model.agents.agent import SubtreeLimits
from hive_core.model.agents.machine import DesiredState, Machine, Observed, Orphan
from hive_core.model.names import agent_unit, slice_unit
from hive_core.plan.actions import MoveNode, SetSlice
from hive_core.plan.agent_steps import (
    POLL_MOST,
    AgentSteps,
    ReasonedAction,
    copied_root,
    show_actions,
)
from hive_core.plan.desired import Desired, Moment, ReconcilePlan, ReconcileStep
from hive_core.plan.destroyed_steps import DestroyedAgentSteps, unit_name
from hive_core.plan.placement import Placement, Placements, limits_of, subtree_limits
from hive_core.plan.render import DEFAULTS
from hive_core.plan.start_slots import StartSlots
from hive_core.plan.state import Phase, phase
from hive_core.plan.storage_steps import storage_steps

USUAL: Final = limits_of(DEFAULTS)


def plan(
    desired: Desired,
    observed: Observed,
    moment: Moment,
    dirty: Iterable[str] | None = None,
    slots: StartSlots | None = None,
) -> ReconcilePlan:
    """The next steps of the `dirty` agents (None: of all). `slots` bounds the starts."""
    return _Planner(desired, observed, moment, slots).plan(dirty)


def parents_first(places: Placements, uuids: Iterable[str]) -> list[str]:
    """Those of them that are in the tree, parents before children."""
    known = [places.by_uuid[uuid] for uuid in uuids if uuid in places.by_uuid]
    return [
        place.uuid for place in sorted(known, key=lambda place: (len(place.lineage), place.name))
    ]


def early_plan(
    desired: Desired, machines: Mapping[str, Machine], dirty: Iterable[str]
) -> ReconcilePlan:
    """The steps for a new tree that need no fresh observation.

    Nodes move by what is known of the storage. Then the agents' views are updated, leaves first:
    ancestors see more, so their views take longer.
    """
    living = parents_first(desired.places, dirty)
    tree = tuple(storage_steps(desired, machines, living))
    shown = {}
    for place in (desired.places.by_uuid[uuid] for uuid in reversed(living)):
        there = machines.get(place.uuid)
        if there and there.socket_directory and (acts := list(show_actions(desired, place, there))):
            shown[place.uuid] = tuple(ReconcileStep(place.uuid, place.name, *act) for act in acts)
    return ReconcilePlan(tree, shown)


def machines_starting(machines: Iterable[Machine]) -> dict[str, float]:
    """The machines that are starting, and since when."""
    return {machine.uuid: machine.since for machine in machines if is_starting(machine)}


def is_starting(machine: Machine) -> bool:
    match phase(machine):
        case Phase.COMING:
            return True
        case Phase.UP:
            return not (machine.verified and machine.executed)
        case _:
            return False


class _Planner:
    def __init__(
        self, desired: Desired, observed: Observed, moment: Moment, slots: StartSlots | None
    ) -> None:
        self._desired, self._observed, self._moment = desired, observed, moment
        self._slots = slots or StartSlots(
            desired.places, desired.settings.limits.starts_at_once,
            machines_starting(observed.machines.values()), moment.monotonic,
        )  # fmt: skip
        self._agents: dict[str, tuple[ReconcileStep, ...]] = {}
        self._waits: dict[str, float] = {}
        self._queued: list[str] = []
        self._reports: list[Orphan] = []
        self._set: set[str] = set()

    def plan(self, dirty: Iterable[str] | None) -> ReconcilePlan:
        """The plan for these agents, storage first."""
        places, machines = self._desired.places.by_uuid, self._observed.machines
        living = self._order(dirty)
        tree = tuple(storage_steps(self._desired, machines, living))
        blocked = self._blocked_agents(living)
        for uuid in living:
            self._add_living(places[uuid], uuid in blocked)
        gone = machines.keys() | self._desired.archives.keys() if dirty is None else set(dirty)
        moved = {step.action.target[-1] for step in tree if isinstance(step.action, MoveNode)}
        for uuid in sorted(self._destroyed_agents(gone)):
            self._add_destroyed_agent(uuid, moved)
        strays = self._observed.orphans if dirty is None else ()
        return ReconcilePlan(
            tree, self._agents, self._waits, tuple(self._queued), (*strays, *self._reports)
        )

    def _destroyed_agents(self, uuids: Set[str]) -> Set[str]:
        """Those that do not live, without copies of images, which are the affair of their agents.

        Also a destroyed agent clears its own, once its copying has ended.
        """
        places, archives = self._desired.places.by_uuid, self._desired.archives
        if not (gone := uuids - places.keys()):
            return gone
        return gone - {copied_root(uuid) for uuid in (*places, *archives)}

    def _order(self, dirty: Iterable[str] | None) -> list[str]:
        places = self._desired.places
        return list(places.by_uuid) if dirty is None else parents_first(places, dirty)

    def _machine(self, uuid: str) -> Machine:
        return self._observed.machines.get(uuid) or Machine(uuid)

    def _blocked_agents(self, living: Iterable[str]) -> set[str]:
        """Agents that stop only after a descendant has stopped: leaves stop first."""
        places, blocked = self._desired.places, set[str]()
        if not any(map(self._is_stopping, living)):
            return blocked
        for uuid in places.by_uuid:
            if self._is_stopping(uuid):
                blocked.update(place.uuid for place in places.above(uuid))
        return blocked

    def _is_stopping(self, uuid: str) -> bool:
        """Whether its unit is up and a stop or a restart was requested."""
        machine, run = self._observed.machines.get(uuid), self._desired.runs.get(uuid)
        if machine is None or machine.active == "inactive":
            return False
        unwanted = (
            run is None or run.wanted is not DesiredState.RUNNING or run.nonce != machine.nonce
        )
        return unwanted and phase(machine) is not Phase.DOWN

    def _add_living(self, place: Placement, blocked: bool) -> None:  # noqa: FBT001
        """Add the steps of an agent that is in the tree."""
        steps = AgentSteps(self._desired, place, self._machine(place.uuid), self._moment, blocked)
        if steps.is_settled:
            self._report(place, steps.machine)
            bounds = place.carries or place.parent is None
            acts = list(self._slices(place, loaded=True)) if bounds else []
        else:
            acts = [*steps.actions()]
            acts += self._start_in_slot(steps) if steps.wants_slot else ()
        self._add(place.uuid, place.name, acts, steps.wait)

    def _add(self, uuid: str, name: str, acts: list[ReasonedAction], wait: float | None) -> None:
        if acts:
            self._agents[uuid] = tuple(
                ReconcileStep(uuid, name, action, why) for action, why in acts
            )
        if wait is not None:
            self._waits[uuid] = wait

    def _start_in_slot(self, steps: AgentSteps) -> Iterator[ReasonedAction]:
        """The start, when there is a slot and no destroyed agent's unit still has the name."""
        place = steps.place
        if agent_unit(place.name) in self._units_in_use:
            steps.wait = self._moment.monotonic + POLL_MOST
        elif not self._slots.take(place.uuid):
            self._queued.append(place.uuid)
        else:
            yield from self._slices(place)
            yield from steps.start_actions()

    @cached_property
    def _units_in_use(self) -> set[str]:
        """Units of destroyed agents that still run; a new agent may have the same name."""
        return {
            machine.unit for machine in self._destroyed_machines if phase(machine) is not Phase.DOWN
        }

    @cached_property
    def _destroyed_machines(self) -> list[Machine]:
        places, machines = self._desired.places.by_uuid, self._observed.machines
        return [machines[uuid] for uuid in machines.keys() - places.keys()]

    def _slices(self, place: Placement, *, loaded: bool = False) -> Iterator[ReasonedAction]:
        """Limits of the slices that contain the unit; `loaded`: only of slices that exist.

        A slice exists as long as it has units, so its limits are set before its first unit starts.
        """
        if not loaded or slice_unit(()) in self._observed.slices:
            yield from self._slice((), self._desired.settings.all_limits)
        for ancestor in (*self._desired.places.above(place.uuid), place):
            if ancestor.carries and (not loaded or ancestor.slice_unit in self._observed.slices):
                yield from self._slice(ancestor.slice, ancestor.spec.subtree)

    def _slice(
        self, path: tuple[str, ...], limits: SubtreeLimits | None
    ) -> Iterator[ReasonedAction]:
        wanted = subtree_limits(limits)
        unit = slice_unit(path)
        if limits_of(wanted) != self._observed.slices.get(unit, {}) and unit not in self._set:
            self._set.add(unit)
            yield SetSlice(path, wanted), "its limits differ"

    def _report(self, place: Placement, machine: Machine) -> None:
        if machine.spec_hash != place.spec_hash:
            detail = "changed since its start; the next start applies it"
            self._reports.append(Orphan("spec", place.name, detail))
        elif machine.properties:
            wanted = {**USUAL, **limits_of(place.limits)}
            for key in sorted(wanted.keys() | machine.properties.keys()):
                if (actual := machine.properties.get(key)) != wanted.get(key):
                    detail = f"{key} is {actual}, not {wanted.get(key)}"
                    self._reports.append(Orphan("property", place.name, detail))

    def _add_destroyed_agent(self, uuid: str, moved: set[str]) -> None:
        machine = self._machine(uuid)
        expires = self._desired.archives.get(uuid)
        if expires is None:
            self._reports.extend(_orphans(machine))
            if uuid not in self._desired.unclaimed:
                return
            # Files of unknown agents are left to the operator.
            machine, expires = replace(machine, node=(), archived=False), 0.0
        kids = self._kids(machine, moved)
        if any(phase(kid) is not Phase.DOWN for kid in kids if kid in self._destroyed_machines):
            return  # leaves first
        busy = bool(kids) or not moved.isdisjoint(machine.node)
        gone = DestroyedAgentSteps(self._desired, machine, self._moment, expires, busy)
        self._add(uuid, unit_name(machine) or uuid, list(gone.actions()), gone.wait)

    def _kids(self, machine: Machine, moved: set[str]) -> list[Machine]:
        """Machines whose nodes lie below this one, and still do after this plan's moves."""
        if not machine.node:
            return []
        depth, node = len(machine.node), machine.node
        return [
            other for other in self._observed.machines.values()
            if len(other.node) > depth and other.node[:depth] == node
            and moved.isdisjoint(other.node[depth:])
        ]  # fmt: skip


def _orphans(machine: Machine) -> Iterator[Orphan]:
    """What is left of an agent that neither the tree nor the ledger knows."""
    if phase(machine) is not Phase.DOWN:
        yield Orphan("unit", machine.unit, f"of {machine.uuid}")
    if machine.node:
        yield Orphan("node", "/".join(machine.node), f"of {machine.uuid}")
    facts = {
        "mounted": machine.mounted, "root": machine.root,
        "socket directory": machine.socket_directory, "archived": machine.archived,
    }  # fmt: skip
    for kind, exists in facts.items():
        if exists:
            yield Orphan(kind, machine.uuid)
