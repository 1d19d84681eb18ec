"""Decides when a job has ended: all its agents reached their goal, or one can no longer. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hive_core.model.agents.machine import DesiredRun, DesiredState, FailureHistory, Machine, State
from hive_core.model.wire.record import JobRecord
from hive_core.plan.placement import Placement, Placements
from hive_core.plan.state import Phase, phase

# Goals that other modules judge: see reconcile/deploy, reconcile/jobs and operations/stopping_work.
OTHERS = ("approval:", "seed", "import:", "work:")
MOVED = "moved"  # the goal of an agent that moves
RESTARTING = "restarting"  # in the progress of a job: see `restarted_agents`
ENDED = "ended"  # first word of the reason if the agent's own exit stopped it
UP = (State.RUNNING, State.DEGRADED)
DOWN = (State.STOPPED, State.SLEEPING, State.ABSENT)
TROUBLE = (State.FAILED, State.PARKED)


def restarted_agents(job: JobRecord) -> Sequence[str]:
    """The agents that were restarted because of a job, as far as recorded."""
    uuids = job.progress.get(RESTARTING, ())
    return uuids if isinstance(uuids, list) else ()


@dataclass(frozen=True, slots=True)
class JobGoals:
    """The facts by which goals are judged.

    `stuck`: agents whose steps keep failing, with the error.

    `revoking`: jobs that wait until access is revoked.
    """

    places: Placements
    machines: Mapping[str, Machine]
    runs: Mapping[str, DesiredRun]
    starts: Mapping[str, FailureHistory]
    states: Mapping[str, State]
    stuck: Mapping[str, str]
    revoking: Collection[str] = ()

    def machine(self, uuid: str) -> Machine:
        return self.machines.get(uuid) or Machine(uuid)

    def state(self, uuid: str) -> State:
        return self.states.get(uuid, State.ABSENT)

    def verdict(self, job: JobRecord) -> str | None:
        """The result of a job. None: it has not ended; empty: all goals reached; else the error."""
        if job.id in self.revoking or not all(map(self._is_back, restarted_agents(job))):
            return None
        verdicts = [
            None if goal.startswith(OTHERS) else self._agent_verdict(uuid, goal)
            for uuid, goal in job.goals.items()
        ]
        faults = [verdict for verdict in verdicts if verdict]
        if faults:
            return "; ".join(faults)
        return None if None in verdicts else ""

    def _is_back(self, uuid: str) -> bool:
        """Whether a restarted agent is up again, or has failed to come up."""
        run, state = self.runs.get(uuid), self.state(uuid)
        if uuid not in self.places.by_uuid or run is None or run.wanted is not DesiredState.RUNNING:
            return True
        return state in TROUBLE or (state in UP and self.machine(uuid).nonce == run.nonce)

    def _agent_verdict(self, uuid: str, goal: str) -> str | None:
        if uuid in self.stuck and goal != "stopped":
            return self.stuck[uuid]
        place = self.places.by_uuid.get(uuid)
        if goal == "absent":
            return self._absent_verdict(uuid, place)
        if place is None:
            return "" if goal == "stopped" else "NotFound: the agent was destroyed meanwhile"
        return self._living_verdict(place, goal)

    def _living_verdict(self, place: Placement, goal: str) -> str | None:
        match goal:
            case "stopped":
                return self._stop_verdict(place.uuid, place)
            case "moved":
                return self._move_verdict(place)
            case _:
                return self._start_verdict(place.uuid, place)

    def _start_verdict(self, uuid: str, place: Placement) -> str | None:
        run, state, starts = self.runs.get(uuid), self.state(uuid), self.starts.get(uuid)
        if run is None or run.wanted is not DesiredState.RUNNING:
            own = run is not None and run.reason.startswith(ENDED)
            return "" if own else f"Conflict: {place.name} was stopped meanwhile"
        if state in TROUBLE:
            why = starts.why if starts else state.value
            return f"NotRunning: {place.name} {why}"
        return "" if state in UP else None

    def _stop_verdict(self, uuid: str, place: Placement) -> str | None:
        run = self.runs.get(uuid)
        if run is not None and run.wanted is DesiredState.RUNNING:
            return f"Conflict: {place.name} was started meanwhile"
        return "" if self.state(uuid) in DOWN else None

    def _absent_verdict(self, uuid: str, place: Placement | None) -> str | None:
        if place is not None:
            return f"Conflict: {place.name} was restored meanwhile"
        machine = self.machine(uuid)
        left = machine.node or machine.mounted or machine.socket_directory
        return None if left or phase(machine) is not Phase.DOWN else ""

    def _move_verdict(self, place: Placement) -> str | None:
        subtree = self.places.hive.topology.subtree(place.name)
        pending = (
            self.machine(place.uuid).node != place.lineage
            or not all(self._is_up_to_date(self.places.by_name(name)) for name in subtree)
            or not all(self._is_up_to_date(ancestor) for ancestor in self.places.above(place.uuid))
        )
        return None if pending else ""

    def _is_up_to_date(self, place: Placement) -> bool:
        """Whether the agent's view and slice are up to date."""
        machine = self.machine(place.uuid)
        shown = (machine.identity, machine.view) == (place.identity, place.view)
        there = phase(machine) is Phase.DOWN or machine.slice == place.slice_unit
        return (shown or not machine.socket_directory) and there
