"""Finds new starts and exits of machines, and records each once (row K5).

The ledger keeps the last recorded start and exit of each agent; the counter compares them with the
observation. So no exit is recorded twice, and none is missed while no daemon runs. A record and all
its consequences are one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.errors import HiveError
from hive_core.model.agents.exits import ExitEvent, LifeRecord, StartEvent, unreported_events
from hive_core.model.agents.machine import Cpu, DesiredRun, FailureHistory, Machine
from hive_core.plan.failure import ExitCase
from hive_core.plan.state import Phase, phase
from hive_core.reconcile.exits import (
    WATCH,
    CountedExit,
    Lines,
    WatchResult,
    last_lines,
    record_exit,
    record_start,
)
from hive_core.reconcile.runner import ActionRunner
from hive_core.reconcile.timers.cpu_meter import record_cpu

# The MESSAGE_ID of this message in the journal: `journalctl MESSAGE_ID=...`.
CRASHED: Final = "7f0d4c1e6b1a4d0d9a5e3c5d2b8a6f41"
RETRY_AFTER: Final = 1.0
log = logging.getLogger(__name__)
JudgedChange = StartEvent | CountedExit


@dataclass
class ExitCounter:
    runner: ActionRunner
    _lives: dict[str, LifeRecord] = field(default_factory=dict)
    _read: bool = False

    def count_exits(self, dirty: set[str]) -> set[str]:
        """Record new starts and exits; return the agents whose last lines are still being read.

        Most passes have none, and need no query to know that. If an event cannot be recorded, its
        agent is left alone for a while.
        """
        if not self._read:
            self._lives, self._read = self.runner.ports.ledger.lives.all(), True
        news = [uuid for uuid in sorted(dirty) if self._new_events(uuid)]
        spoke = {uuid for uuid in news if self._needs_last_lines(uuid)}
        for uuid in spoke:
            self.runner.spawn(uuid, self._record_with_last_lines(uuid))
        rest = [uuid for uuid in news if uuid not in spoke]
        departed = self._read_cpu_of_destroyed_agents(dirty)
        try:
            self._record(rest, {})
            record_cpu(self.runner.ports, self.runner.broker, departed)
        except HiveError as error:
            return spoke | self._defer((*rest, *departed), error)
        self.runner.observed.troubles.pop(WATCH, None)
        return spoke

    def _read_cpu_of_destroyed_agents(self, dirty: Iterable[str]) -> dict[str, Cpu]:
        """The processor time of destroyed agents that ended. It is recorded, unlike their exits."""
        machines, places = self.runner.observed.machines, self.runner.observed.places.by_uuid
        gone = [machines[uuid] for uuid in dirty if uuid not in places and uuid in machines]
        ended = {
            machine.uuid: machine.exit.cpu for machine in gone if machine.exit and machine.exit.cpu
        }
        known = self.runner.ports.ledger.budgets.rollups.of(ended)
        return {uuid: cpu for uuid, cpu in ended.items() if uuid in known}

    def _defer(self, uuids: Iterable[str], error: HiveError) -> set[str]:
        """Retry later.

        Until then nothing is done for these agents: a new start would hide the exit.
        """
        log.warning("Cannot record starts and exits: %s", error)
        self.runner.observed.troubles[WATCH] = f"cannot record starts and exits: {error}"
        for uuid in uuids:
            self.runner.requeue_at(uuid, self.runner.ports.clock.monotonic() + RETRY_AFTER)
        return {*uuids}

    def _new_events(self, uuid: str) -> list[ExitEvent | StartEvent]:
        machine, life = self.runner.observed.machines.get(uuid), self._lives.get(uuid)
        if machine is not None and life is not None and _has_no_news(life, machine):
            return []  # most agents in most passes
        if machine is None or uuid not in self.runner.observed.places.by_uuid:
            self._lives.pop(uuid, None)
            return []
        return list(_changes_since(life or LifeRecord(uuid), machine))

    def _needs_last_lines(self, uuid: str) -> bool:
        """Whether one of the agent's new exits needs its last lines."""
        return any(counted.needs_last_lines for counted in self._new_exits(uuid))

    def _new_exits(self, uuid: str) -> list[CountedExit]:
        cache = self.runner.observed.cache
        known = cache.runs.get(uuid), cache.starts.get(uuid)
        judged = self._judge(uuid, self._new_events(uuid), *known)
        return [change for change in judged if isinstance(change, CountedExit)]

    def _judge(
        self,
        uuid: str,
        news: Iterable[ExitEvent | StartEvent],
        run: DesiredRun | None,
        starts: FailureHistory | None,
    ) -> Iterator[JudgedChange]:
        place, settings = self.runner.observed.places.by_uuid.get(uuid), self.runner.ports.settings
        starts = starts or FailureHistory()
        if run is None or place is None:
            return
        for event in news:
            if isinstance(event, StartEvent):
                yield event
                continue
            case = ExitCase(place, run, starts, settings)
            verdict = case.judge_end(event, self.runner.ports.clock.now())
            yield CountedExit(case, event, verdict)
            starts = verdict.starts

    async def _record_with_last_lines(self, uuid: str) -> None:
        journal, words = self.runner.ports.journal, dict[str, Lines]()
        for counted in self._new_exits(uuid):
            if counted.needs_last_lines:
                words[counted.over.invocation] = await last_lines(journal, counted)
        self._record([uuid], words)

    def _record(self, news: Sequence[str], words: Mapping[str, Lines]) -> None:
        """Record in one transaction, by the ledger's current rows. `words`: lines by invocation."""
        if not news:
            return

        def record(call: Call) -> Record[WatchResult]:
            for uuid in news:
                self._record_agent(call, uuid, words)
            return Record(WatchResult(agents=len(news)), audited=True)

        self.runner.broker.perform(WATCH, record)
        ledger = self.runner.ports.ledger
        self._lives.update((uuid, ledger.lives.get(uuid)) for uuid in news)
        self.runner.observed.cache.refresh(news)

    def _record_agent(self, call: Call, uuid: str, words: Mapping[str, Lines]) -> None:
        ledger = call.ledger
        machine = self.runner.observed.machines.get(uuid) or Machine(uuid)
        if call.hive.name(uuid) is None:
            return  # its destruction was recorded already
        news = list(_changes_since(ledger.lives.get(uuid), machine))
        known = ledger.runs.get(uuid), ledger.starts.get(uuid)
        for change in self._judge(uuid, news, *known):
            if isinstance(change, StartEvent):
                # Its state is still that of the pass before: failed, after a crash. What follows
                # from the start, such as an offer of its tasks, has to see that it runs.
                self.runner.observed.unseen.add(uuid)
                record_start(call, uuid, change)
                continue
            record_exit(call, change, words.get(change.over.invocation, ()))
            if change.verdict.crash:
                extra = {"HIVE_UUID": uuid, "MESSAGE_ID": CRASHED}
                log.warning("%s", change.why, extra=extra)


def _has_no_news(life: LifeRecord, machine: Machine) -> bool:
    """A quick test whether nothing happened since the last record."""
    there = life.up and machine.invocation == life.invocation and machine.active == "active"
    return there and (machine.exit is None or machine.exit.invocation == life.ended)


def _changes_since(life: LifeRecord, machine: Machine) -> Iterator[ExitEvent | StartEvent]:
    there = phase(machine)
    healthy = there is Phase.UP and machine.verified and machine.executed
    return unreported_events(life, machine, alive=there is not Phase.DOWN, healthy=healthy)
