"""The status of workers in six views, from the daemon's own records (row Q25).

The daemon does not ask the workers, so the status is right for every kind of program, also for one
that hangs. Reports of a worker about itself (progress, notes) are quoted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import LimitReached
from hive_core.ledger.mail.posting import one_line
from hive_core.model.wire.record import Event
from hive_core.model.work.planning import StepState
from hive_core.model.work.task import Task
from hive_core.operations.fields import Agent
from hive_core.operations.tasks.notices import task_line
from hive_core.operations.tasks.steps import execution_lock
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

WORKERS_MOST: Final = 100
_PAGE: Final = 500
_EVENTS_READ: Final = 2000  # from the newest back
_TEXT: Final = 300
_TOOLS: Final = frozenset({"use_tool", "end_tool"})
_DETAIL: Final = ("memory", "tools", "issues", "progress")
# Seconds until one caller may read the same view again.
COOLDOWN: Final[Mapping[str, float]] = {
    "activity": 0.0,
    **dict.fromkeys(_DETAIL, 10.0),
    "full": 30.0,
}


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker, with its open tasks and its last events (`full` and detailed views)."""

    call: Call
    uuid: str
    tasks: list[Task]  # the first ones
    count: int
    events: list[Event]


class WorkerStatusParams(Params):
    worker: Agent | None = Field(
        None,
        description="Name of the worker; default: all descendants of the caller; for the operator"
        " all agents.",
    )
    focus: Literal["activity", "memory", "tools", "issues", "progress", "full"] = Field(
        "activity", description="The view."
    )
    n: int = Field(
        5, ge=1, le=50, description="Maximum number of entries of each kind; the newest are shown."
    )


class WorkerRow(Result):
    worker: str = Field(description="Name of the worker.")
    role: str = Field(description="Its role.")
    state: str = Field(description="State of its machine.")
    activity: str = Field(description="idle, running or blocked.")
    tasks: int = Field(description="Number of its open tasks.")
    lines: list[str] = Field(description="The view, in words.")


