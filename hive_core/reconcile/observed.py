"""The last observation of the host, and the states of all agents. Reading it never blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredRun, Machine, Observed, Orphan, State
from hive_core.model.agents.revocation import Revocation
from hive_core.model.config.settings import Settings
from hive_core.operations.host.notice_routes import route_alarms
from hive_core.operations.models.prices import price_alarms
from hive_core.plan.desired import Moment, ReconcilePlan
from hive_core.plan.diff import plan
from hive_core.plan.failure import alarm_without_parent
from hive_core.plan.placement import Placements
from hive_core.plan.revocation import agents_left_running
from hive_core.plan.state import facts, state_of
from hive_core.ports import Clock
from hive_core.reconcile import placed_agents
from hive_core.reconcile.ledger_cache import LedgerCache

NAMES: Final = 20  # in an alarm


@dataclass
class ObservedState:
    """The last observation of the host, and the current rows of the ledger."""

    cache: LedgerCache
    places: Placements
    clock: Clock
    started: float
    machines: dict[str, Machine] = field(default_factory=dict)
    slices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    strays: tuple[Orphan, ...] = ()
    states: dict[str, State] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    parked: list[tuple[str, str]] = field(default_factory=list)
    changed_paths: list[str] = field(default_factory=list)
    damage: str = ""
    faults: list[str] = field(default_factory=list)
    disk_is_full: Callable[[], bool] = lambda: False
    unseen: set[str] = field(default_factory=set)

    @classmethod
    def build(cls, ledger: Ledger, settings: Settings, hive: Hive, clock: Clock) -> Self:
        cache = LedgerCache(ledger, settings)
        cache.load()
        return cls(cache, Placements.build(hive, settings), clock, clock.now())

    # The expected agents (the roster of `host/systemd/machines.py`)

    def uuids(self) -> Iterable[str]:
        return (*self.places.by_uuid, *self.cache.archives)

    def name(self, uuid: str) -> str | None:
        place = self.places.by_uuid.get(uuid)
        return place.name if place else None

    def base(self, uuid: str) -> int | None:
        return self.cache.bases.get(uuid)

    @property
    def observed(self) -> Observed:
        return Observed(self.machines, self.strays, self.slices)

    def update(self, observed: Observed, *, whole: bool) -> None:
        """Store an observation of some agents, or of the whole host."""
        if whole:
            self.machines.clear()
            self.strays = observed.orphans
        self.machines.update(observed.machines)
        self.slices = observed.slices

    def update_states(self, uuids: set[str]) -> set[str]:
        """Compute the states of these agents; return the topics of those that changed."""
        changed = set()
        for uuid in uuids:
            state = self._current_state(uuid)
            if self.states.get(uuid) is not state:
                changed.add(f"state:{uuid}")
            shown = self.machines[uuid].config if uuid in self.machines else ""
            if self.configs.get(uuid, "") != shown:
                changed.add(f"config:{uuid}")
                self.configs[uuid] = shown
            if uuid in self.places.by_uuid or uuid in self.machines:
                self.states[uuid] = state
            else:
                self.states.pop(uuid, None)
                self.configs.pop(uuid, None)
        return changed

    def _current_state(self, uuid: str) -> State:
        """The state of an agent by its request and its machine."""
        return self._state_for(uuid, self.cache.runs.get(uuid))

    def _state_for(self, uuid: str, requested: DesiredRun | None) -> State:
        """The state that an agent with this request has now."""
        run = requested if uuid in self.places.by_uuid else None
        machine = self.machines.get(uuid) or self._recorded_machine(uuid)
        return state_of(facts(run, machine, self.cache.starts.get(uuid)))

    def _recorded_machine(self, uuid: str) -> Machine:
        """The machine of an agent that this daemon has not observed yet, by the ledger.

        A machine that was up when an earlier daemon recorded it counts as up. Otherwise each agent
        that crashed once would count as failed until the first pass, and a task that comes before
        it would not be offered: no start follows.
        """
        life = self.cache.ledger.lives.get(uuid) if uuid in self.places.by_uuid else None
        if life is None or not life.up:
            return Machine(uuid)
        return Machine(
            uuid, active="active", nonce=life.nonce, invocation=life.invocation, mounted=True,
            verified=True, executed=True,
        )  # fmt: skip

    @property
    def moment(self) -> Moment:
        return Moment(self.clock.now(), self.clock.monotonic())

    # Methods for the broker's operations

    def state(self, uuid: str) -> State:
        """The state by the last observation, with a run request that was recorded since.

        Without the request, a call right after a restart would see the state before it. A machine
        that was seen to run in this pass has a new state as well, before the pass computes it.
        """
        if uuid in self.unseen:
            return self._state_for(uuid, self.cache.ledger.runs.get(uuid))
        return self.states.get(uuid) or self._current_state(uuid)

    def activity(self, uuid: str) -> str:
        """The agent's activity, such as idle or working."""
        return self.cache.ledger.activity(uuid)

    def machine(self, uuid: str) -> Machine | None:
        return self.machines.get(uuid)

    def plan(self) -> ReconcilePlan:
        return plan(self.cache.desired_state(self.places), self.observed, self.moment)

    def parked_commits(self) -> Sequence[tuple[str, str]]:
        return self.parked

    def since(self) -> float:
        return self.started

    def agent_alarms(self) -> Mapping[str, str]:
        """Alarms of parked agents and of failed roots, by UUID."""
        names = self.places.by_uuid
        parked = {
            uuid: f"{names[uuid].name} is parked: {self.cache.starts[uuid].why}"
            for uuid, state in self.states.items()
            if state is State.PARKED and uuid in names and uuid in self.cache.starts
        }
        return {**dict(self._failures_without_parent()), **parked}

    def alarms(self) -> Sequence[str]:
        """Warnings for the operator."""
        return [text for text, _ in self.named_alarms()]

    def named_alarms(self) -> Sequence[tuple[str, str]]:
        """Damage, failing steps, failed and parked agents, changed files of the meta repository.

        With each goes the name of the agent that it is about, or an empty one.
        """
        names, ledger = self.places.by_uuid, self.cache.ledger
        damage = [text for text in (self.damage, *ledger.alarms()) if text]
        if self.disk_is_full():
            damage.append("the disk is full: free some space; agents can still be stopped")
        dirty = (
            f"changed in the folder of meta and not committed: {path}"
            for path in self.changed_paths
        )
        troubles = [(text, names[key].name if key in names else "")
                    for key, text in self.troubles.items()]  # fmt: skip
        agents = sorted((text, names[uuid].name) for uuid, text in self.agent_alarms().items())
        others = (*price_alarms(ledger), *route_alarms(ledger, self.cache.settings, self.started))
        return [
            *((text, "") for text in (*damage, *self.faults)), *troubles, *agents,
            *((text, "") for text in others), *self._held_files(),
            *((text, "") for text in dirty), *self._placed_agents(),
        ]  # fmt: skip

    def _held_files(self) -> Iterator[tuple[str, str]]:
        """The alarms about agents whose files others may still hold, each with its name."""
        for revocation in self.cache.revocations.values():
            if agents_left_running(revocation, self.places):
                yield (
                    f"may still hold files of {revocation.name}, and were not restarted:"
                    f" {self._names(revocation)}",
                    revocation.name,
                )

    def _placed_agents(self) -> Iterator[tuple[str, str]]:
        """The alarms about agents that were committed without a place, each with its name."""
        root = self.cache.settings.root.name
        return placed_agents.alarms(self.cache.ledger, self.places, root, self.clock.now())

    def _failures_without_parent(self) -> Iterator[tuple[str, str]]:
        """Failures of roots, which have no parent to notify, by UUID."""
        now, cache = self.clock.now(), self.cache
        for uuid, starts in cache.starts.items():
            place, run = self.places.by_uuid.get(uuid), cache.runs.get(uuid)
            if place is not None:
                text = alarm_without_parent(place, run, starts, cache.settings, now)
                yield from ((uuid, text),) if text else ()

    def _names(self, revocation: Revocation) -> str:
        """The names of the agents that were left running, shortened."""
        names = sorted(
            self.places.by_uuid[uuid].name for uuid in agents_left_running(revocation, self.places)
        )
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        return ", ".join(names[:NAMES]) + more
