"""The change path: observe, count exits, plan, apply, finish jobs. Any change wakes it.

A pass observes only the dirty agents; a full pass observes the whole host. Long work runs in one
task per agent, so a slow machine delays no other. The reconciler has no state that a new daemon
could not read again from the ledger, from git and from the host.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from hive_core.errors import HiveError
from hive_core.model.agents.machine import DesiredState, Machine
from hive_core.plan.desired import ReconcilePlan
from hive_core.plan.diff import early_plan, machines_starting, parents_first, plan
from hive_core.plan.placement import Placements
from hive_core.plan.start_slots import StartSlots
from hive_core.plan.state import Phase, phase
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.exit_counting import ExitCounter
from hive_core.reconcile.jobs.goals import MOVED, JobGoals, restarted_agents
from hive_core.reconcile.ledger_cache import LedgerCache
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.revocation import Revoker, StorageApplier
from hive_core.reconcile.runner import ActionRunner

log = logging.getLogger(__name__)
FULL_EVERY: Final = 60.0
RETRY_AFTER: Final = 1.0
SLICE: Final = 100  # agents planned before the event loop serves others
FULL = ""  # the name of the timer for full passes


@dataclass
class Reconciler:
    """Runs passes. Call `on_topics` and `requeue` when something happened; `run` does the rest."""

    ports: Ports
    broker: BrokerHandle
    observed: ObservedState
    cache: LedgerCache
    runner: ActionRunner
    exit_counter: ExitCounter
    storage: StorageApplier
    revoker: Revoker
    first_observation: asyncio.Event = field(default_factory=asyncio.Event)
    _dirty: dict[str, None] = field(default_factory=dict)
    _stale: set[str] = field(default_factory=set)
    _queued: dict[str, None] = field(default_factory=dict)
    _machines_starting: dict[str, float] = field(default_factory=dict)
    _whole: bool = True
    _tree: bool = False
    _sweep: bool = False
    _waits_for_slots: bool = False
    _awake: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def build(
        cls,
        ports: Ports,
        broker: BrokerHandle,
        look: ObservedState,
        fatal: Callable[[BaseException], None],
    ) -> Self:
        work = ActionRunner(ports, broker, look, fatal)
        awake = asyncio.Event()
        revoker = Revoker.build(work, awake.set, fatal)
        reconciler = cls(
            ports, broker, look, look.cache, work, ExitCounter(work), StorageApplier(work, revoker),
            revoker, _awake=awake,
        )  # fmt: skip
        work.requeue = reconciler.requeue
        ports.machines.subscribe(reconciler.requeue)
        reconciler.requeue(FULL)
        return reconciler

    # Waking

    def on_topics(self, topics: frozenset[str]) -> None:
        """Mark as dirty what the request path has recorded."""
        for topic in topics:
            kind, _, uuid = topic.partition(":")
            if kind == "tree":
                self._tree = True
            elif kind == "run":
                self._stale.add(uuid)
                self.observed.unseen.add(uuid)
                self._dirty[uuid] = None
            elif kind in ("converge", "gc"):
                self._whole = True
                self._sweep |= kind == "gc"
            else:
                continue
            self._awake.set()

    def requeue(self, uuid: str) -> None:
        """Check this agent in the next pass; an empty UUID means all agents."""
        if uuid:
            self._dirty[uuid] = None
        else:
            self._whole = True
        self._awake.set()

    @property
    def idle(self) -> bool:
        """Whether nothing is dirty and no task runs; timers may still be set."""
        asked = self._whole or self._tree or self._dirty or self._stale
        return not (asked or self.runner.busy or self.revoker.busy or self._next_in_queue())

    async def fresh_plan(self) -> ReconcilePlan:
        """The plan of a full pass, after a fresh observation of the whole host.

        The observation is not stored, because it may be older than results of a running pass.
        """
        observed = await self.ports.machines.observe()
        return plan(self.cache.desired_state(self.observed.places), observed, self.observed.moment)

    async def run(self) -> None:
        """Run passes until cancelled."""
        while True:
            await self._awake.wait()
            self._awake.clear()
            try:
                await self.converge()
            except HiveError as error:
                # The disk is full, or systemd does not answer: retry later.
                log.warning("Cannot converge: %s", error)
                self.observed.troubles[FULL] = f"cannot converge: {error}"
                self._whole = True
                self.ports.clock.call_at(
                    self.ports.clock.monotonic() + RETRY_AFTER, self._awake.set
                )

    # One pass

    async def converge(self) -> None:
        """Run one pass over the dirty agents."""
        if self._reload_rows() and self.first_observation.is_set():
            desired, idle = (
                self.cache.desired_state(self.observed.places),
                {*self._dirty} - {*self.runner.busy},
            )
            await self.storage.apply_early(early_plan(desired, self.observed.machines, idle))
        whole, dirty = self._take_dirty()
        if not (whole or dirty):
            self.revoker.advance()
            return
        dirty = await self._observe(whole=whole, dirty=dirty)
        dirty -= self.exit_counter.count_exits(dirty)
        self._update_states(dirty)
        self.first_observation.set()
        self.revoker.advance()
        for part in self._parts(dirty):
            await self._apply(part, self._plan(part))
            await asyncio.sleep(0)
        self._await_slots()
        self.observed.troubles.pop(FULL, None)

    def _reload_rows(self) -> bool:
        """Read the tree and the rows again if they changed; return whether the tree is new."""
        if another := self._tree:
            self._tree = False
            before = self.observed.places
            places = Placements.build(self.broker.hive(), self.ports.settings, before)
            self.observed.places = places
            for uuid in before.by_uuid.keys() | places.by_uuid.keys():
                if before.by_uuid.get(uuid) is not places.by_uuid.get(uuid):
                    self._dirty[uuid] = None
                    self._stale.add(uuid)
        for uuid in self._stale:
            self.runner.forget(uuid)  # a new request clears earlier failures
        if self._stale or self._whole or another:  # two moves may end in the tree from before
            self.cache.reload(self._stale)
            self._stale.clear()
        if another or self._whole:
            self._add_missing_rows()
        return another

    def _add_missing_rows(self) -> None:
        """Create the rows of agents from a manual commit: they should run."""
        known = self.observed.places.by_uuid.keys()
        missing = (known - self.cache.runs.keys()) | (known - self.cache.bases.keys())
        if not missing:
            return
        ledger, now = self.ports.ledger, self.ports.clock.now()
        with ledger.transaction():
            for uuid in sorted(missing):
                if uuid not in self.cache.runs:
                    ledger.runs.want(uuid, DesiredState.RUNNING, now, reason="declared")
                ledger.ranges.allocate(uuid, self.ports.settings.uid_start, now)
        self.cache.refresh(missing)
        self._dirty.update(dict.fromkeys(missing))

    def _take_dirty(self) -> tuple[bool, set[str]]:
        whole, self._whole = self._whole, False
        dirty = {*self._dirty, *self._next_in_queue()} - self.runner.busy.keys()
        # An agent whose rows changed since they were read waits for the next pass, which reads them
        # again. By the old rows there would be nothing to do, and the change would be lost.
        dirty -= self._stale
        self._dirty = {
            uuid: None for uuid in self._dirty if uuid in self.runner.busy or uuid in self._stale
        }
        for uuid in dirty:
            self._queued.pop(uuid, None)
        if whole:
            self.runner.requeue_at(FULL, self.ports.clock.monotonic() + FULL_EVERY)
        return whole, dirty

    async def _observe(self, *, whole: bool, dirty: set[str]) -> set[str]:
        """Ask the host for facts about these agents, or about all."""
        # The observation may miss what these agents' tasks do now; they are requeued afterwards.
        busy = {*self.runner.busy}
        try:
            observed = await self.ports.machines.observe(None if whole else dirty)
        except HiveError:
            self._dirty.update(dict.fromkeys(dirty))
            raise
        self.observed.update(observed, whole=whole)
        if whole:
            self._machines_starting.clear()
            everyone = {*self.observed.places.by_uuid, *observed.machines, *self.cache.archives}
            if self._sweep:
                self._sweep = False
                self.cache.find_unclaimed_agents(observed.machines, self.observed.places)
            dirty = (everyone | self.cache.unclaimed | dirty) - busy
        for uuid in observed.machines:
            machine = observed.machines[uuid]
            self._machines_starting.pop(uuid, None)
            self._machines_starting |= machines_starting([machine])
            if uuid not in busy:  # its start may have been requested during the observation
                self.runner.starting.pop(uuid, None)
        return dirty

    def _update_states(self, dirty: set[str]) -> None:
        """Update the states of the dirty agents, and finish the jobs that waited for them."""
        before = {uuid: self.observed.states.get(uuid) for uuid in dirty}
        topics = self.observed.update_states(dirty)
        self.observed.unseen &= self._stale
        self._requeue_ancestors(
            uuid for uuid in dirty if self.observed.states.get(uuid) is not before[uuid]
        )
        topics |= self._finish_jobs(dirty)
        self.broker.touch(frozenset(topics))

    def _requeue_ancestors(self, changed: Iterable[str]) -> None:
        """Requeue the ancestors of agents that went down: they stop after their descendants."""
        above, past = set[str](), False
        for uuid in changed:
            if phase(self.observed.machines.get(uuid) or Machine(uuid)) is not Phase.DOWN:
                continue
            if uuid in self.observed.places.by_uuid:
                above.update(place.uuid for place in self.observed.places.above(uuid))
            else:
                past = True
        if past:
            above.update(uuid for uuid in self.cache.archives if uuid in self.observed.machines)
        for uuid in above:
            self.requeue(uuid)

    def _finish_jobs(self, dirty: set[str]) -> set[str]:
        """End the jobs whose agents have reached their goals, or have failed."""
        scene = JobGoals(
            self.observed.places, self.observed.machines, self.cache.runs, self.cache.starts,
            self.observed.states, self.runner.stuck, self.cache.revoking,
        )  # fmt: skip
        ended: dict[str, str] = {}
        for job in self.cache.jobs.values():
            moving = MOVED in job.goals.values() or restarted_agents(job)
            if moving or not dirty.isdisjoint(job.goals):
                verdict = scene.verdict(job)
                waits = verdict == "" and not self.runner.busy.keys().isdisjoint(job.goals)
                if verdict is not None and not waits:  # the facts about busy agents are old
                    ended[job.id] = verdict
        if ended:
            with self.ports.ledger.transaction():
                for job_id, error in ended.items():
                    self.ports.ledger.jobs.finish(job_id, error, self.ports.clock.now())
            for job_id in ended:
                del self.cache.jobs[job_id]
        return {f"job:{job_id}" for job_id in ended}

    def _parts(self, dirty: set[str]) -> Iterator[list[str]]:
        """The dirty agents in tree order, in parts that do not block the event loop for long."""
        places = self.observed.places
        order = [*parents_first(places, dirty), *sorted(dirty - places.by_uuid.keys())]
        for start in range(0, len(order), SLICE):
            yield order[start : start + SLICE]

    def _plan(self, part: list[str]) -> ReconcilePlan:
        """Compare the desired and the observed state of these agents."""
        desired = self.cache.desired_state(self.observed.places)
        return plan(desired, self.observed.observed, self.observed.moment, part, self._slots())

    def _slots(self) -> StartSlots:
        limit, now = self.ports.settings.limits.starts_at_once, self.ports.clock.monotonic()
        return StartSlots(
            self.observed.places, limit, self.runner.starting | self._machines_starting, now
        )

    def _next_in_queue(self) -> list[str]:
        return self._slots().share_out(
            uuid for uuid in self._queued if uuid not in self.runner.busy
        )

    def _await_slots(self) -> None:
        """Wake when a slow start gives up its slot."""
        if self._next_in_queue():
            self._awake.set()
        elif self._queued and not self._waits_for_slots and (when := self._slots().next_slow):
            self._waits_for_slots = True
            self.ports.clock.call_at(when, self._slot_is_due)

    def _slot_is_due(self) -> None:
        self._waits_for_slots = False
        self._awake.set()

    async def _apply(self, part: Iterable[str], wanted_plan: ReconcilePlan) -> None:
        """Apply the storage steps of a plan, and start the steps of its agents."""
        failed = await self.storage.apply(wanted_plan.tree)
        for uuid in part:
            if uuid in wanted_plan.waits:
                self.runner.requeue_at(uuid, wanted_plan.waits[uuid])
            if uuid in self.runner.busy or uuid in failed:
                continue
            if steps := wanted_plan.agents.get(uuid):
                self.runner.start_steps(uuid, steps)
            elif uuid not in failed:
                self.runner.forget(uuid)
        self._queued.update(dict.fromkeys(wanted_plan.queued))
