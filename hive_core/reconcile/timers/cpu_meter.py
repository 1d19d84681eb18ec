"""Records the processor time of running machines at intervals.

An exit records the total, but a power failure loses the kernel's counters.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.errors import HiveError
from hive_core.model.agents.machine import Cpu, Machine
from hive_core.operations.budgets.cpu_time import add_cpu, has_new_cpu
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.exits import WatchResult
from hive_core.reconcile.observed import ObservedState

log = logging.getLogger(__name__)
METER: Final = "meter"
EVERY: Final = 300.0
AT_ONCE: Final = 50


@dataclass
class CpuMeter:
    """Records processor time. `read` returns the kernel's counter of a machine, or None."""

    ports: Ports
    broker: BrokerHandle
    observed: ObservedState
    read: Callable[[Machine], Cpu | None]

    async def run(self) -> None:
        """Record every five minutes, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.record_all()
            except HiveError as error:
                log.warning("Cannot record the processor time of machines: %s", error)

    async def record_all(self) -> None:
        """Record all machines, a few at a time, so that calls are served in between."""
        uuids = [*self.observed.machines]
        for start in range(0, len(uuids), AT_ONCE):
            record_cpu(self.ports, self.broker, self._read(uuids[start : start + AT_ONCE]))
            await asyncio.sleep(0)

    def _read(self, uuids: Iterable[str]) -> dict[str, Cpu]:
        readings = {}
        for uuid in uuids:
            machine = self.observed.machines.get(uuid)
            if machine is None or uuid not in self.observed.places.by_uuid:
                continue
            if (cpu := self.read(machine)) is not None:
                readings[uuid] = cpu
        return readings


def record_cpu(ports: Ports, broker: BrokerHandle, readings: Mapping[str, Cpu]) -> None:
    """Add new processor time to the sums; write nothing if there is none."""
    news = {uuid: cpu for uuid, cpu in readings.items() if has_new_cpu(ports.ledger, uuid, cpu)}
    if not news:
        return

    def add(call: Call) -> Record[WatchResult]:
        for uuid, cpu in news.items():
            add_cpu(call, uuid, cpu)
        return Record(WatchResult(agents=len(news)), audited=True)

    broker.perform(METER, add)
