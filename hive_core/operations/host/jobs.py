"""Jobs: work that takes time.

The caller that started a job and the operator can show, await and list it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import InvalidArgument, LimitReached, NotFound
from hive_core.model.wire.record import JobRecord
from hive_core.operations.fields import WAIT_MOST
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.policy.rules import SELF


class GetJobParams(Params):
    id: str = Field(max_length=64, description="The job.")
    after: str | None = Field(
        None,
        max_length=64,
        description="`next` of the previous answer: answer only when something changed.",
    )


class WaitJobParams(GetJobParams):
    wait: float = Field(
        WAIT_MOST, ge=0, le=WAIT_MOST, description="Maximum time to wait, in seconds."
    )


class JobResult(Result):
    id: str = Field(description="The job.")
    operation: str = Field(description="The operation that created it.")
    state: str = Field(description="running, done or failed.")
    agents: list[str] = Field(description="Names of the agents; the UUID of a destroyed one.")
    started: float = Field(description="When it started, in seconds since 1970.")
    ended: float | None = Field(
        description="When it ended, in seconds since 1970; null: it still runs."
    )
    error: str = Field(description="Why it failed; empty otherwise.")
    progress: dict[str, object] = Field(description="Known progress.")
    next: str | None = Field(description="`after` of the next call; null: the job has ended.")


class ListJobsParams(Paged):
    """A job may concern many agents, and lists their names."""


class JobPage(Page):
    jobs: list[JobResult] = Field(description="The jobs, the newest first.")


@operation(action="read", allow=SELF)
def get_job(call: Call, params: GetJobParams) -> JobResult | Wait[JobResult]:
    """Show a job of the caller; called with `more`, each change until it has ended."""
    job = _find_job(call, params.id)
    if call.more and job.next is not None and job.next == params.after:
        return Wait(frozenset({f"job:{params.id}"}), None, job)
    return job


@operation(action="read", allow=SELF)
def wait_job(call: Call, params: WaitJobParams) -> JobResult | Wait[JobResult]:
    """Wait until a job of the caller has ended, or until `wait` has passed."""
    job = _find_job(call, params.id)
    news = call.more and job.next != params.after
    if job.next is None or news:
        return job
    # A stream ends with the job: a page after each `wait` would contain nothing new.
    deadline = None if call.more else call.now + params.wait
    return Wait(frozenset({f"job:{params.id}"}), deadline, job)


@operation(action="read", allow=SELF)
def list_jobs(call: Call, params: ListJobsParams) -> JobPage:
    """List the caller's jobs, the newest first; the operator sees all jobs."""
    after = params.after
    if after is not None and not _owns(call, call.ledger.jobs.get(after)):
        raise InvalidArgument(f"no job {after[:64]}", field="after")
    mine = None if call.by_operator else call.uuid
    jobs = call.ledger.jobs.page(mine, params.most + 1, after)
    page = (_job_result(call, job) for job in jobs[: params.most])
    rows = list(take_fitting(page, lambda job: reply_bytes(job.model_dump_json())))
    return JobPage(jobs=rows, next=rows[-1].id if len(rows) < len(jobs) else None)


def create_job(call: Call, operation: str, goals: Mapping[str, str]) -> str:
    """Create a job of the change path with a goal for each agent.

    A job without goals is done at once.
    """
    most = call.settings.limits.open_jobs
    if not call.by_operator and call.ledger.jobs.waiting(call.uuid) >= most:
        raise LimitReached(f"cannot {operation}: limit of open jobs ({most}) reached")
    job = call.ledger.jobs.create(operation, call.uuid, goals, call.now)
    if not goals:
        call.ledger.jobs.finish(job.id, "", call.now)
    return job.id


def _find_job(call: Call, id_: str) -> JobResult:
    job = call.ledger.jobs.get(id_)
    if job is None or not _owns(call, job):
        raise NotFound(f"no job {id_}")
    return _job_result(call, job)


def _owns(call: Call, job: JobRecord | None) -> bool:
    return job is not None and (job.caller == call.uuid or call.by_operator)


def _job_result(call: Call, job: JobRecord) -> JobResult:
    return JobResult(
        id=job.id,
        operation=job.operation,
        state=job.state,
        agents=[call.hive.name(uuid) or uuid for uuid in job.agents],
        started=job.started,
        ended=job.ended,
        error=job.error,
        progress=dict(job.progress),
        next=None if job.ended is not None else _progress_mark(job),
    )


def _progress_mark(job: JobRecord) -> str:
    """A digest that differs between two states of a running job."""
    text = json.dumps(dict(job.progress), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
