"""Jobs of `import_state`: a job container copies the files of an older installation.

The copy can be started again at any time and skips finished parts, so a restarted daemon runs it
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from hive_core.broker.call import Call, Record
from hive_core.errors import Conflict, HiveError, NotFound
from hive_core.host.systemd.job_exchange import exchange
from hive_core.model.config.review import VERDICT, VERDICT_MOST, Verdict
from hive_core.model.wire.record import JobRecord
from hive_core.plan.actions import JOB_BASES, JobKind, RunJob
from hive_core.plan.agent_steps import job_id_for_key
from hive_core.reconcile.deploy.background_tasks import BackgroundTasks
from hive_core.reconcile.deploy.transactions import DeployResult
from hive_core.reconcile.deps import BrokerHandle, Ports

GOAL: Final = "import"
TRIES: Final = 5


@dataclass
class ImportJobs:
    """Runs import jobs. Call `on_topics` with all topics, and `start` when no old job runs."""

    ports: Ports
    broker: BrokerHandle
    tasks: BackgroundTasks
    _started: bool = False

    @classmethod
    def build(
        cls, ports: Ports, broker: BrokerHandle, fatal: Callable[[BaseException], None]
    ) -> Self:
        tasks = BackgroundTasks(ports.clock, lambda _: None, fatal)
        imports = cls(ports, broker, tasks)
        tasks.requeue = lambda _: imports.resume()
        return imports

    def start(self) -> None:
        self._started = True
        self.resume()

    def on_topics(self, topics: frozenset[str]) -> None:
        if self._started and any(topic.startswith(f"{GOAL}:") for topic in topics):
            self.resume()

    def resume(self) -> None:
        """Start every open job that is not running."""
        for job in self.ports.ledger.jobs.open():
            if job.operation == "import_state" and job.id not in self.tasks.busy:
                self.tasks.start(job.id, self._run(job))

    async def _run(self, job: JobRecord) -> None:
        (uuid, goal), *_ = job.goals.items()
        try:
            figures = await self._copy_files(job, uuid, goal)
        except (Conflict, NotFound) as error:
            self._finish(job, f"{type(error).__name__}: {error.reason}", {})
        except HiveError as error:
            if self.tasks.failure_count(job.id) + 1 < TRIES:
                raise
            self._finish(job, f"{type(error).__name__}: {error.reason}", {})
        else:
            self._finish(job, "", figures)

    async def _copy_files(self, job: JobRecord, uuid: str, goal: str) -> dict[str, object]:
        _, source, into = goal.split(":")
        hive = self.broker.hive()
        name = hive.name(uuid)
        if name is None:
            raise NotFound("the agent was destroyed meanwhile")
        id_, words = job_id_for_key(job.id, JobKind.IMPORT_STATE), (source, into or ".")
        with exchange(self.ports.settings.paths.work, id_) as box:
            await self.ports.jobs.run(
                RunJob(
                    id_, JobKind.IMPORT_STATE, JOB_BASES[0], uuid, source, hive.path(name), words
                )
            )
            return _figures(box.read(VERDICT, VERDICT_MOST))

    def _finish(self, job: JobRecord, error: str, figures: dict[str, object]) -> None:
        def finish(call: Call) -> Record[DeployResult]:
            call.ledger.jobs.progress(job.id, figures)
            call.ledger.jobs.finish(job.id, error, call.now)
            fields = {"job": job.id, **({"error": error} if error else {})}
            call.notify(f"job:{job.id}")
            return Record(DeployResult(text=error or "copied"), fields=fields)

        self.broker.perform("end_import", finish)


def _figures(data: bytes) -> dict[str, object]:
    """The figures that the job reported."""
    said = Verdict.read(data)
    if not said.ok:
        raise Conflict(said.reason)
    return dict(said.figures)
