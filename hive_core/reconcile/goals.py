"""When a job has ended: each of its agents reached its goal, or one of them no longer can. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hive_core.model.machine import Machine, Run, Starts, State, Wanted
from hive_core.model.record import Job
from hive_core.plan.place import Place, Places
from hive_core.plan.state import Phase, phase
from hive_core.reconcile.wishes import DONE, PENDING, losers

# Goals that others judge: see reconcile/deploy, reconcile/imports and operations/stopping_work.
OTHERS = ("approval:", "seed", "import:", "work:")
ENDED = "ended"  # how the reason of a wish starts that the agent's own end brought about
UP = (State.RUNNING, State.DEGRADED)
DOWN = (State.STOPPED, State.SLEEPING, State.ABSENT)
TROUBLE = (State.FAILED, State.PARKED)


@dataclass(frozen=True, slots=True)
class Scene:
    """What goals are judged by. `stuck`: agents whose steps keep failing, with the error."""

    places: Places
    machines: Mapping[str, Machine]
    runs: Mapping[str, Run]
    starts: Mapping[str, Starts]
    states: Mapping[str, State]
    stuck: Mapping[str, str]

    def machine(self, uuid: str) -> Machine:
        return self.machines.get(uuid) or Machine(uuid)

    def state(self, uuid: str) -> State:
        return self.states.get(uuid, State.ABSENT)

    def verdict(self, job: Job) -> str | None:
        """None: not yet. Empty: all reached. Else what went wrong."""
        found = [
            None if goal.startswith(OTHERS) else self._judge(uuid, goal, job)
            for uuid, goal in job.goals.items()
        ]
        faults = [each for each in found if each]
        if faults:
            return "; ".join(faults)
        return None if None in found else ""

    def _judge(self, uuid: str, goal: str, job: Job) -> str | None:
        if uuid in self.stuck and goal != "stopped":
            return self.stuck[uuid]
        place = self.places.by_uuid.get(uuid)
        if goal == "absent":
            return self._absent(uuid, place)
        if place is None:
            return "" if goal == "stopped" else "NotFound: it was destroyed meanwhile"
        return self._living(place, goal, job)

    def _living(self, place: Place, goal: str, job: Job) -> str | None:
        match goal:
            case "stopped":
                return self._stopped(place.uuid, place)
            case "moved":
                return self._moved(place, job)
            case _:
                return self._running(place.uuid, place)

    def _running(self, uuid: str, place: Place) -> str | None:
        run, state, starts = self.runs.get(uuid), self.state(uuid), self.starts.get(uuid)
        if run is None or run.wanted is not Wanted.RUNNING:
            own = run is not None and run.reason.startswith(ENDED)
            return "" if own else f"Conflict: {place.name} was stopped meanwhile"
        if state in TROUBLE:
            why = starts.why if starts else state.value
            return f"NotRunning: {place.name} {why}"
        return "" if state in UP else None

    def _stopped(self, uuid: str, place: Place) -> str | None:
        run = self.runs.get(uuid)
        if run is not None and run.wanted is Wanted.RUNNING:
            return f"Conflict: {place.name} was started meanwhile"
        return "" if self.state(uuid) in DOWN else None

    def _absent(self, uuid: str, place: Place | None) -> str | None:
        if place is not None:
            return f"Conflict: {place.name} was restored meanwhile"
        machine = self.machine(uuid)
        left = machine.node or machine.mounted or machine.door
        return None if left or phase(machine) is not Phase.DOWN else ""

    def _moved(self, place: Place, job: Job) -> str | None:
        subtree = self.places.hive.topology.subtree(place.name)
        pending = (
            self.machine(place.uuid).node != place.lineage
            or not all(self.cut_off(uuid, mark) for uuid, mark in losers(job).items())
            or not all(self._shown(self.places.named(name)) for name in subtree)
            or not all(self._shown(each) for each in self.places.above(place.uuid))
            or not all(self._shown(self.places.by_uuid[u]) for u in losers(job) if u in self.known)
        )
        return None if pending else ""

    @property
    def known(self) -> Mapping[str, Place]:
        return self.places.by_uuid

    def _shown(self, place: Place) -> bool:
        """Whether the agent sees what it should, from the slice that it should be in."""
        machine = self.machine(place.uuid)
        shown = (machine.identity, machine.view) == (place.identity, place.view)
        there = phase(machine) is Phase.DOWN or machine.slice == place.slice_unit
        return (shown or not machine.door) and there

    def cut_off(self, uuid: str, mark: str) -> bool:
        """Whether an agent that lost part of its view holds nothing of it any more."""
        machine = self.machine(uuid)
        if mark == DONE or phase(machine) is Phase.DOWN:
            return True
        return mark != PENDING and machine.nonce >= int(mark)
