"""Jobs that are done at once."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field

from hive_core.errors import HiveError
from hive_core.plan import actions as a
from hive_core.plan.results import Done, Result
from hive_core.testing.machines import MemoryMachines


@dataclass
class MemoryJobs:
    """Jobs that do their work on a `MemoryMachines` at once, or fail as told."""

    machines: MemoryMachines
    ran: list[a.RunJob] = field(default_factory=list)
    refused: HiveError | None = None

    def run(self, action: a.RunJob) -> Awaitable[Result]:
        return self._run(action)

    async def _run(self, action: a.RunJob) -> Result:
        self.ran.append(action)
        if self.refused is not None:
            raise self.refused
        if action.work is a.JobKind.COPY_TREE:
            self.machines.storage.roots.add(action.job)
        return Done(changed=True)
