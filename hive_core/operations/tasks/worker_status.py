"""How workers stand, in six views, from what the daemon knows itself (row Q25).

Nothing is asked of the workers, so it is true of every kind of program, also of one that hangs.
What a worker says of itself (progress, notes) is shown as its words.
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
from hive_core.operations.tasks.begin import lock_of
from hive_core.operations.tasks.letters import line
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

WORKERS_MOST: Final = 100
_PAGE: Final = 500
_LOOKED_AT: Final = 2000  # events, from the newest back
_TEXT: Final = 300
_TOOLS: Final = frozenset({"use_tool", "end_tool"})
_DETAIL: Final = ("memory", "tools", "issues", "progress")
# Seconds between two looks of one caller at the same view.
COOLDOWN: Final[Mapping[str, float]] = {
    "activity": 0.0,
    **dict.fromkeys(_DETAIL, 10.0),
    "full": 30.0,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One worker, with its open tasks and what it did of late (`full` and detailed views)."""

    call: Call
    uuid: str
    tasks: list[Task]  # the first ones
    count: int
    events: list[Event]


class WorkerStatusParams(Params):
    worker: Agent | None = Field(
        None, description="Who; absent: all below the caller, of the operator's all there are."
    )
    focus: Literal["activity", "memory", "tools", "issues", "progress", "full"] = Field(
        "activity", description="Which view."
    )
    n: int = Field(5, ge=1, le=50, description="Entries of each kind at most, the newest.")


class WorkerRow(Result):
    worker: str = Field(description="Name.")
    role: str = Field(description="What it is for.")
    state: str = Field(description="State of its machine.")
    activity: str = Field(description="idle, running or blocked.")
    tasks: int = Field(description="Open tasks.")
    lines: list[str] = Field(description="The view, in words.")


