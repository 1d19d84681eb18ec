"""What the kernel counts, as a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hive_core.model.agents.machine import Machine, Reading


@dataclass
class MemoryFigures:
    """Readings by UUID; a machine without one is not counted. `asked`: how often it was read."""

    readings: dict[str, Reading] = field(default_factory=dict)
    asked: int = 0

    async def read(self, machines: Sequence[Machine]) -> Mapping[str, Reading]:
        self.asked += 1
        uuids = [machine.uuid for machine in machines]
        return {uuid: self.readings[uuid] for uuid in uuids if uuid in self.readings}
