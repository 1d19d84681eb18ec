"""Changes of agents as they happen, for a dashboard, `hive top` and programs: whole rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.broker.row_versions import FIGURES, ROWS, ChangedRow
from hive_core.ledger.budgets.usage import day_of
from hive_core.model.agents.agent import AgentSpec, Profile
from hive_core.model.agents.exits import Activity
from hive_core.model.agents.machine import State
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.agents.details import reason_of_state
from hive_core.operations.agents.row_facts import RowFacts, read_row_facts
from hive_core.operations.pages import ROWS_MOST, Page
from hive_core.policy.rules import OPERATOR

_TEXT_MOST: Final = 200
_MILLIONTHS: Final = 1e6


class WatchAgentsParams(Params):
    after: str | None = Field(
        None, max_length=100,
        description="`next` of the previous page; absent, or of an earlier daemon: all agents.",
    )  # fmt: skip
    every: float = Field(
        0.1, ge=0.1, le=60, description="Seconds at least between two pages of changes."
    )
    figures: bool = Field(
        default=False,
        description="Whether processor and memory are read every 2 s while this call waits; else"
        " they are up to 10 s old.",
    )


class AgentStatusRow(Result):
    """A row of the tree."""

    uuid: str = Field(description="UUID of the agent.")
    name: str = Field(description="Name of the agent.")
    parent: str | None = Field(description="Name of the parent; null for a root.")
    role: str = Field(description="Role of the agent.")
    title: str = Field(description="Title of the agent: free text.")
    phase: str = Field(description="Phase of a queen; empty for others.")
    state: str = Field(description="State of the machine.")
    activity: str = Field(description="What the agent is doing: idle, running or blocked.")
    since: float | None = Field(
        description="When the desired state of its machine last changed, in seconds since 1970."
    )
    task: str = Field(description="Id of the task that it works on; empty: none.")
    doing: str = Field(description="Title of that task; untrusted text.")
    percent: int | None = Field(description="How much of that task is done, as the agent reports.")
    waits_on: str = Field(
        description="What it waits for: `question ID`, `escalation ID`, `plan of ID`, `tasks`, or"
        " its own words, which are untrusted; empty: nothing."
    )
    inbox: int = Field(description="Number of unacknowledged messages in its inbox.")
    context: int | None = Field(
        description="Tokens in its context, as it reported; null: not reported."
    )
    tokens: int = Field(description="Tokens used today (UTC).")
    cost: float = Field(description="Cost of today (UTC) in the currency of the host.")
    cpu: float | None = Field(
        description="Share of one processor core: 0.5 is half a core; null: not known."
    )
    memory: int | None = Field(description="Memory of its machine in bytes; null: not known.")
    failures: int = Field(description="Number of failures that count for parking.")
    last: str = Field(
        description="Why its machine failed, stopped or was parked; untrusted text; empty: none of"
        " these."
    )


class AgentChanges(Page):
    reset: bool = Field(
        description="Whether the reader has to forget all rows that it has before it takes these."
    )
    synced: bool = Field(
        description="Whether the reader has all agents, and without `more` also all changes; in a"
        " stream, changes may follow."
    )
    rows: list[AgentStatusRow] = Field(description="Agents that changed, the oldest change first.")
    gone: list[str] = Field(description="UUIDs of agents that were destroyed.")


class _Cursor(NamedTuple):
    """How far a reader is. `at`: time of the page.

    `start`: the newest change when it began, until it has all agents; 0 from then on. A busy
    agent is always among the changes to come, so to have read up to the start is not enough.
    """

    version: int
    start: int
    at: float

    @classmethod
    def parse(cls, text: str | None, epoch: str) -> Self | None:
        """The cursor of this daemon; None for any other text."""
        of, *numbers = (text or "").split(".")
        if of != epoch or len(numbers) != len(cls._fields):
            return None
        if not all(number.isdecimal() and number.isascii() for number in numbers):
            return None
        version, start, at = map(int, numbers)
        return cls(version, start, at / 1000)

    def text(self, epoch: str) -> str:
        return f"{epoch}.{self.version}.{self.start}.{int(self.at * 1000)}"


@operation(action="administer", allow=OPERATOR)
def watch_agents(call: Call, params: WatchAgentsParams) -> AgentChanges | Wait[AgentChanges]:
    """Show all agents with what they do and use; called with `more`, changes follow.

    A row is always whole. An agent that changes several times between two pages is shown once, as
    it is then. The daemon numbers changes in memory: a reader that continues after a restart of the
    daemon gets all agents again, with `reset`.
    """
    rows = call.rows
    if params.figures:
        rows.figures.note_watcher(call.now)
    rows.refresh(call.hive, day_of(call.now), lambda kind, id_: _owner(call, kind, id_))
    cursor = _Cursor.parse(params.after, rows.epoch)
    if cursor is not None and max(cursor.version, cursor.start) < rows.forgotten:
        cursor = None
    reset = cursor is None
    cursor = cursor or _Cursor(0, rows.last, 0.0)
    changed = rows.changes_after(cursor.version, ROWS_MOST + 1)
    is_paced = call.more and not reset and not cursor.start and len(changed) <= ROWS_MOST
    if not is_paced:
        return _page(call, cursor, changed, reset=reset)
    due = cursor.at + params.every
    if cursor.at <= call.now < due:  # not after a clock that was set back
        nothing = AgentChanges(reset=False, synced=True, rows=[], gone=[], next=params.after)
        return Wait(frozenset(), None, nothing, until=due)
    page = _page(call, cursor, changed, reset=reset)
    return page if page.rows or page.gone else Wait(frozenset((ROWS,)), None, page)


def _page(
    call: Call, cursor: _Cursor, changed: Sequence[ChangedRow], *, reset: bool
) -> AgentChanges:
    rows = call.rows
    shown, is_full = changed[:ROWS_MOST], len(changed) > ROWS_MOST
    until = shown[-1].version if is_full else rows.last
    start = cursor.start if is_full else 0
    # A reader that asks now and then asks on until it has what changed meanwhile.
    synced = not start and (call.more or not is_full)
    known = max(cursor.version, cursor.start)
    # A row that was built before is mostly updated, and reads what changed alone.
    new = [row.uuid for row in shown if row.uuid not in rows.rows]
    facts = read_row_facts(call, new) if new else {}
    return AgentChanges(
        reset=reset, synced=synced,
        rows=[_row(call, row, facts) for row in shown],
        gone=[row.uuid for row in rows.gone_agents(known, max(until, known))],
        next=_Cursor(until, start, call.now).text(rows.epoch),
    )  # fmt: skip


def _owner(call: Call, kind: str, id_: str) -> str | None:
    """The agent whose row a task or a question changes."""
    if kind == "task":
        task = call.ledger.tasks.get(id_)
        return None if task is None else task.assignee
    question = call.ledger.questions.get(id_)
    return None if question is None else question.asker


def _row(call: Call, changed: ChangedRow, facts: Mapping[str, RowFacts]) -> AgentStatusRow:
    """The row as it was built for this change; several readers share it."""
    built = call.rows.rows.get(changed.uuid)
    if built is not None and built[0] == changed.version and isinstance(built[1], AgentStatusRow):
        return built[1]
    before = built[1] if built is not None else None
    kinds = call.rows.take_kinds(changed.uuid)
    row = None
    if isinstance(before, AgentStatusRow) and kinds and kinds <= _COLUMNS.keys():
        row = _update_row(call, before, kinds)
    if row is None:
        known = facts.get(changed.uuid) or read_row_facts(call, (changed.uuid,))[changed.uuid]
        row = _build_row(call, changed.uuid, known)
    call.rows.rows[changed.uuid] = (changed.version, row)
    return row


def _update_row(call: Call, before: AgentStatusRow, kinds: set[str]) -> AgentStatusRow | None:
    """The row with the columns of these kinds read anew; None where others follow from them."""
    columns: dict[str, Any] = {}
    for kind in kinds:
        columns |= _COLUMNS[kind](call, before.uuid)
    blocked = Activity.BLOCKED.value
    if (columns.get("activity", before.activity) == blocked) != (before.activity == blocked):
        return None
    return before.model_copy(update=columns)


def _inbox_columns(call: Call, uuid: str) -> dict[str, Any]:
    return {
        "inbox": call.ledger.messages.size(uuid)[0], "activity": call.states.activity(uuid),
    }  # fmt: skip


def _usage_columns(call: Call, uuid: str) -> dict[str, Any]:
    budgets = call.ledger.budgets
    tokens, cost = budgets.usage.totals_of_day(day_of(call.now), uuid)
    context = budgets.bounds.context(uuid)[0] or None
    return {"tokens": tokens, "cost": cost / _MILLIONTHS, "context": context}


def _figure_columns(call: Call, uuid: str) -> dict[str, Any]:
    figures = call.rows.figures.newest(uuid)
    return {"cpu": figures.cpu, "memory": figures.memory}


# What mail, usage and readings of processors change, which is most of what changes.
_COLUMNS: Final = {
    "inbox": _inbox_columns, "usage": _usage_columns, FIGURES: _figure_columns,
}  # fmt: skip


def _build_row(call: Call, uuid: str, facts: RowFacts) -> AgentStatusRow:
    name, run = call.hive.names[uuid], facts.run
    spec, state = call.hive.spec(name), call.states.state(uuid)
    activity, task = call.states.activity(uuid), _current_task(facts.tasks)
    return AgentStatusRow(  # validated: pydantic's model_construct takes twice as long
        uuid=uuid, name=name, parent=call.hive.topology.parent(name), role=spec.role.value,
        title=spec.title, phase=_phase(call, spec), state=state.value, activity=activity,
        since=run.since if run else None, task=task.id if task else "",
        doing=task.request.title[:_TEXT_MOST] if task else "",
        percent=task.percent if task else None,
        waits_on=_waits_on(call, uuid, task) if activity == Activity.BLOCKED.value else "",
        inbox=facts.inbox, tokens=facts.usage[0], cost=facts.usage[1] / _MILLIONTHS,
        context=facts.context or None, **_figure_columns(call, uuid), failures=facts.failures,
        last="" if state is State.RUNNING else reason_of_state(call, spec, run)[:_TEXT_MOST],
    )  # fmt: skip


def _current_task(tasks: list[Task]) -> Task | None:
    """The task that the agent has begun; else the one that it was offered first."""
    return next((task for task in tasks if task.begun), tasks[0] if tasks else None)


def _phase(call: Call, spec: AgentSpec) -> str:
    return call.ledger.phases.get(spec.id).phase.value if spec.profile is Profile.QUEEN else ""


def _waits_on(call: Call, uuid: str, task: Task | None) -> str:
    """The first thing that a blocked agent waits for."""
    ledger = call.ledger
    questions = ledger.questions.open_of_asker(uuid)
    if questions:
        return f"{questions[0].kind.value} {questions[0].id}"
    if task is not None and task.state is TaskState.AWAITING_PLAN_APPROVAL:
        return f"plan of {task.id}"
    if ledger.plans.is_waiting(uuid):
        return "tasks"
    return ledger.lives.blocked_reason(uuid)[:_TEXT_MOST]
