"""What slow reads of operations reach, on the host that this runs on."""

from __future__ import annotations

import asyncio

from hive_core.host.storage.deferred_reads import DeferredReads
from hive_core.model.agents.machine import Cpu, Machine
from hive_core.plan.desired import ReconcilePlan
from hive_core.testing import MemoryJournal, MemorySubAgentSockets


async def _plan() -> ReconcilePlan:
    return ReconcilePlan()


async def _diff(_uuid: str, _approval: str, _at: int) -> tuple[bytes, bool]:
    return b"", False


def test_processor_time_is_read_when_the_host_was_looked_at() -> None:
    """Right after a restart the daemon does not know yet what runs."""
    machines = dict[str, Machine]()

    async def observe() -> None:
        machines.update(u=Machine("u", main_pid=7), down=Machine("down"))

    def read_cpu(machine: Machine) -> Cpu | None:
        return Cpu("1", 5) if machine.main_pid else None

    reads = DeferredReads(
        MemoryJournal(), _plan, _diff, machines, observe, MemorySubAgentSockets(), read_cpu
    )
    assert asyncio.run(reads.cpu(["u", "down", "stranger"])) == {"u": Cpu("1", 5)}
