"""Tasks as results."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.broker.quarantine import quarantine_holder, quarantine_reason
from hive_core.ledger.mail.posting import one_line
from hive_core.model.agents.machine import State
from hive_core.model.work.judgement import CHECK, MODEL
from hive_core.model.work.task import UNSTARTED, Task, TaskResult
from hive_core.operations.pages import reply_bytes
from hive_core.operations.tasks.notices import party_name, task_traceparent
from hive_core.operations.tasks.spend import task_spend

_UP: Final = frozenset({State.RUNNING, State.DEGRADED})
_DOWN: Final = frozenset({State.STOPPED, State.FAILED, State.PARKED})


class ResultRow(Result):
    worker: str = Field(description="Name of the agent that had the task.")
    worker_id: str = Field(description="UUID of that agent.")
    status: str = Field(description="success, partial, failed, timeout or stopped.")
    summary: str = Field(description="Summary that the agent reported.")
    data: dict[str, object] | None = Field(description="The result for programs.")
    error: str = Field(description="Why the task is not complete; empty when it is.")
    artifacts: list[str] = Field(description="Ids of artifacts that the agent stored for it.")
    duration: float = Field(description="Seconds from the first start to the end; measured.")
    tokens: int | None = Field(description="Tokens spent for the task; null: unknown.")
    cost: int | None = Field(
        description="Cost of the task in millionths of the currency; null: unknown."
    )
    source: str = Field(
        description="Source of `tokens` and `cost`: `measured` by the daemon; `reported`, wholly or"
        " partly, by the agent; `estimated`; empty when both are unknown."
    )
    attempts: int = Field(description="How often the task was given to its agent.")


class JudgementRow(Result):
    attempt: int = Field(description="Attempt whose result was judged.")
    verdict: str = Field(description="accept, retry or escalate.")
    judge: str = Field(
        description="check (of the daemon), model (of the assigner's session), or the name of the"
        " caller."
    )
    feedback: str = Field(description="Reason of the verdict.")
    time: float = Field(description="Seconds since 1970.")


class TaskRow(Result):
    id: str = Field(description="Id of the task.")
    agent: str = Field(description="Name of the assignee.")
    agent_uuid: str = Field(description="UUID of the assignee.")
    assigner: str = Field(description="Name of the assigner, or `operator`.")
    assigner_uuid: str = Field(description="UUID of the assigner.")
    title: str = Field(description="Short title for lists.")
    state: str = Field(description="State of the task.")
    offered: bool = Field(
        description="Whether the assignee was offered the task and has not begun it."
    )
    why: str = Field(description="Reason for the state; empty: none.")
    priority: int = Field(description="Priority: 0 (first) to 3.")
    attempt: int = Field(description="How often the task was offered to its agent.")
    part_of: str = Field(description="The task that this one is a part of; empty: none.")
    traceparent: str = Field(
        description="Span of the present attempt, as W3C Trace Context writes it."
    )
    waits_for: list[str] = Field(description="Tasks that must succeed before this one can begin.")
    percent: int | None = Field(description="Progress in percent, reported by the agent.")
    progress: str = Field(description="Progress in words, reported by the agent.")
    created: float = Field(description="Creation time, in seconds since 1970.")
    started: float | None = Field(
        description="When the agent began the task for the first time, in seconds since 1970."
    )
    deadline: float | None = Field(
        description="When its deadline comes, in seconds since 1970; null while its clock stands."
    )
    ended: float | None = Field(
        description="When the task ended, in seconds since 1970; null before its end."
    )
    plan: str = Field(description="The approved plan; empty: none.")
    plan_required: bool = Field(
        description="Whether the agent may execute nothing before a plan is approved."
    )
    context: str = Field(
        description="keep or clear: what the agent does with its memory of earlier tasks; empty:"
        " the agent decides."
    )
    result: ResultRow | None = Field(description="Result of the task; null before its end.")
    open: int = Field(description="Number of its sub-tasks that have not ended.")


def task_row(call: Call, task: Task) -> TaskRow:
    """The row of a task, with its result."""
    tasks, request = call.ledger.tasks, task.request
    return TaskRow(
        id=task.id, agent=party_name(call, task.assignee), agent_uuid=task.assignee,
        assigner=party_name(call, task.assigner), assigner_uuid=task.assigner, title=task.label,
        state=task.state.value, offered=task.offered, why=task.why,
        priority=request.priority, attempt=task.attempt, part_of=request.part_of,
        traceparent=task_traceparent(call, task),
        waits_for=tasks.needs.of(task.id) if task.open else [],
        percent=task.percent, progress=task.progress, created=task.created, started=task.started,
        deadline=task.hard_at, ended=task.ended, plan=task.plan,
        plan_required=request.plan_required, context=request.context,
        result=result_row(call, task), open=tasks.count_open("part_of", task.id),
    )  # fmt: skip


def result_row(call: Call, task: Task) -> ResultRow | None:
    """The result of the task (row Q22); None while it is open."""
    result = task.result
    if result is None or task.ended is None:
        return None
    return _result_fields(call, task, result, task.ended)


def delivered_row(call: Call, task: Task) -> ResultRow | None:
    """The result of a task that waits for a verdict."""
    delivery = call.ledger.tasks.judgements.delivery(task.id)
    return None if delivery is None else _result_fields(call, task, delivery.result, call.now)


def judgement_rows(call: Call, task: Task) -> list[JudgementRow]:
    """The verdicts on the results of a task, the oldest first."""
    return [
        JudgementRow(
            attempt=row.attempt, verdict=row.verdict, feedback=row.feedback, time=row.at,
            judge=row.by if row.by in (CHECK, MODEL) else party_name(call, row.by),
        )
        for row in call.ledger.tasks.judgements.of(task.id)
    ]  # fmt: skip


def _result_fields(call: Call, task: Task, result: TaskResult, ended: float) -> ResultRow:
    spend = task_spend(call, task)
    started = ended if task.started is None else task.started
    return ResultRow(
        worker=party_name(call, task.assignee), worker_id=task.assignee,
        status=result.status.value, summary=result.summary,
        data=None if result.data is None else dict(result.data),
        error=result.error, artifacts=list(result.artifacts),
        duration=round(max(0.0, ended - started), 3), tokens=spend.tokens,
        cost=spend.cost, source=spend.source, attempts=task.attempt,
    )  # fmt: skip


def row_size(row: TaskRow) -> int:
    """Bytes of a row in a reply."""
    return reply_bytes("") + len(row.model_dump_json().encode())


def start_hint(call: Call, task: Task) -> str:
    """Why the agent cannot begin the task now, as far as the daemon knows.

    Empty without a known reason, when the task is begun, and while it waits for other tasks.
    """
    name = call.hive.name(task.assignee)
    if name is None or task.state not in UNSTARTED or call.ledger.tasks.needs.of(task.id):
        return ""
    if holder := quarantine_holder(call, task.assignee):
        return f"{quarantine_reason(name, holder)}; it gets the task then"
    return _hint_by_state(call, task, name)


def _hint_by_state(call: Call, task: Task, name: str) -> str:
    state = call.states.state(task.assignee)
    if state in _UP:
        return _hint_while_up(call, task, name)
    if state is State.SLEEPING and not call.hive.spec(name).wakes:
        return f"{name} sleeps: it gets the task when it is resumed"
    return _hint_while_down(call, task, name, state) if state in _DOWN else ""


def _hint_while_up(call: Call, task: Task, name: str) -> str:
    messages = call.ledger.messages
    if not messages.is_reader(task.assignee):
        return f"{name} runs and has not asked for its mail since it started"
    # Not `untaken`, which sorts new mail into its queue: a read must not write.
    message = messages.get(task.message) if task.offered else None
    if task.offered and (message is None or message.attempt):
        return f"{name} has received the task and not begun it: no deadline runs before it does"
    return ""


def _hint_while_down(call: Call, task: Task, name: str, state: State) -> str:
    starts = call.ledger.starts.get(task.assignee)
    failed = state is not State.STOPPED and starts is not None
    why = f" ({one_line(starts.why)})" if failed and starts is not None and starts.why else ""
    return f"{name} is {state.value}{why}: it gets the task when it is started"
