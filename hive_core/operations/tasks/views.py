"""A task as its readers see it."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.model.work.task import Task
from hive_core.operations.pages import written
from hive_core.operations.tasks.letters import who


class ResultRow(Result):
    worker: str = Field(description="Name of the agent that had the task.")
    worker_id: str = Field(description="Its identity.")
    status: str = Field(description="success, partial, failed, timeout or stopped.")
    summary: str = Field(description="What the agent says.")
    data: dict[str, object] | None = Field(description="What programs read of it.")
    error: str = Field(description="Why it is not whole; empty when it is.")
    artifacts: list[str] = Field(description="What it left in the store.")
    duration: float = Field(description="Seconds from its first start to its end; measured.")
    tokens: int | None = Field(description="Reported by the agent, not measured.")
    cost: int | None = Field(description="Millionths of the currency; reported, not measured.")
    attempts: int = Field(description="How often it was given to its agent.")


class TaskRow(Result):
    id: str = Field(description="The task.")
    agent: str = Field(description="Name of who has to do it.")
    agent_uuid: str = Field(description="Its identity.")
    assigner: str = Field(description="Name of who gave it, or `operator`.")
    assigner_uuid: str = Field(description="Its identity.")
    title: str = Field(description="A few words.")
    state: str = Field(description="How far it is.")
    offered: bool = Field(
        description="Whether its agent has its letter, or had, and did not begin it yet."
    )
    why: str = Field(description="Why it is so; empty when nothing needs saying.")
    priority: int = Field(description="0 (first) to 3.")
    attempt: int = Field(description="How often it was offered to its agent.")
    part_of: str = Field(description="The task that it is a part of; empty: of none.")
    waits_for: list[str] = Field(description="Tasks that have to end well before.")
    percent: int | None = Field(description="What the agent says of its progress.")
    progress: str = Field(description="What the agent says of its progress.")
    created: float = Field(description="Seconds since 1970.")
    started: float | None = Field(description="When its agent first began it.")
    deadline: float | None = Field(
        description="When it is stopped, in seconds since 1970; null while its clock stands."
    )
    ended: float | None = Field(description="When it came to its end; null before.")
    plan: str = Field(description="The approved plan; empty: none.")
    plan_required: bool = Field(description="Whether nothing is executed before one is approved.")
    context: str = Field(
        description="keep or clear what the agent remembers of earlier tasks; empty: as it does."
    )
    result: ResultRow | None = Field(description="How it came out; null before its end.")
    open: int = Field(description="Its sub-tasks that have not ended.")


def shown(call: Call, task: Task) -> TaskRow:
    """The row, with its result."""
    tasks = call.ledger.tasks
    return TaskRow(
        id=task.id, agent=who(call, task.assignee), agent_uuid=task.assignee,
        assigner=who(call, task.assigner), assigner_uuid=task.assigner, title=task.label,
        state=task.state.value, offered=task.offered, why=task.why,
        priority=task.request.priority, attempt=task.attempt,
        part_of=task.request.part_of, waits_for=tasks.needs.of(task.id) if task.open else [],
        percent=task.percent, progress=task.progress, created=task.created, started=task.started,
        deadline=task.hard_at, ended=task.ended, plan=task.plan,
        plan_required=task.request.plan_required, context=task.request.context,
        result=result(call, task),
        open=tasks.count_open("part_of", task.id),
    )  # fmt: skip


def result(call: Call, task: Task) -> ResultRow | None:
    """The record of how it came out (row Q22)."""
    found = task.result
    if found is None or task.ended is None:
        return None
    begun = task.ended if task.started is None else task.started
    return ResultRow(
        worker=who(call, task.assignee), worker_id=task.assignee, status=found.status.value,
        summary=found.summary, data=None if found.data is None else dict(found.data),
        error=found.error, artifacts=list(found.artifacts),
        duration=round(max(0.0, task.ended - begun), 3), tokens=found.tokens, cost=found.cost,
        attempts=task.attempt,
    )  # fmt: skip


def size(row: TaskRow) -> int:
    """Bytes of a row in a reply."""
    return written("") + len(row.model_dump_json().encode())
