"""Processor and memory of machines as the kernel counts them, read in a thread beside the loop.

https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from hive_core.host.systemd.cpu_time import GROUPS, group_of, read
from hive_core.model.agents.machine import Machine, Reading


class CgroupFigures:
    """The readings of control groups."""

    def __init__(self, groups: Path = GROUPS) -> None:
        self._groups = groups

    async def read(self, machines: Sequence[Machine]) -> Mapping[str, Reading]:
        """What is counted for these machines, without those whose group is gone."""
        return await asyncio.to_thread(self._read, machines) if machines else {}

    def _read(self, machines: Sequence[Machine]) -> dict[str, Reading]:
        readings = {}
        for machine in machines:
            group = group_of(machine.slice, machine.unit)
            cpu = read(group, self._groups)
            if cpu is not None:
                readings[machine.uuid] = Reading(cpu, self._memory(group))
        return readings

    def _memory(self, group: str) -> int | None:
        """Bytes of a group; None where the kernel does not count memory for it."""
        try:
            return int(Path(f"{self._groups}{group}/memory.current").read_bytes())
        except (OSError, ValueError):
            return None
