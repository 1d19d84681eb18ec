"""Tasks as they are given, looked at and taken back (rows T3, T5, T9, T11, T12)."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import Conflict, InvalidArgument
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.task import ResultStatus, Task
from hive_core.operations.fields import Agent
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.pages import Page, Paged, fitting
from hive_core.operations.tasks.assign import assign
from hive_core.operations.tasks.funds import FundRow, rows_of
from hive_core.operations.tasks.hints import hint_for
from hive_core.operations.tasks.letters import who
from hive_core.operations.tasks.params import TaskId, Text, WishParams, wish_of
from hive_core.operations.tasks.transitions import AT_ONCE, again, stop_all
from hive_core.operations.tasks.views import TaskRow, shown, size
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, fact_rule

_HISTORY: Final = 200


class AssignTaskParams(WishParams):
    agent: Agent = Field(description="Who is to do it: below the caller.")
    description: Text = Field(description="What is to be done; at most 32 KiB.")
    title: str = Field("", max_length=200, description="A few words for lists.")


class Assigned(Result):
    task: str = Field(description="The task.")
    agent: str = Field(description="Who has it.")
    state: str = Field(description="queued until its agent begins it, or waiting.")
    hint: str = Field(
        description="What keeps the agent from beginning it, such as that it is stopped; empty:"
        " nothing that is known."
    )


class GetTaskParams(Params):
    task: TaskId = Field(description="The task.")


class StepRow(Result):
    seq: int = Field(description="Number of the event.")
    time: float = Field(description="Seconds since 1970.")
    event: str = Field(description="What happened.")
    state: str = Field(description="How far it was then.")
    by: str = Field(description="Name of who did it then, `operator` or `daemon`.")
    why: str = Field(description="Why.")


class WholeTask(Result):
    task: TaskRow = Field(description="The row.")
    description: str = Field(description="What is to be done.")
    data: dict[str, object] | None = Field(description="What came with the text.")
    artifacts: list[str] = Field(description="What it needs from the store.")
    budget: list[FundRow] = Field(
        description="What it has of its own; empty where it has nothing, and after its end."
    )
    hint: str = Field(description="What keeps its agent from beginning it; empty: nothing known.")
    history: list[StepRow] = Field(description="Its events, the oldest first.")


class ListTasksParams(Paged):
    agent: Agent | None = Field(
        None, description="Tasks of this agent and all below it; absent: the caller's own board."
    )
    only: bool = Field(default=False, description="Of the agent itself, without those below it.")
    state: Literal[
        "queued", "waiting", "pending_delegation", "in_progress", "awaiting_plan_approval",
        "awaiting_more_information", "stopping", "done", "cancelled",
    ] | None = Field(None, description="Only in this state.")  # fmt: skip
    open: bool = Field(default=False, description="Only those that have not ended.")


class TaskRows(Page):
    tasks: list[TaskRow] = Field(description="The newest first.")


class CancelTaskParams(Mutation):
    task: TaskId = Field(description="The task.")
    reason: str = Field("", max_length=1000, description="Why; its agent is told.")


class Hit(Result):
    task: str = Field(description="The task.")
    agent: str = Field(description="Who had it.")
    state: str = Field(description="cancelled, or stopping while its work is being ended.")


class Cancelled(Result):
    task: str = Field(description="The task.")
    state: str = Field(description="cancelled, or stopping while its work is being ended.")
    hit: list[Hit] = Field(description="What is stopped by it: itself, and its sub-tasks.")
    more: bool = Field(description="Whether more sub-tasks follow, in turns of their own.")


def of_task(call: Call, params: Params) -> str | None:
    """Whose the task is: of its agent, or of the nearest that lives above one that is gone."""
    task = call.ledger.tasks.get(str(getattr(params, "task", "")))
    if task is None:
        return None
    return standing_in(call, task.assignee) or THE_OPERATOR


def given_by_caller(call: Call, params: Params) -> frozenset[str]:
    """Whether it is the caller's: also of one that an agent gave to itself."""
    task = call.ledger.tasks.get(str(getattr(params, "task", "")))
    mine = task is not None and task.assigner == call.uuid
    return frozenset({"assigner"}) if mine else frozenset()


TASK: Final = Whose("task", "task", of_task)
ASSIGNER: Final = fact_rule("assigner", "who gave the task", "you did not give it")


