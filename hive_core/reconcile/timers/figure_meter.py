"""Reads processor and memory of running machines: each 10 s, or each 2 s while somebody watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hive_core.broker.agent_figures import EVERY, WATCHED_EVERY, AgentFigures
from hive_core.model.agents.machine import Machine, Reading
from hive_core.ports import Clock, FigureReader


@dataclass
class FigureMeter:
    """Hands the readings to `show`, which wakes those who watch."""

    machines: Mapping[str, Machine]
    clock: Clock
    reader: FigureReader
    figures: AgentFigures
    show: Callable[[Mapping[str, Reading]], None]
    _slot: int = -1

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.read_if_due()
            await asyncio.sleep(WATCHED_EVERY)

    async def read_if_due(self) -> None:
        """Read when a point of the ring is due, or when somebody watches."""
        slot = int(self.clock.now() // EVERY)
        if slot == self._slot and not self.figures.is_watched(self.clock.now()):
            return
        self._slot = slot
        machines = [machine for machine in self.machines.values() if _runs(machine)]
        self.show(await self.reader.read(machines))


def _runs(machine: Machine) -> bool:
    return bool(machine.slice) and machine.active in ("active", "deactivating")
