"""One call that ends all work of a subtree: running and queued tasks, batches, triggers (row Q40).

Agents stay, and so do plans and files. The answer says what has really stopped: asked to wait, it
comes when the last task is over; what had not ended by then is told as it is.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, when
from hive_core.broker.operation import Result, operation
from hive_core.broker.timers import due
from hive_core.ledger.tasks.end_in_batches import Sweep
from hive_core.model.work.task import ResultStatus, TaskState
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.batches.dispatch import wind_up
from hive_core.operations.fields import Agent, Reason, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.tasks.end_in_batches import swept
from hive_core.operations.triggers.lifecycle_hooks import pause_triggers
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

GOAL: Final = "work:"  # judged here, not by the change road
GRACE: Final = 3.0
# The last of so many are told in an answer and in the event: what ran is among them.
_TASKS_SHOWN: Final = 500
_IN_EVENT: Final = 64


class StopWorkParams(WaitParams):
    agent: Agent | None = Field(
        None,
        description="Whose work, with that of all below it. Absent: of all below the caller, and"
        " its own batches and triggers.",
    )
    reason: Reason = Field(description="Why; it stands in each result.")
    grace: float = Field(
        GRACE, ge=0, le=30,
        description="Seconds in which a worker can confirm; then its container is ended.",
    )  # fmt: skip


class StoppedTask(Result):
    task: str = Field(description="The task.")
    agent: str = Field(description="Whose it was.")
    state: str = Field(description="Its state: cancelled or done, or `stopping` while it ends.")
    status: str = Field(description="How it ended; empty while it has not.")


class WorkStopped(Result):
    tasks: list[StoppedTask] = Field(
        description="Tasks that this call ended, up to 500, and how far."
    )
    stopping: int = Field(description="How many of them have not really stopped.")
    batches: list[str] = Field(description="Batches that were ended.")
    triggers: list[str] = Field(description="Triggers that were switched off.")
    job: str = Field(description="Ends when all of it has stopped, or at its deadline.")


@operation(
    action="work", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of", urgent=True
)
def stop_work(call: Call, params: StopWorkParams) -> Record[WorkStopped]:
    """End all work of an agent and everybody below it in one call: tasks, batches, triggers.

    The first 32 tasks are ended with the call, what runs before what waits, the others right after
    it, one turn after the other; none of them is begun any more.

    An ancestor may, the operator, and an agent for all below it. With `wait` it answers when the
    last of it has stopped, or the time for it is over.
    """
    why, agents = params.reason or "stopped", _agents(call, params.agent)
    owners = agents | ({call.uuid} if params.agent in (None, call.caller) else frozenset())
    waiting, running = call.ledger.plans.sweeps.open_tasks(agents)
    tasks = [*waiting, *running]  # as they will have ended
    sweep = Sweep(call.uuid, call.caller, ResultStatus.STOPPED, why, params.grace)
    # What runs is told first. Nothing that waits is begun for it: it is in the sweep, or ends now.
    more = swept(call, sweep, [*running, *waiting])
    batches, topics = _batches(call, owners, why, params.grace)
    triggers = pause_triggers(call, owners)
    left = call.ledger.plans.sweeps.open_counts(tasks)
    job = create_job(call, "stop_work", dict.fromkeys(left, f"{GOAL}stop"))
    if left:
        deadline = call.now + params.grace + call.settings.waits.stop
        call.ledger.plans.stops.create(job, tasks, deadline)
    found = WorkStopped(
        tasks=_shown(call, tasks), stopping=sum(left.values()), batches=batches,
        triggers=triggers, job=job,
    )  # fmt: skip
    said = {
        "count": len(tasks), "tasks": tasks[-_IN_EVENT:], "batches": batches[:_IN_EVENT],
        "triggers": triggers[:_IN_EVENT], "reason": params.reason,
    }  # fmt: skip
    return Record(found, topics | more, said)


@when(TaskEnded)
def one_less(call: Call, what: TaskEnded) -> frozenset[str]:
    """One of what had to stop has; the last one ends the job."""
    topics = frozenset[str]()
    for job in call.ledger.plans.stops.jobs_of(what.id):
        if not call.ledger.plans.stops.has_open_tasks(job):
            topics |= _told(call, job)
    return topics


@due(at=lambda ledger: ledger.plans.stops.next_deadline(), topics=frozenset({"task"}))
def stops_over(call: Call) -> Record[Result]:
    """What has not stopped in time is told as it is."""
    job = call.ledger.plans.stops.overdue(call.now)
    return Record(Result(), _told(call, job) if job else frozenset())


def _agents(call: Call, agent: str | None) -> frozenset[str]:
    """Of whom tasks are ended: an agent does not end its own, it finishes them."""
    tree = call.hive.topology
    if agent is None and call.by_operator:
        return frozenset(call.hive.names)
    names = tree.subtree(call.caller if agent is None else agent)
    return frozenset(call.hive.spec(each).id for each in names if each != call.caller)


def _batches(
    call: Call, owners: frozenset[str], why: str, grace: float
) -> tuple[list[str], frozenset[str]]:
    found, topics = list[str](), frozenset[str]()
    for owner in sorted(owners):
        for batch in call.ledger.plans.batches.running(owner):
            found.append(batch.id)
            topics |= wind_up(call, batch, ResultStatus.STOPPED, why, grace)
    return found, topics


def _told(call: Call, job: str) -> frozenset[str]:
    """The job ends with the tasks as they are; who waits for it gets them."""
    tasks = call.ledger.plans.stops.tasks(job)
    shown = [each.model_dump() for each in _shown(call, tasks)]
    left = sum(call.ledger.plans.sweeps.open_counts(tasks).values())
    call.ledger.plans.stops.delete(job)
    call.ledger.jobs.progress(job, {"tasks": shown, "stopping": left})
    call.ledger.jobs.finish(job, "", call.now)
    return frozenset({f"job:{job}"})


def _shown(call: Call, tasks: list[str]) -> list[StoppedTask]:
    return [
        StoppedTask(
            task=each.id, agent=display_name(call, each.assignee),
            state=TaskState.STOPPING if each.open else each.state,
            status=each.result.status if each.result else "",
        )
        for each in call.ledger.tasks.get_many(tasks[-_TASKS_SHOWN:])
    ]  # fmt: skip
