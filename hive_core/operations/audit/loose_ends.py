"""Loose ends: everything that is open for an agent and its descendants (row H21).

An agent reads them after a restart, or when it lost its context: everything that waits for it or
that it waits for, with the ids that the operations take.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result, operation
from hive_core.errors import NotFound
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.question import Question
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Agent
from hive_core.operations.pages import Page, Paged
from hive_core.operations.questions.letters import question_title, shorten
from hive_core.operations.tasks.deliveries import is_left_to_assigner
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

_AGENTS = 50  # in a page: each costs a dozen queries, even without loose ends
_SHOWN = 50  # of one kind and agent; the others are only counted


class LooseEndsParams(Paged):
    agent: Agent | None = Field(None, description="The agent; absent: the caller itself.")
    recursive: bool = Field(default=True, description="Whether to include all its descendants.")


class LooseEnd(Result):
    kind: str = Field(
        description="question_asked, question_to_answer, escalation_asked, escalation_to_answer,"
        " task, task_given, plan_to_decide, result_to_judge, wait, batch, reminder,"
        " approval, mail or dead_letters."
    )
    id: str = Field(
        description="The id that the operations take; empty for mail, which is counted."
    )
    agent: str = Field(description="The agent that it belongs to.")
    who: str = Field(
        description="The other party: the agent that was asked, the assigner or the assignee."
    )
    state: str = Field(description="Its state; for mail the number of messages.")
    text: str = Field(description="Its subject, shortened to one line.")
    since: float | None = Field(description="Since when it is open, in seconds since 1970.")
    age: float | None = Field(description="Seconds for which it has been open.")
    due: float | None = Field(
        description="When it ends or changes by itself, in seconds since 1970."
    )


class LooseEnds(Page):
    ends: list[LooseEnd] = Field(
        description="The loose ends of the agent first, then those of its descendants."
    )


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def loose_ends(call: Call, params: LooseEndsParams) -> LooseEnds:
    """List everything that is open for an agent and its descendants, with ids and ages.

    Questions asked and to answer, escalations, tasks taken and assigned, plans to decide, waits,
    batches, reminders, approvals, mail and dead letters. A page holds whole agents; it may be empty
    without being the last.
    """
    names = _scope(call, params)
    start = 0
    if params.after is not None:
        if params.after not in names:
            raise NotFound(f"no such agent in this list: {params.after[:64]}")
        start = names.index(params.after) + 1
    rows: list[LooseEnd] = []
    for at in range(start, len(names)):
        rows += loose_ends_of(call, names[at])
        full = len(rows) >= params.most or at + 1 == start + _AGENTS
        if full and at + 1 < len(names):
            return LooseEnds(ends=rows, next=names[at])
    return LooseEnds(ends=rows)


def _scope(call: Call, params: LooseEndsParams) -> tuple[str, ...]:
    name = params.agent or call.caller
    tree = call.hive.topology
    if name == THE_OPERATOR:
        return (name, *(tree.order if params.recursive else ()))
    call.hive.spec(name)
    return tree.subtree(name) if params.recursive else (name,)


def loose_ends_of(call: Call, name: str) -> list[LooseEnd]:
    """The loose ends of one agent, or of the operator."""
    uuid = THE_OPERATOR if name == THE_OPERATOR else call.hive.spec(name).id
    rows: list[LooseEnd] = []
    for source in (_questions, _tasks, _waits, _reminders_and_approvals, _mail):
        rows += [_row(call, name, end) for end in source(call, uuid)]
    return rows


class _End(NamedTuple):
    """One loose end, without its agent."""

    kind: str
    id: str
    who: str
    state: str
    text: str
    since: float | None = None
    due: float | None = None


def _row(call: Call, name: str, end: _End) -> LooseEnd:
    age = None if end.since is None else max(0.0, call.now - end.since)
    return LooseEnd(agent=name, age=age, **end._asdict())


def _questions(call: Call, uuid: str) -> Iterator[_End]:
    questions = call.ledger.questions
    for question in questions.open_of_holder(uuid):
        yield _question(call, question, f"{question.kind}_to_answer", question.asker)
    for question in questions.open_of_asker(uuid):
        yield _question(call, question, f"{question.kind}_asked", question.holder)


def _question(call: Call, question: Question, kind: str, who: str) -> _End:
    due = min(
        (time for time in (question.deadline, question.climbs) if time is not None), default=None
    )
    state = question.severity or question.state.value
    return _End(
        kind,
        question.id,
        display_name(call, who),
        state,
        question_title(question),
        question.asked,
        due,
    )


def _tasks(call: Call, uuid: str) -> Iterator[_End]:
    tasks = call.ledger.tasks
    for task in tasks.open_tasks(uuid, _SHOWN):
        yield _task(call, task, "task", task.assigner)
    yield from _rest("task", tasks.count_open("assignee", uuid))
    for task in tasks.tasks_from(uuid, _SHOWN):
        yield _task(call, task, "task_given", task.assignee)
        if task.state is TaskState.AWAITING_PLAN_APPROVAL:
            yield plan_to_decide(call, task)
        elif is_left_to_assigner(call, task):
            yield _task(call, task, "result_to_judge", task.assignee)
    yield from _rest("task_given", tasks.count_open("assigner", uuid))


def _task(call: Call, task: Task, kind: str, who: str) -> _End:
    whom, text = display_name(call, who), shorten(task.label)
    return _End(kind, task.id, whom, task.state.value, text, task.created, task.hard_at)


def plan_to_decide(call: Call, task: Task) -> _End:
    """The plan whose approval a task waits for."""
    plan, whom = call.ledger.plans.newest(task.id), display_name(call, task.assignee)
    return _End("plan_to_decide", plan, whom, f"task {task.id}", shorten(task.label), task.created)


def _rest(kind: str, count: int) -> Iterator[_End]:
    """A row with the number of loose ends of a kind that are not shown."""
    if count > _SHOWN:
        yield _End(kind, "", "", str(count - _SHOWN), "more of this kind")


def _waits(call: Call, uuid: str) -> Iterator[_End]:
    plans = call.ledger.plans
    for wait in plans.waits.open_waits(uuid):
        whom = [
            *wait.condition.tasks,
            *(display_name(call, agent) for agent in wait.condition.agents),
        ]
        text = shorten(", ".join(whom) or "any message")
        yield _End("wait", wait.id, "", wait.state.value, text, wait.created, wait.deadline)
    for batch in plans.batches.running(uuid):
        left = f"{plans.batches.count_open_items(batch.id)} left"
        text = shorten(batch.title)
        yield _End("batch", batch.id, "", left, text, batch.created, batch.deadline)


def _reminders_and_approvals(call: Call, uuid: str) -> Iterator[_End]:
    reminders = call.ledger.reminders.of(uuid)
    for reminder in reminders[:_SHOWN]:
        by, text = display_name(call, reminder.setter), shorten(reminder.body)
        yield _End("reminder", reminder.id, by, "waiting", text, reminder.made, reminder.due)
    yield from _rest("reminder", len(reminders))
    for approval in call.ledger.approvals.page(None, _SHOWN, uuid, open_=True):
        whose = display_name(call, approval.agent) if approval.agent else ""
        text = shorten(approval.message)
        yield _End(
            "approval",
            approval.id,
            whose,
            approval.state.value,
            text,
            approval.created,
            approval.expires,
        )


def _mail(call: Call, uuid: str) -> Iterator[_End]:
    mail = call.ledger.messages
    if count := mail.size(uuid)[0]:
        first = mail.inbox(uuid, dead=False, limit=1)
        since = first[0].sent_at if first else None
        yield _End("mail", "", "", str(count), "unacknowledged messages", since)
    if count := mail.dead(uuid):
        yield _End("dead_letters", "", "", str(count), "dead letters")
