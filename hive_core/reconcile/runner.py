"""Runs the steps of a plan, one task per agent; retries failures with a growing pause."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hive_core.errors import HiveError, StorageFull, TimedOut, Unreachable
from hive_core.model.agents.machine import DesiredRun
from hive_core.plan import actions as a
from hive_core.plan.daemon_actions import DaemonAction, Forget, RequestRestart
from hive_core.plan.desired import ReconcileStep
from hive_core.plan.results import Done
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.observed import ObservedState

log = logging.getLogger(__name__)
RETRY_FIRST, RETRY_MOST = 0.2, 30.0
STUCK_AFTER: Final = 3
NO_ANSWER: Final = (Unreachable, TimedOut)


def restart(ports: Ports, run: DesiredRun, why: str) -> int:
    """Request a restart; return its nonce. Call inside a transaction.

    The agent did not fail, so its failure history is kept.
    """
    ledger = ports.ledger
    fresh = ledger.runs.want(
        run.agent, run.wanted, ports.clock.now(), grace=run.grace, reason=why, fresh=True
    )
    starts = ledger.starts.get(run.agent)
    if starts is not None and starts.nonce == run.nonce:
        ledger.starts.put(run.agent, replace(starts, nonce=fresh.nonce))
    return fresh.nonce


@dataclass
class ActionRunner:
    """Runs steps of agents in tasks.

    `requeue(uuid)` makes the reconciler check an agent again. `fatal` ends the daemon: after an
    unexpected error only a restart is safe. `starting` holds agents whose start was requested, and
    when; each keeps its slot until the next observation.
    """

    ports: Ports
    broker: BrokerHandle
    observed: ObservedState
    fatal: Callable[[BaseException], None]
    requeue: Callable[[str], None] = lambda _: None
    busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    starting: dict[str, float] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    _unanswered: set[str] = field(default_factory=set)
    _disk_full: set[str] = field(default_factory=set)
    _last: dict[str, tuple[ReconcileStep, ...]] = field(default_factory=dict)
    _timers: dict[str, Callable[[], None]] = field(default_factory=dict)

    @property
    def stuck(self) -> dict[str, str]:
        """Agents whose steps failed repeatedly, with the error.

        StorageFull is a temporary cause.
        """
        return {
            uuid: f"{'StorageFull' if uuid in self._disk_full else 'Internal'}:"
            f" {self.observed.troubles[uuid]}"
            for uuid, count in self._failures.items()
            if count >= STUCK_AFTER
            and uuid in self.observed.troubles
            and uuid not in self._unanswered
        }

    def requeue_at(self, uuid: str, when: float) -> None:
        """Check the agent again at `when`, in monotonic seconds.

        A later call replaces an earlier one.
        """
        if cancel := self._timers.pop(uuid, None):
            cancel()
        self._timers[uuid] = self.ports.clock.call_at(when, lambda: self._due(uuid))

    def _due(self, uuid: str) -> None:
        self._timers.pop(uuid, None)  # dropped here, because no later call may come for this agent
        self.requeue(uuid)

    def spawn(self, uuid: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a task for one agent, which must have no running task."""
        self.busy[uuid] = asyncio.create_task(self._run_task(uuid, work))

    async def _run_task(self, uuid: str, work: Coroutine[Any, Any, None]) -> None:
        """Run the work on one agent; record its failure, to try again later."""
        try:
            await work
        except HiveError as error:
            self.starting.pop(uuid, None)
            self.record_failure(uuid, self._name(uuid), error)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - asyncio would only store it
            self.fatal(error)
        else:
            self.requeue(uuid)
        finally:
            self.busy.pop(uuid, None)

    def _name(self, uuid: str) -> str:
        place = self.observed.places.by_uuid.get(uuid)
        return place.name if place else uuid

    def record_failure(self, uuid: str, name: str, error: HiveError) -> None:
        """Schedule a retry with a growing pause. The operator sees the error meanwhile."""
        self._last.pop(uuid, None)
        # Without an answer it is unknown whether the steps are wrong, so no job fails for that.
        if isinstance(error, NO_ANSWER):
            self._unanswered.add(uuid)
        else:
            self._unanswered.discard(uuid)
        full = isinstance(error, StorageFull)
        (self._disk_full.add if full else self._disk_full.discard)(uuid)
        self.observed.troubles[uuid] = f"cannot reconcile agent {name}: {error}"
        log.warning("Cannot reconcile agent %s (try %d): %s", name, self._back_off(uuid), error)

    def _back_off(self, uuid: str) -> int:
        """Double the pause; return the number of tries."""
        count = self._failures[uuid] = self._failures.get(uuid, 0) + 1
        pause = min(RETRY_MOST, RETRY_FIRST * 2 ** min(count - 1, 16))
        self.requeue_at(uuid, self.ports.clock.monotonic() + pause)
        return count

    def forget(self, uuid: str) -> None:
        """Clear the failures of an agent that needs no more work."""
        if self._failures.pop(uuid, None) is not None:
            self.observed.troubles.pop(uuid, None)
        self._last.pop(uuid, None)
        self._unanswered.discard(uuid)
        self._disk_full.discard(uuid)

    def start_steps(self, uuid: str, steps: tuple[ReconcileStep, ...]) -> None:
        """Run the steps of one agent, one after another, in a task."""
        if self._last.pop(uuid, None) == steps:
            self._back_off(uuid)  # repeated steps changed nothing: wait longer
            return
        self._last[uuid] = steps
        if any(isinstance(step.action, a.StartUnit) for step in steps):
            self.starting[uuid] = self.ports.clock.monotonic()
        self.spawn(uuid, self._run_steps(uuid, steps))

    async def _run_steps(self, uuid: str, steps: tuple[ReconcileStep, ...]) -> None:
        """Run the steps of one agent in order, as long as its request stays the same."""
        request = self._request(uuid)
        for step in steps:
            if self._request(uuid) != request:
                return  # the request changed meanwhile
            level = logging.DEBUG if isinstance(step.action, DaemonAction) else logging.INFO
            log.log(level, "%s", step.text, extra={"HIVE_UUID": uuid, "HIVE_NAME": step.name})
            await self.run_step(step)

    def _request(self, uuid: str) -> tuple[object, object]:
        return self.observed.cache.runs.get(uuid), self.observed.places.by_uuid.get(uuid)

    async def run_step(self, step: ReconcileStep) -> None:
        """Apply one step, or update the ledger if the step is about rows."""
        match step.action:
            case RequestRestart():
                self._request_restart(step)
            case Forget(uuid):
                self._forget_agent(uuid)
            case a.RunJob() as job:
                await self.ports.jobs.run(job)
            case action:
                result = await self.ports.machines.apply(action)
                if isinstance(result, Done) and not result.changed:
                    log.debug("%s: no change", step.text)

    def _request_restart(self, step: ReconcileStep) -> None:
        run = self.observed.cache.runs.get(step.uuid)
        if step.uuid not in self.observed.places.by_uuid or run is None:
            return
        with self.ports.ledger.transaction():
            restart(self.ports, run, step.why)
        self._refresh(set(), step.uuid)

    def _forget_agent(self, uuid: str) -> None:
        ledger = self.ports.ledger
        with ledger.transaction():
            ledger.archives.drop(uuid)
            ledger.ranges.release(uuid)
            ledger.runs.drop(uuid)
            ledger.starts.clear(uuid)
            ledger.lives.delete(uuid)
        self._refresh({f"gone:{uuid}"}, uuid)
        self.observed.cache.unclaimed.discard(uuid)
        self.observed.machines.pop(uuid, None)

    def _refresh(self, topics: set[str], uuid: str) -> None:
        self.observed.cache.refresh((uuid,))
        self.broker.touch(frozenset(topics))
