"""Jobs of `init_config`: replace an agent's configuration clone by a fresh template.

The running configuration does not change. A restarted daemon runs an unfinished job again, with the
same name and time, and the job completes the remaining work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.errors import Busy, HiveError, NotFound, StorageFull, Unreachable
from hive_core.host.git import seed
from hive_core.host.systemd.job_exchange import exchange
from hive_core.model.agents.hive import Hive
from hive_core.model.config.review import VERDICT, VERDICT_MOST, Verdict
from hive_core.model.config.seed import template_name
from hive_core.model.wire.record import JobRecord
from hive_core.operations.approvals.proposals import SEED
from hive_core.plan.actions import JOB_BASES, JobKind, RunJob
from hive_core.reconcile.deploy.background_tasks import BackgroundTasks
from hive_core.reconcile.deploy.context import DeployContext
from hive_core.reconcile.deploy.transactions import DeployResult

KEY: Final = f"{SEED}:"
AT_ONCE: Final = 2  # leaves slots for requests
_PAUSE: Final = 1.0
_UNSETTLED: Final = (StorageFull, Busy, Unreachable)  # not a fault of the request


@dataclass
class SeedJobs:
    """Open jobs of `init_config`. Their keys in the deployer's queue have a prefix."""

    context: DeployContext
    tasks: BackgroundTasks

    @property
    def keys(self) -> Iterator[str]:
        for job in self.context.ports.ledger.jobs.open():
            if SEED in job.goals.values():
                yield KEY + job.id

    def start_when_free(self, key: str) -> None:
        """Start the job if it is not running and a slot is free; otherwise check again later."""
        job = self.context.ports.ledger.jobs.get(key.removeprefix(KEY))
        if job is None or job.ended is not None or key in self.tasks.busy:
            return
        if sum(key.startswith(KEY) for key in self.tasks.busy) < AT_ONCE:
            self.tasks.start(key, self._seed(job))
        else:
            self.tasks.requeue_at(key, self.context.ports.clock.monotonic() + _PAUSE)

    async def _seed(self, job: JobRecord) -> None:
        error = ""
        try:
            for uuid in job.goals:
                await self._run(job, self.context.hive(), uuid)
        except _UNSETTLED:
            raise
        except HiveError as fault:
            error = f"{type(fault).__name__}: {fault.reason}"
        self.context.step("seeded")
        self.context.perform("seed_config", lambda call: _finish(call, job.id, error))
        for key in self.keys:
            self.tasks.requeue(key)

    async def _run(self, job: JobRecord, hive: Hive, uuid: str) -> None:
        name = hive.name(uuid)
        if name is None:
            raise NotFound("the agent was destroyed meanwhile")
        kind = template_name(hive.spec(name).image)
        action = RunJob(
            job.id, JobKind.SEED, JOB_BASES[0], uuid, lineage=hive.path(name), words=(_time(job),)
        )
        with exchange(self.context.ports.settings.paths.work, job.id) as box:
            await asyncio.to_thread(seed.write_clone, kind, Path(box.folder, "in", SEED))
            await self.context.ports.jobs.run(action)
            said = Verdict.read(await asyncio.to_thread(box.read, VERDICT, VERDICT_MOST))
        if not said.ok:
            raise NotFound(said.reason)


def _time(job: JobRecord) -> str:
    """The time of the request in digits, to the microsecond.

    It names the folder of the old files.
    """
    whole = time.strftime("%Y%m%d%H%M%S", time.gmtime(job.started))
    return f"{whole}{round(job.started % 1 * 1_000_000) % 1_000_000:06d}"


def _finish(call: Call, job: str, error: str) -> Record[DeployResult]:
    row = call.ledger.jobs.get(job)
    if row is None or row.ended is not None:
        return Record(DeployResult(text="the job has ended meanwhile"))
    call.ledger.jobs.finish(job, error, call.now)
    fields = {"job": job, **({"error": error} if error else {})}
    call.notify(f"job:{job}")
    return Record(DeployResult(text=error or "seeded"), fields=fields)