@operation(action="assign", allow=ANCESTOR | OPERATOR, target="agent", preposition="to")
def assign_task(call: Call, params: AssignTaskParams) -> Record[Assigned]:
    """Give an agent below the caller something to do. It gets it as a message of kind `task`.

    It is offered to the agent at once when that runs, has room for it (`parallel`), and nothing has
    to come first; else it waits for that, in the order of priority and age. It is `queued`, and its
    clock stands, until the agent begins it. It has one end, whatever becomes of the agent.
    """
    call.hive.spec(params.agent)
    wish = wish_of(call, params, params.description)
    task, topics = assign(call, call.uuid, params.agent, wish, params.caps)
    found = Assigned(
        task=task.id, agent=params.agent, state=task.state.value, hint=hint_for(call, task)
    )
    return Record(found, topics, {"task": task.id})


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, whose=TASK)
def get_task(call: Call, params: GetTaskParams) -> WholeTask:
    """Show one task: what is to be done, how far it is, what came out, and all its steps."""
    task = call.ledger.tasks.require(params.task)
    wish = task.request
    return WholeTask(
        task=shown(call, task), description=wish.description,
        data=None if wish.data is None else dict(wish.data), artifacts=list(wish.artifacts),
        budget=rows_of(call, task.id), hint=hint_for(call, task), history=_history(call, task),
    )  # fmt: skip


def _history(call: Call, task: Task) -> list[StepRow]:
    """The last of its events, as far as the log reaches back."""
    numbers = call.ledger.tasks.last_events(task.id, _HISTORY)
    return [
        StepRow(
            seq=event.seq, time=event.time, event=event.operation,
            state=str(event.fields.get("state", "")), why=event.reason,
            by=str(event.fields.get("caller_name", "")),
        )
        for event in call.ledger.events.some(numbers)
    ]  # fmt: skip


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_tasks(call: Call, params: ListTasksParams) -> TaskRows:
    """List the tasks of an agent and of all below it, the newest first.

    Also what they gave to agents that are gone. Without `agent`: of the caller; the operator's all.
    """
    after = None
    if params.after is not None:
        before = call.ledger.tasks.get(params.after)
        if before is None or not _below(call, before):
            raise InvalidArgument(f"no task {params.after[:64]}", field="after")
        after = before.number
    found = call.ledger.tasks.page(
        _scope(call, params), after, params.most + 1,
        state=params.state, open_=params.open, given=not params.only,
    )  # fmt: skip
    rows = list(fitting((shown(call, each) for each in found[: params.most]), size))
    return TaskRows(tasks=rows, next=rows[-1].id if len(rows) < len(found) else None)


def _below(call: Call, task: Task) -> bool:
    """Whether it is one of the caller's board, also when its agent went since the page before."""
    near = {standing_in(call, each) for each in (task.assignee, task.assigner)}
    return call.by_operator or not near.isdisjoint(call.hive.topology.subtree(call.caller))


def _scope(call: Call, params: ListTasksParams) -> list[str] | None:
    """UUIDs of the assignees; None: all, of whom some may be gone."""
    name = params.agent or call.caller
    if name == THE_OPERATOR:
        return None
    call.hive.spec(name)
    names = (name,) if params.only else call.hive.topology.subtree(name)
    return [call.hive.spec(each).id for each in names]


@operation(
    action="assign",
    allow=ANCESTOR | ASSIGNER | OPERATOR,
    whose=TASK,
    facts=given_by_caller,
    urgent=True,
)
def cancel_task(call: Call, params: CancelTaskParams) -> Record[Cancelled]:
    """Take a task back, with all its sub-tasks: their work is really ended.

    What was not begun is cancelled at once. Else the agent is told and has some seconds to end its
    work; when it does not say that it has, its container is ended. The reply says all it hit; of
    more than 32 the others follow within moments.
    """
    task = call.ledger.tasks.require(params.task)
    if not task.open:
        how = task.result.status.value if task.result else task.state.value
        raise Conflict(f"cannot cancel task {task.id} of {who(call, task.assignee)}: it has ended"
                       f" as {how}")  # fmt: skip
    hit, rest = _scope_of(call, task)
    why = params.reason or f"cancelled by {call.caller}"
    topics = stop_all(call, {each.id: why for each in hit}, ResultStatus.STOPPED)
    for each in rest:
        topics |= again(call, each)
    rows = [_hit(call, call.ledger.tasks.require(each.id)) for each in hit]
    return Record(
        Cancelled(task=task.id, state=rows[0].state, hit=rows, more=bool(rest)),
        topics, {"task": task.id, "reason": why, "hit": [each.task for each in rows]},
    )  # fmt: skip


def _scope_of(call: Call, task: Task) -> tuple[list[Task], list[Task]]:
    """The task and its open sub-tasks, parts behind the whole; and those that have still more."""
    found, rest = [task], list[Task]()
    for each in found:
        room = AT_ONCE + 1 - len(found)
        parts = call.ledger.tasks.open_parts(each.id, room + 1)
        found.extend(parts[:room])
        if len(parts) > room:
            rest.append(each)
    return found, rest


def _hit(call: Call, task: Task) -> Hit:
    return Hit(task=task.id, agent=who(call, task.assignee), state=task.state.value)