class WorkerStatus(Result):
    focus: str = Field(description="The view.")
    workers: list[WorkerRow] = Field(description="The workers, in the order of the tree.")
    more: int = Field(description="Number of workers that are not shown.")
    text: str = Field(description="The whole reply in words, for people and models.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="worker", preposition="of")
def get_worker_status(call: Call, params: WorkerStatusParams) -> WorkerStatus:
    """Show the status of workers: activity, memory, tools, issues, progress, or all of it.

    A caller may read a detailed view every 10 s, and the full view every 30 s.
    """
    _check_rate(call, params)
    names = _workers(call, params.worker)
    by_caller: defaultdict[str, list[Event]] = defaultdict(list)
    for event in _events(call) if params.focus in ("tools", "issues", "full") else ():
        by_caller[event.caller].append(event)
    rows = [_row(call, params, name, by_caller) for name in names[:WORKERS_MOST]]
    text = "\n".join(_row_text(row) for row in rows) or "you have no descendants"
    return WorkerStatus(focus=params.focus, workers=rows, more=len(names) - len(rows), text=text)


def _check_rate(call: Call, params: WorkerStatusParams) -> None:
    seconds = COOLDOWN[params.focus]
    if not seconds or call.by_operator:
        return
    after = call.ledger.plans.looks.take((call.uuid, params.focus), seconds, call.now)
    if after > 0:
        reason = f"cannot show {params.focus} again yet: try in {after:.1f} s"
        raise LimitReached(reason, retry_after=after)


def _workers(call: Call, worker: str | None) -> list[str]:
    if worker is not None:
        return [worker]
    if call.by_operator:
        return list(call.hive.topology.order)
    return [name for name in call.hive.topology.subtree(call.caller) if name != call.caller]


def _row(
    call: Call, params: WorkerStatusParams, name: str, events: Mapping[str, list[Event]]
) -> WorkerRow:
    spec = call.hive.spec(name)
    tasks = call.ledger.tasks.open_tasks(spec.id, params.n)
    count = call.ledger.tasks.count_open("assignee", spec.id)
    worker = Worker(call, spec.id, tasks, count, events.get(spec.id, []))
    views = _VIEWS.values() if params.focus == "full" else (_VIEWS[params.focus],)
    # Text of workers cannot make new lines, which could look like the status of others.
    lines = [one_line(text[:_TEXT]) for view in views for text in view(worker, params.n)]
    return WorkerRow(
        worker=name, role=spec.role.value, state=call.states.state(spec.id).value,
        activity=call.ledger.activity(spec.id), tasks=count, lines=lines,
    )  # fmt: skip


def _row_text(row: WorkerRow) -> str:
    tasks = f"{row.tasks} task{'' if row.tasks == 1 else 's'}"
    head = f"{row.worker} ({row.role}): {row.state}, {row.activity}, {tasks}"
    return "\n".join([head, *(f"  {line}" for line in row.lines)])


def _events(call: Call) -> list[Event]:
    """The last events, the newest first."""
    events = call.ledger.events
    newest: list[Event] = []
    after = max(0, events.last - _EVENTS_READ)
    while page := events.page(after, _PAGE):
        newest += page
        after = page[-1].seq
    return newest[::-1]


def _activity_lines(worker: Worker, n: int) -> Iterator[str]:
    for task in worker.tasks[:n]:
        yield task_line(worker.call, task)
    if worker.count > n:
        yield f"and {worker.count - n} more tasks"


def _progress_lines(worker: Worker, n: int) -> Iterator[str]:
    for task in worker.tasks[:n]:
        percent = "" if task.percent is None else f"{task.percent} %, "
        yield f"{task.id} try {task.attempt}: {percent}says: {task.progress or 'nothing yet'}"
        plan = worker.call.ledger.plans.get(worker.call.ledger.plans.newest(task.id))
        if plan is not None:
            states = [step.state for step in plan.steps]
            done = states.count(StepState.DONE) + states.count(StepState.SKIPPED)
            yield f"{task.id} plan {plan.id} ({plan.state}): {done} of {len(states)} steps done"


def _tool_lines(worker: Worker, n: int) -> Iterator[str]:
    for grant in worker.call.ledger.tools.open_grants(worker.uuid)[:n]:
        yield f"uses {grant.tool}: {' '.join(grant.argument)}"
    uses = [event for event in worker.events if event.operation in _TOOLS]
    for event in uses[:n]:
        fields = event.fields
        if event.allowed is False:
            yield f"{event.time:.0f} refused: {event.reason}"
        else:
            words = f"{fields.get('tool', '')} {fields.get('argument', '')}"
            yield f"{event.time:.0f} {words}: {fields.get('status') or 'begun'}"


def _issue_lines(worker: Worker, n: int) -> Iterator[str]:
    ledger, call = worker.call.ledger, worker.call
    if why := execution_lock(ledger, worker.uuid):
        yield f"locked: {why}"
    if why := ledger.lives.blocked_reason(worker.uuid):
        yield f"says that it is blocked: {why}"
    for question in ledger.questions.open_of_asker(worker.uuid)[:n]:
        yield f"waits for an answer to {question.kind.value} {question.id}"
    end = ledger.lives.last_end(worker.uuid)
    if end is not None and not end.clean and not end.asked:
        yield f"ended by itself at {end.at:.0f}: {end.reason}"
    dead = ledger.messages.inbox(worker.uuid, dead=True, limit=n)
    yield from (f"gave up message {letter.id}: {letter.dead_why}" for letter in dead)
    refused = [event for event in worker.events if event.allowed is False]
    yield from (f"was refused {event.operation}: {event.reason}" for event in refused[:n])
    active = ledger.tasks.begun_tasks(worker.uuid)
    stuck = [task for task in active if task.hard_at is not None and task.hard_at <= call.now]
    yield from (f"task {task.id} is past its deadline" for task in stuck[:n])


def _memory_lines(worker: Worker, n: int) -> Iterator[str]:
    ledger = worker.call.ledger
    note, at = ledger.lives.snapshot(worker.uuid)
    if at is not None:
        yield f"kept {len(note)} characters for its next start at {at:.0f}"
    mail = ledger.messages.inbox(worker.uuid, dead=False, limit=n)
    yield from (f"unread: {letter.kind} of {letter.sender_name}" for letter in mail)
    plans = ledger.plans.plans_of_agent(worker.uuid, n)
    yield from (f"plan {plan.id} for task {plan.task or '-'}: {plan.state}" for plan in plans)
    waits = ledger.plans.waits.open_waits(worker.uuid)
    yield from (f"waits ({wait.id}) until {wait.deadline:.0f}" for wait in waits[:n])


_VIEWS: Final[Mapping[str, Callable[[Worker, int], Iterator[str]]]] = {
    "activity": _activity_lines, "progress": _progress_lines, "tools": _tool_lines,
    "issues": _issue_lines, "memory": _memory_lines,
}  # fmt: skip
