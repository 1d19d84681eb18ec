"""What the slow reads of operations may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hive_core.host.systemd.cpu_time import machine_cpu
from hive_core.model.agents.machine import Cpu, Machine
from hive_core.plan.desired import ReconcilePlan
from hive_core.ports import Journal, SubAgentSockets

_AT_ONCE: Final = 50


@dataclass
class DeferredReads:
    """The counterpart of the protocol in `broker/call.py`.

    `machines` comes from the last observation; `looked` waits for one.
    """

    journal: Journal
    fresh_plan: Callable[[], Coroutine[Any, Any, ReconcilePlan]]
    diff: Callable[[str, str, int], Coroutine[Any, Any, tuple[bytes, bool]]]
    machines: Mapping[str, Machine]
    looked: Callable[[], Coroutine[Any, Any, None]]
    subagent_sockets: SubAgentSockets
    used: Callable[[Machine], Cpu | None] = machine_cpu

    async def cpu(self, uuids: Iterable[str]) -> dict[str, Cpu]:
        """The CPU time of these agents. Reads are short; after some, other tasks get their turn.

        It waits for an observation first: a caller right after a restart would otherwise get lower
        values than before it.
        """
        await self.looked()
        usage = {}
        for number, uuid in enumerate(uuids, 1):
            machine = self.machines.get(uuid)
            if machine is not None and (cpu := self.used(machine)) is not None:
                usage[uuid] = cpu
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return usage
