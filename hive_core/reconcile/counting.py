"""Which exits were not counted yet, and counting them: crashes in tasks, for their last lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hive_core.model.machine import Starts
from hive_core.plan.failure import Case
from hive_core.reconcile.exits import Counted, Lines, last_lines, write
from hive_core.reconcile.work import Work

# What the journal knows this kind of message by: `journalctl MESSAGE_ID=...`.
CRASHED: Final = "7f0d4c1e6b1a4d0d9a5e3c5d2b8a6f41"
log = logging.getLogger(__name__)


@dataclass
class Counting:
    work: Work

    def count(self, dirty: set[str]) -> set[str]:
        """Count what was not counted; gives the crashed, of whom more is to come."""
        found = list(self._uncounted(dirty))
        crashed = [each for each in found if each.verdict.crash]
        for each in crashed:
            self.work.spawn(each.case.place.uuid, self._crashed(each))
        self._keep([(each, ()) for each in found if not each.verdict.crash])
        return {each.case.place.uuid for each in crashed}

    def _uncounted(self, dirty: set[str]) -> Iterator[Counted]:
        look, settings = self.work.look, self.work.ports.settings
        now = self.work.ports.clock.now()
        for uuid in sorted(dirty):
            place, machine = look.places.by_uuid.get(uuid), look.machines.get(uuid)
            run = look.wishes.runs.get(uuid)
            if place is None or run is None or machine is None or machine.exit is None:
                continue
            case = Case(place, run, look.wishes.starts.get(uuid, Starts()), settings)
            verdict = case.judge(machine.exit, now)
            if verdict.starts is not case.starts:
                yield Counted(case, machine.exit, verdict)

    async def _crashed(self, counted: Counted) -> None:
        lines = await last_lines(self.work.ports.journal, counted)
        fields = {"HIVE_UUID": counted.case.place.uuid, "MESSAGE_ID": CRASHED}
        log.warning("%s", counted.why, extra=fields)
        self._keep([(counted, lines)])

    def _keep(self, found: list[tuple[Counted, Lines]]) -> None:
        if not found:
            return
        ports, places, topics = self.work.ports, self.work.look.places, set[str]()
        with ports.ledger.transaction():
            for each in found:
                topics |= write(ports.ledger, places, each, ports.clock.now())
        self.work.look.wishes.refresh(each.case.place.uuid for each, _ in found)
        self.work.broker.touch(frozenset(topics))
