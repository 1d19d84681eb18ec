"""One call that ends all work of a subtree: running and queued tasks, batches, triggers (row Q40).

Agents, plans and files stay. The reply has the state of each task: with `wait` it comes when the
last task has ended. Tasks that have not ended by the deadline are shown with their state.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, on
from hive_core.broker.operation import Result, operation
from hive_core.broker.timers import due
from hive_core.ledger.tasks.end_in_batches import Sweep
from hive_core.model.work.task import ResultStatus, TaskState
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.batches.dispatch import wind_up
from hive_core.operations.fields import Agent, Reason, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.tasks.transitions import end_in_batches
from hive_core.operations.triggers.lifecycle_hooks import pause_triggers
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

GOAL: Final = "work:"  # this module decides whether the goal is met, not the change path
GRACE: Final = 3.0
# Bounds of the reply and of the event: they show the last tasks, among them those that ran.
_TASKS_SHOWN: Final = 500
_IN_EVENT: Final = 64


class StopWorkParams(WaitParams):
    agent: Agent | None = Field(
        None,
        description="Agent whose work is stopped, with that of its descendants. Default: all"
        " descendants of the caller, and the caller's own batches and triggers.",
    )
    reason: Reason = Field(description="Reason, recorded in each result.")
    grace: float = Field(
        GRACE, ge=0, le=30,
        description="Seconds for a worker to confirm; after that its container is restarted.",
    )  # fmt: skip


class StoppedTask(Result):
    task: str = Field(description="Id of the task.")
    agent: str = Field(description="Name of its assignee.")
    state: str = Field(description="cancelled or done, or stopping until it has ended.")
    status: str = Field(description="Status of its result; empty until it has ended.")


class WorkStopped(Result):
    tasks: list[StoppedTask] = Field(
        description="Tasks that this call stops, at most 500, with their state."
    )
    stopping: int = Field(description="Number of them that have not ended yet.")
    batches: list[str] = Field(description="Batches that were ended.")
    triggers: list[str] = Field(description="Triggers that were switched off.")
    job: str = Field(description="Job that ends when all tasks have ended, or at its deadline.")


@operation(
    action="work",
    allow=SELF | ANCESTOR | OPERATOR,
    target="agent",
    preposition="of",
    urgent=True,
    destructive=True,
    idempotent=True,
)
def stop_work(call: Call, params: StopWorkParams) -> Record[WorkStopped]:
    """Stop all work of an agent and its descendants: tasks, batches and triggers.

    The call stops the first 32 tasks, running ones before waiting ones; the others follow at once.
    Agents can no longer begin any of them.

    Allowed to an ancestor and the operator, and to an agent for its descendants. With `wait` the
    reply comes when the last task has ended, or at the deadline.
    """
    why, agents = params.reason or "stopped", _agents(call, params.agent)
    owners = agents | ({call.uuid} if params.agent in (None, call.caller) else frozenset())
    waiting, running = call.ledger.plans.sweeps.open_tasks(agents)
    tasks = [*waiting, *running]  # in the order in which they are stopped
    sweep = Sweep(call.uuid, call.caller, ResultStatus.STOPPED, why, params.grace)
    # Running tasks come first. A waiting task cannot start meanwhile: it ends now, or is in the
    # sweep.
    end_in_batches(call, sweep, [*running, *waiting])
    batches = _stop_batches(call, owners, why, params.grace)
    triggers = pause_triggers(call, owners)
    open_counts = call.ledger.plans.sweeps.open_counts(tasks)
    job = create_job(call, "stop_work", dict.fromkeys(open_counts, f"{GOAL}stop"))
    if open_counts:
        deadline = call.now + params.grace + call.settings.waits.stop
        call.ledger.plans.stops.create(job, tasks, deadline)
    result = WorkStopped(
        tasks=_task_rows(call, tasks), stopping=sum(open_counts.values()), batches=batches,
        triggers=triggers, job=job,
    )  # fmt: skip
    fields = {
        "count": len(tasks), "tasks": tasks[-_IN_EVENT:], "batches": batches[:_IN_EVENT],
        "triggers": triggers[:_IN_EVENT], "reason": params.reason,
    }  # fmt: skip
    return Record(result, fields=fields)


@on(TaskEnded)
def finish_stop_jobs(call: Call, event: TaskEnded) -> None:
    """Finish each job whose last task has ended."""
    for job in call.ledger.plans.stops.jobs_of(event.id):
        if not call.ledger.plans.stops.has_open_tasks(job):
            _finish_job(call, job)


@due(at=lambda ledger: ledger.plans.stops.next_deadline(), topics=frozenset({"task"}))
def finish_overdue_stop_job(call: Call) -> Record[Result]:
    """Finish a job at its deadline, with the present state of its tasks."""
    if job := call.ledger.plans.stops.overdue(call.now):
        _finish_job(call, job)
    return Record(Result())


def _agents(call: Call, agent: str | None) -> frozenset[str]:
    """UUIDs of the agents whose tasks are stopped; the caller finishes its own tasks."""
    tree = call.hive.topology
    if agent is None and call.by_operator:
        return frozenset(call.hive.names)
    names = tree.subtree(call.caller if agent is None else agent)
    return frozenset(call.hive.spec(name).id for name in names if name != call.caller)


def _stop_batches(call: Call, owners: frozenset[str], why: str, grace: float) -> list[str]:
    """Stop the batches of these owners; return their ids."""
    ids = list[str]()
    for owner in sorted(owners):
        for batch in call.ledger.plans.batches.running(owner):
            ids.append(batch.id)
            wind_up(call, batch, ResultStatus.STOPPED, why, grace)
    return ids


def _finish_job(call: Call, job: str) -> None:
    """Finish a job with the present state of its tasks; a call that waits for it gets them."""
    tasks = call.ledger.plans.stops.tasks(job)
    rows = [row.model_dump() for row in _task_rows(call, tasks)]
    stopping = sum(call.ledger.plans.sweeps.open_counts(tasks).values())
    call.ledger.plans.stops.delete(job)
    call.ledger.jobs.progress(job, {"tasks": rows, "stopping": stopping})
    call.ledger.jobs.finish(job, "", call.now)
    call.notify(f"job:{job}")


def _task_rows(call: Call, tasks: list[str]) -> list[StoppedTask]:
    return [
        StoppedTask(
            task=task.id, agent=display_name(call, task.assignee),
            state=TaskState.STOPPING if task.open else task.state,
            status=task.result.status if task.result else "",
        )
        for task in call.ledger.tasks.get_many(tasks[-_TASKS_SHOWN:])
    ]  # fmt: skip
