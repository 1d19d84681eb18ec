"""Loose ends: what is open, of an agent and of everyone below it (row H21).

What an agent reads again after a restart, or when it has forgotten: everything that waits for it or
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
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

_AGENTS = 50  # in a page: each costs a dozen queries, whether it has any or not
_SHOWN = 50  # of one kind and agent; of the others only how many


class LooseEndsParams(Paged):
    agent: Agent | None = Field(None, description="Whose; the caller's own when absent.")
    recursive: bool = Field(default=True, description="With all its descendants.")


class LooseEnd(Result):
    kind: str = Field(
        description="question_asked, question_to_answer, escalation_asked, escalation_to_answer,"
        " task, task_given, plan_to_decide, wait, batch, reminder, approval, mail or dead_letters."
    )
    id: str = Field(description="What the operations take; empty for mail, which is counted.")
    agent: str = Field(description="Whose loose end it is.")
    who: str = Field(description="The other one: who was asked, who gave it, who has it.")
    state: str = Field(description="How it stands; of mail how many there are.")
    text: str = Field(description="What it is about, in a few words on one line.")
    since: float | None = Field(description="Seconds since 1970.")
    age: float | None = Field(description="Seconds for which it has been open.")
    due: float | None = Field(description="When something happens to it by itself.")


class LooseEnds(Page):
    ends: list[LooseEnd] = Field(description="Those of the agent first, then of those below it.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def loose_ends(call: Call, params: LooseEndsParams) -> LooseEnds:
    """List everything that is open of an agent and its descendants, with ids, ages and who.

    Questions asked and to answer, escalations, tasks taken and given, plans to decide, waits,
    batches, reminders, approvals, mail and dead letters. A page ends behind an agent; it may be
    empty and not the last.
    """
    names = _scope(call, params)
    start = 0
    if params.after is not None:
        if params.after not in names:
            raise NotFound(f"no such agent in this list: {params.after[:64]}")
        start = names.index(params.after) + 1
    found: list[LooseEnd] = []
    for at in range(start, len(names)):
        found += loose_ends_of(call, names[at])
        full = len(found) >= params.most or at + 1 == start + _AGENTS
        if full and at + 1 < len(names):
            return LooseEnds(ends=found, next=names[at])
    return LooseEnds(ends=found)


def _scope(call: Call, params: LooseEndsParams) -> tuple[str, ...]:
    name = params.agent or call.caller
    tree = call.hive.topology
    if name == THE_OPERATOR:
        return (name, *(tree.order if params.recursive else ()))
    call.hive.spec(name)
    return tree.subtree(name) if params.recursive else (name,)


def loose_ends_of(call: Call, name: str) -> list[LooseEnd]:
    """Those of one agent, or of the operator."""
    uuid = THE_OPERATOR if name == THE_OPERATOR else call.hive.spec(name).id
    found: list[LooseEnd] = []
    for kind in (_questions, _tasks, _waits, _reminders_and_approvals, _mail):
        found += [_row(call, name, each) for each in kind(call, uuid)]
    return found


class _End(NamedTuple):
    """One of them, of whosever it is."""

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
    rows = call.ledger.questions
    for each in rows.open_of_holder(uuid):
        yield _question(call, each, f"{each.kind}_to_answer", each.asker)
    for each in rows.open_of_asker(uuid):
        yield _question(call, each, f"{each.kind}_asked", each.holder)


def _question(call: Call, found: Question, kind: str, who: str) -> _End:
    due = min((each for each in (found.deadline, found.climbs) if each is not None), default=None)
    state = found.severity or found.state.value
    return _End(
        kind, found.id, display_name(call, who), state, question_title(found), found.asked, due
    )


def _tasks(call: Call, uuid: str) -> Iterator[_End]:
    tasks = call.ledger.tasks
    for each in tasks.open_tasks(uuid, _SHOWN):
        yield _task(call, each, "task", each.assigner)
    yield from _rest("task", tasks.count_open("assignee", uuid))
    for each in tasks.tasks_from(uuid, _SHOWN):
        yield _task(call, each, "task_given", each.assignee)
        if each.state is TaskState.AWAITING_PLAN_APPROVAL:
            yield plan_to_decide(call, each)
    yield from _rest("task_given", tasks.count_open("assigner", uuid))


def _task(call: Call, found: Task, kind: str, who: str) -> _End:
    whom, text = display_name(call, who), shorten(found.label)
    return _End(kind, found.id, whom, found.state.value, text, found.created, found.hard_at)


def plan_to_decide(call: Call, task: Task) -> _End:
    """The plan that a task waits for the approval of."""
    plan, whom = call.ledger.plans.newest(task.id), display_name(call, task.assignee)
    return _End("plan_to_decide", plan, whom, f"task {task.id}", shorten(task.label), task.created)


def _rest(kind: str, count: int) -> Iterator[_End]:
    """How many of a kind are not shown."""
    if count > _SHOWN:
        yield _End(kind, "", "", str(count - _SHOWN), "so many more")


def _waits(call: Call, uuid: str) -> Iterator[_End]:
    plans = call.ledger.plans
    for each in plans.waits.open_waits(uuid):
        whom = [
            *each.condition.tasks,
            *(display_name(call, agent) for agent in each.condition.agents),
        ]
        text = shorten(", ".join(whom) or "any word")
        yield _End("wait", each.id, "", each.state.value, text, each.created, each.deadline)
    for batch in plans.batches.running(uuid):
        left = f"{plans.batches.count_open_items(batch.id)} left"
        text = shorten(batch.title)
        yield _End("batch", batch.id, "", left, text, batch.created, batch.deadline)


def _reminders_and_approvals(call: Call, uuid: str) -> Iterator[_End]:
    reminders = call.ledger.reminders.of(uuid)
    for each in reminders[:_SHOWN]:
        by, text = display_name(call, each.setter), shorten(each.body)
        yield _End("reminder", each.id, by, "waiting", text, each.made, each.due)
    yield from _rest("reminder", len(reminders))
    for asked in call.ledger.approvals.page(None, _SHOWN, uuid, open_=True):
        whose = display_name(call, asked.agent) if asked.agent else ""
        text = shorten(asked.message)
        yield _End(
            "approval", asked.id, whose, asked.state.value, text, asked.created, asked.expires
        )


def _mail(call: Call, uuid: str) -> Iterator[_End]:
    mail = call.ledger.messages
    if count := mail.size(uuid)[0]:
        first = mail.inbox(uuid, dead=False, limit=1)
        since = first[0].sent_at if first else None
        yield _End("mail", "", "", str(count), "messages that were not acked", since)
    if count := mail.dead(uuid):
        yield _End("dead_letters", "", "", str(count), "letters that were given up")
