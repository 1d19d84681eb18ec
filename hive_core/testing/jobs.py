"""Jobs that end at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from hive_core.errors import HiveError
from hive_core.plan import actions as a
from hive_core.plan.results import Done, Result
from hive_core.testing.machines import MemoryMachines

Program = Callable[[a.RunJob, Path], None]


@dataclass
class MemoryJobs:
    """Jobs that do their work on a `MemoryMachines` at once, or fail as set.

    `programs` replace jobs of a kind: each is called with the action and the exchange folder, with
    `in` and `out`, which is below `work`.
    """

    machines: MemoryMachines
    ran: list[a.RunJob] = field(default_factory=list)
    refused: HiveError | None = None
    programs: dict[a.JobKind, Program] = field(default_factory=dict)
    work: Path = Path("/nowhere")

    def run(self, action: a.RunJob) -> Awaitable[Result]:
        return self._run(action)

    async def _run(self, action: a.RunJob) -> Result:
        a.parse({"kind": "RunJob", **vars(action)})  # the root helper refuses an invalid action
        self.ran.append(action)
        if self.refused is not None:
            raise self.refused
        if program := self.programs.get(action.work):
            program(action, self.work / action.job)
        if action.work is a.JobKind.COPY_TREE:
            self.machines.storage.roots.add(action.job)
        return Done(changed=True)
