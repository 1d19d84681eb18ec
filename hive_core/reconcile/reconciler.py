"""The change road: observe, count exits, plan, apply, finish jobs; woken by whatever changes.

One pass looks at the dirty agents only; a full one looks at the whole host. What takes long runs in
a task per agent, so that one slow machine keeps nobody waiting. Nothing here is remembered that a
fresh daemon would not find again in the ledger, in git and on the host.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from hive_core.errors import HiveError
from hive_core.model.agents.machine import DesiredState, Machine
from hive_core.plan.desired import Plan
from hive_core.plan.diff import ahead, in_order, plan, starting
from hive_core.plan.placement import Places
from hive_core.plan.start_slots import StartSlots
from hive_core.plan.state import Phase, phase
from hive_core.reconcile.deps import Broker, Ports
from hive_core.reconcile.exit_counting import Counting
from hive_core.reconcile.jobs.goals import MOVED, Scene, restarting
from hive_core.reconcile.ledger_cache import Wishes
from hive_core.reconcile.observed import Look
from hive_core.reconcile.revocation import Revoker
from hive_core.reconcile.runner import Work
from hive_core.reconcile.storage_applier import Shaping

log = logging.getLogger(__name__)
FULL_EVERY: Final = 60.0
AGAIN: Final = 1.0
SLICE: Final = 100  # agents planned before the loop gets a turn
FULL = ""  # the name of the timer for full looks


@dataclass
class Reconciler:
    """Call `heard` and `changed` when something happened; `run` does the rest."""

    ports: Ports
    broker: Broker
    look: Look
    wishes: Wishes
    work: Work
    counting: Counting
    shaping: Shaping
    revoker: Revoker
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    _dirty: dict[str, None] = field(default_factory=dict)
    _stale: set[str] = field(default_factory=set)
    _queued: dict[str, None] = field(default_factory=dict)
    _coming: dict[str, float] = field(default_factory=dict)
    _whole: bool = True
    _tree: bool = False
    _sweep: bool = False
    _waits_for_slots: bool = False
    _awake: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def build(
        cls, ports: Ports, broker: Broker, look: Look, fatal: Callable[[BaseException], None]
    ) -> Self:
        work = Work(ports, broker, look, fatal)
        awake = asyncio.Event()
        revoker = Revoker.build(work, awake.set, fatal)
        found = cls(
            ports, broker, look, look.wishes, work, Counting(work), Shaping(work, revoker),
            revoker, _awake=awake,
        )  # fmt: skip
        work.again = found.changed
        ports.machines.subscribe(found.changed)
        found.changed(FULL)
        return found

    # Waking.

    def heard(self, topics: frozenset[str]) -> None:
        """The request road has written something down."""
        for topic in topics:
            kind, _, uuid = topic.partition(":")
            if kind == "tree":
                self._tree = True
            elif kind == "run":
                self._stale.add(uuid)
                self.look.unseen.add(uuid)
                self._dirty[uuid] = None
            elif kind in ("converge", "gc"):
                self._whole = True
                self._sweep |= kind == "gc"
            else:
                continue
            self._awake.set()

    def changed(self, uuid: str) -> None:
        """Something may have happened to this machine; empty: to any of them."""
        if uuid:
            self._dirty[uuid] = None
        else:
            self._whole = True
        self._awake.set()

    @property
    def idle(self) -> bool:
        """Nothing is dirty and nothing under way; timers may still be set."""
        asked = self._whole or self._tree or self._dirty or self._stale
        return not (asked or self.work.busy or self.revoker.busy or self._next_in_queue())

    async def fresh_plan(self) -> Plan:
        """What the next pass would do, after a look at the whole host.

        A look of its own: taken over, it would undo what a pass under way has learned since.
        """
        found = await self.ports.machines.observe()
        return plan(self.wishes.desired(self.look.places), found, self.look.moment)

    async def run(self) -> None:
        """Pass after pass, until cancelled."""
        while True:
            await self._awake.wait()
            self._awake.clear()
            try:
                await self.converge()
            except HiveError as error:
                # The disk is full, or systemd does not answer: nothing is lost by waiting.
                log.warning("Cannot converge: %s", error)
                self.look.troubles[FULL] = f"cannot converge: {error}"
                self._whole = True
                self.ports.clock.call_at(self.ports.clock.monotonic() + AGAIN, self._awake.set)

    # One pass.

    async def converge(self) -> None:
        """One pass over what is dirty."""
        if self._take_rows() and self.looked.is_set():
            desired, idle = (
                self.wishes.desired(self.look.places),
                {*self._dirty} - {*self.work.busy},
            )
            await self.shaping.ahead(ahead(desired, self.look.machines, idle))
        whole, dirty = self._take_dirty()
        if not (whole or dirty):
            self.revoker.advance()
            return
        dirty = await self._observe(whole=whole, dirty=dirty)
        dirty -= self.counting.count(dirty)
        self._judge(dirty)
        self.looked.set()
        self.revoker.advance()
        for part in self._parts(dirty):
            await self._apply(part, self._plan(part))
            await asyncio.sleep(0)
        self._await_slots()
        self.look.troubles.pop(FULL, None)

    def _take_rows(self) -> bool:
        """What the ledger and the head say now; whether that is another tree."""
        if another := self._tree:
            self._tree = False
            before = self.look.places
            places = Places.build(self.broker.hive(), self.ports.settings, before)
            self.look.places = places
            for uuid in before.by_uuid.keys() | places.by_uuid.keys():
                if before.by_uuid.get(uuid) is not places.by_uuid.get(uuid):
                    self._dirty[uuid] = None
                    self._stale.add(uuid)
        for uuid in self._stale:
            self.work.settled(uuid)  # what went wrong before counts no more: it is wanted anew
        if self._stale or self._whole or another:  # two moves may end in the tree from before
            self.wishes.take(self._stale)
            self._stale.clear()
        if another or self._whole:
            self._declare()
        return another

    def _declare(self) -> None:
        """Agents that came with a hand commit have no rows yet: they should run."""
        known = self.look.places.by_uuid.keys()
        missing = (known - self.wishes.runs.keys()) | (known - self.wishes.bases.keys())
        if not missing:
            return
        ledger, now = self.ports.ledger, self.ports.clock.now()
        with ledger.transaction():
            for uuid in sorted(missing):
                if uuid not in self.wishes.runs:
                    ledger.runs.want(uuid, DesiredState.RUNNING, now, reason="declared")
                ledger.ranges.allocate(uuid, self.ports.settings.uid_start, now)
        self.wishes.refresh(missing)
        self._dirty.update(dict.fromkeys(missing))

    def _take_dirty(self) -> tuple[bool, set[str]]:
        whole, self._whole = self._whole, False
        dirty = {*self._dirty, *self._next_in_queue()} - self.work.busy.keys()
        # What was heard since the rows were taken waits for the next pass, which takes them: by the
        # old rows nothing would be to do, and nobody would come back to it.
        dirty -= self._stale
        self._dirty = {
            uuid: None for uuid in self._dirty if uuid in self.work.busy or uuid in self._stale
        }
        for uuid in dirty:
            self._queued.pop(uuid, None)
        if whole:
            self.work.later(FULL, self.ports.clock.monotonic() + FULL_EVERY)
        return whole, dirty

    async def _observe(self, *, whole: bool, dirty: set[str]) -> set[str]:
        # The look may miss what is done for these meanwhile; they come again when it is done.
        busy = {*self.work.busy}
        try:
            found = await self.ports.machines.observe(None if whole else dirty)
        except HiveError:
            self._dirty.update(dict.fromkeys(dirty))
            raise
        self.look.take(found, whole=whole)
        if whole:
            self._coming.clear()
            everyone = {*self.look.places.by_uuid, *found.machines, *self.wishes.archives}
            if self._sweep:
                self._sweep = False
                self.wishes.disown(found.machines, self.look.places)
            dirty = (everyone | self.wishes.unclaimed | dirty) - busy
        for uuid in found.machines:
            machine = found.machines[uuid]
            self._coming.pop(uuid, None)
            self._coming |= starting([machine])
            if uuid not in busy:  # nor may it have been told to start during this look
                self.work.starting.pop(uuid, None)
        return dirty

    def _judge(self, dirty: set[str]) -> None:
        """Name the states anew, and finish the jobs that waited for them."""
        before = {uuid: self.look.states.get(uuid) for uuid in dirty}
        topics = self.look.name_states(dirty)
        self.look.unseen &= self._stale
        self._wake_above(uuid for uuid in dirty if self.look.states.get(uuid) is not before[uuid])
        topics |= self._finish(dirty)
        self.broker.touch(frozenset(topics))

    def _wake_above(self, changed: Iterable[str]) -> None:
        """Who went down may have kept those above from going down."""
        above, past = set[str](), False
        for uuid in changed:
            if phase(self.look.machines.get(uuid) or Machine(uuid)) is not Phase.DOWN:
                continue
            if uuid in self.look.places.by_uuid:
                above.update(place.uuid for place in self.look.places.above(uuid))
            else:
                past = True
        if past:
            above.update(each for each in self.wishes.archives if each in self.look.machines)
        for each in above:
            self.changed(each)

    def _finish(self, dirty: set[str]) -> set[str]:
        scene = Scene(
            self.look.places, self.look.machines, self.wishes.runs, self.wishes.starts,
            self.look.states, self.work.stuck, self.wishes.revoking,
        )  # fmt: skip
        ended: dict[str, str] = {}
        for job in self.wishes.jobs.values():
            moving = MOVED in job.goals.values() or restarting(job)
            if moving or not dirty.isdisjoint(job.goals):
                verdict = scene.verdict(job)
                waits = verdict == "" and not self.work.busy.keys().isdisjoint(job.goals)
                if verdict is not None and not waits:  # of the busy only old facts are known
                    ended[job.id] = verdict
        if ended:
            with self.ports.ledger.transaction():
                for job_id, error in ended.items():
                    self.ports.ledger.jobs.finish(job_id, error, self.ports.clock.now())
            for job_id in ended:
                del self.wishes.jobs[job_id]
        return {f"job:{job_id}" for job_id in ended}

    def _parts(self, dirty: set[str]) -> Iterator[list[str]]:
        """In tree order, so many at a time that the loop is not held up."""
        places = self.look.places
        order = [*in_order(places, dirty), *sorted(dirty - places.by_uuid.keys())]
        for start in range(0, len(order), SLICE):
            yield order[start : start + SLICE]

    def _plan(self, part: list[str]) -> Plan:
        desired = self.wishes.desired(self.look.places)
        return plan(desired, self.look.observed, self.look.moment, part, self._slots())

    def _slots(self) -> StartSlots:
        limit, now = self.ports.settings.limits.starts_at_once, self.ports.clock.monotonic()
        return StartSlots(self.look.places, limit, self.work.starting | self._coming, now)

    def _next_in_queue(self) -> list[str]:
        return self._slots().share_out(each for each in self._queued if each not in self.work.busy)

    def _await_slots(self) -> None:
        """Look at the queue again when a start has taken so long that its slot is another's."""
        if self._next_in_queue():
            self._awake.set()
        elif self._queued and not self._waits_for_slots and (when := self._slots().next_slow):
            self._waits_for_slots = True
            self.ports.clock.call_at(when, self._slot_is_due)

    def _slot_is_due(self) -> None:
        self._waits_for_slots = False
        self._awake.set()

    async def _apply(self, part: Iterable[str], found: Plan) -> None:
        failed = await self.shaping.apply(found.tree)
        for uuid in part:
            if uuid in found.waits:
                self.work.later(uuid, found.waits[uuid])
            if uuid in self.work.busy or uuid in failed:
                continue
            if chain := found.chains.get(uuid):
                self.work.begin(uuid, chain)
            elif uuid not in failed:
                self.work.settled(uuid)
        self._queued.update(dict.fromkeys(found.queued))