class WorkerStatus(Result):
    focus: str = Field(description="The view.")
    workers: list[WorkerRow] = Field(description="In the order of the tree.")
    more: int = Field(description="Workers that are not shown.")
    text: str = Field(description="All of it in words, for people and models.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="worker", preposition="of")
def get_worker_status(call: Call, params: WorkerStatusParams) -> WorkerStatus:
    """Tell how workers stand: their activity, memory, tools, issues, progress, or all of it.

    The detailed views are given every 10 s to one caller, the full one every 30 s.
    """
    _check_rate(call, params)
    names = _workers(call, params.worker)
    by_caller: defaultdict[str, list[Event]] = defaultdict(list)
    for event in _events(call) if params.focus in ("tools", "issues", "full") else ():
        by_caller[event.caller].append(event)
    rows = [_row(call, params, each, by_caller) for each in names[:WORKERS_MOST]]
    text = "\n".join(_words(each) for each in rows) or "nobody works below you"
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
    return [each for each in call.hive.topology.subtree(call.caller) if each != call.caller]


def _row(
    call: Call, params: WorkerStatusParams, name: str, events: Mapping[str, list[Event]]
) -> WorkerRow:
    spec = call.hive.spec(name)
    tasks = call.ledger.tasks.open_tasks(spec.id, params.n)
    count = call.ledger.tasks.count_open("assignee", spec.id)
    seen = Seen(call, spec.id, tasks, count, events.get(spec.id, []))
    views = _VIEWS.values() if params.focus == "full" else (_VIEWS[params.focus],)
    # What workers wrote makes no lines of its own, which might seem to be about others.
    lines = [one_line(text[:_TEXT]) for view in views for text in view(seen, params.n)]
    return WorkerRow(
        worker=name, role=spec.role.value, state=call.states.state(spec.id).value,
        activity=call.ledger.activity(spec.id), tasks=count, lines=lines,
    )  # fmt: skip


def _words(row: WorkerRow) -> str:
    tasks = f"{row.tasks} task{'' if row.tasks == 1 else 's'}"
    head = f"{row.worker} ({row.role}): {row.state}, {row.activity}, {tasks}"
    return "\n".join([head, *(f"  {each}" for each in row.lines)])


def _events(call: Call) -> list[Event]:
    """The newest ones, the newest first."""
    events = call.ledger.events
    found: list[Event] = []
    after = max(0, events.last - _LOOKED_AT)
    while page := events.page(after, _PAGE):
        found += page
        after = page[-1].seq
    return found[::-1]


def _activity(seen: Seen, n: int) -> Iterator[str]:
    for task in seen.tasks[:n]:
        yield line(seen.call, task)
    if seen.count > n:
        yield f"and {seen.count - n} more tasks"


def _progress(seen: Seen, n: int) -> Iterator[str]:
    for task in seen.tasks[:n]:
        percent = "" if task.percent is None else f"{task.percent} %, "
        yield f"{task.id} try {task.attempt}: {percent}says: {task.progress or 'nothing yet'}"
        plan = seen.call.ledger.plans.get(seen.call.ledger.plans.newest(task.id))
        if plan is not None:
            states = [each.state for each in plan.steps]
            done = states.count(StepState.DONE) + states.count(StepState.SKIPPED)
            yield f"{task.id} plan {plan.id} ({plan.state}): {done} of {len(states)} steps done"


def _tools(seen: Seen, n: int) -> Iterator[str]:
    for grant in seen.call.ledger.tools.open_grants(seen.uuid)[:n]:
        yield f"uses {grant.tool}: {' '.join(grant.argument)}"
    used = [each for each in seen.events if each.operation in _TOOLS]
    for each in used[:n]:
        fields = each.fields
        if each.allowed is False:
            yield f"{each.time:.0f} refused: {each.reason}"
        else:
            words = f"{fields.get('tool', '')} {fields.get('argument', '')}"
            yield f"{each.time:.0f} {words}: {fields.get('status') or 'begun'}"


def _issues(seen: Seen, n: int) -> Iterator[str]:
    ledger, call = seen.call.ledger, seen.call
    if why := lock_of(ledger, seen.uuid):
        yield f"locked: {why}"
    for question in ledger.questions.open_of_asker(seen.uuid)[:n]:
        yield f"waits for an answer to {question.kind.value} {question.id}"
    end = ledger.lives.last_end(seen.uuid)
    if end is not None and not end.clean and not end.asked:
        yield f"ended by itself at {end.at:.0f}: {end.reason}"
    dead = ledger.messages.inbox(seen.uuid, dead=True, limit=n)
    yield from (f"gave up message {each.id}: {each.dead_why}" for each in dead)
    refused = [each for each in seen.events if each.allowed is False]
    yield from (f"was refused {each.operation}: {each.reason}" for each in refused[:n])
    active = ledger.tasks.begun_tasks(seen.uuid)
    stuck = [task for task in active if task.hard_at is not None and task.hard_at <= call.now]
    yield from (f"task {task.id} is past its deadline" for task in stuck[:n])


def _memory(seen: Seen, n: int) -> Iterator[str]:
    ledger = seen.call.ledger
    kept, at = ledger.lives.snapshot(seen.uuid)
    if at is not None:
        yield f"kept {len(kept)} characters for its next start at {at:.0f}"
    mail = ledger.messages.inbox(seen.uuid, dead=False, limit=n)
    yield from (f"unread: {each.kind} of {each.sender_name}" for each in mail)
    plans = ledger.plans.plans_of_agent(seen.uuid, n)
    yield from (f"plan {each.id} for task {each.task or '-'}: {each.state}" for each in plans)
    waits = ledger.plans.waits.open_waits(seen.uuid)
    yield from (f"waits ({each.id}) until {each.deadline:.0f}" for each in waits[:n])


_VIEWS: Final[Mapping[str, Callable[[Seen, int], Iterator[str]]]] = {
    "activity": _activity, "progress": _progress, "tools": _tools, "issues": _issues,
    "memory": _memory,
}  # fmt: skip
