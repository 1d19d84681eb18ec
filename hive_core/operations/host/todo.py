"""Everything that waits for the operator, in one list."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.agents.machine import State
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.question import Question, QuestionKind
from hive_core.model.work.task import TaskState
from hive_core.operations.agents.details import state_reason
from hive_core.operations.agents.quarantine import quarantine_rows
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.mail.inbox import ASKING
from hive_core.operations.pages import reply_bytes, take_fitting
from hive_core.operations.questions.letters import question_title, shorten
from hive_core.policy.rules import OPERATOR

# Kinds of items, the most urgent first.
KINDS: Final = (
    "alarm", "quarantine", "escalation", "question", "plan", "judgement", "approval", "parked",
    "failed", "refused_commit", "mail", "dead_letters",
)  # fmt: skip
_DOWN: Final = {State.PARKED: "parked", State.FAILED: "failed"}
_MOST: Final = 200  # of one kind
DEAD_SHOWN: Final = 7 * 86_400.0  # seconds for which a dead letter is listed; it is kept for longer
_SEVERITIES: Final = ("critical", "error", "warning", "info")


class TodoParams(Params):
    """No parameters."""


class TodoRow(Result):
    kind: str = Field(
        description="alarm, quarantine, escalation, question, plan, judgement, approval, parked,"
        " failed, refused_commit, mail or dead_letters."
    )
    id: str = Field(description="The id that resolves it: a question, a task, an agent's name.")
    agent: str = Field(description="The agent that it is about; empty: none.")
    text: str = Field(description="Its subject, shortened to one line.")
    since: float | None = Field(
        description="Since when it waits, in seconds since 1970; null: not known."
    )
    due: float | None = Field(
        description="When it ends without the operator, in seconds since 1970."
    )
    up_to: str = Field(
        "", description="Of mail: id of the newest one, for `clear_inbox`."
    )  # fmt: skip
    as_of: str = Field(
        "", description="Of dead letters: which there are now, for `clear_dead_letters`."
    )


class TodoList(Result):
    todo: list[TodoRow] = Field(
        description="The items, the most urgent kind first, and the oldest first within a kind."
    )
    more: int = Field(description="Number of items that did not fit into this answer.")


@operation(action="administer", allow=OPERATOR)
def todo(call: Call, _params: TodoParams) -> TodoList:
    """List everything that waits for the operator.

    Alarms, quarantines, escalations, questions, plans, results and approvals to decide, agents
    that are parked or failed, commits that are not in force, mail and dead letters.
    """
    rows = list(list_todo(call))
    rows.sort(key=lambda row: KINDS.index(row.kind))
    fit = list(take_fitting(rows, lambda row: reply_bytes(row.text)))
    return TodoList(todo=fit, more=len(rows) - len(fit))


def list_todo(call: Call) -> Iterator[TodoRow]:
    """All rows. `status` counts them too, so that both show the same number."""
    for part in (_alarms, _quarantines, _questions, _plans, _approvals, _agents, _mail):
        yield from part(call)


def _alarms(call: Call) -> Iterator[TodoRow]:
    """Alarms, except those about agents that have a row of their own."""
    texts = call.states.agent_alarms()
    in_agent_rows = {texts[uuid] for uuid in texts if call.states.state(uuid) in _DOWN}
    for text, agent in call.states.named_alarms():
        if text not in in_agent_rows:
            yield _row("alarm", "", agent, text)
    for commit, reason in list(call.states.parked_commits())[:_MOST]:
        yield _row("refused_commit", commit, "", reason)


def _quarantines(call: Call) -> Iterator[TodoRow]:
    for row in islice(quarantine_rows(call), _MOST):
        held = f"{row.agents} agent{'s' * (row.agents != 1)} held by {row.by}"
        text = f"{held}: {row.reason}" if row.reason else held
        yield _row("quarantine", row.agent, row.agent, text, row.since)


def _questions(call: Call) -> Iterator[TodoRow]:
    """Escalations by severity, the worst first."""
    held = call.ledger.questions.open_of_holder(THE_OPERATOR)
    worst = {word: at for at, word in enumerate(_SEVERITIES)}
    held.sort(key=lambda question: worst.get(question.severity, 0))
    for question in held[:_MOST]:
        yield _question(call, question)


def _question(call: Call, question: Question) -> TodoRow:
    severity = f"{question.severity}: " if question.kind is QuestionKind.ESCALATION else ""
    who = display_name(call, question.asker)
    return _row(
        question.kind,
        question.id,
        who,
        severity + question_title(question),
        question.asked,
        question.deadline,
    )


def _plans(call: Call) -> Iterator[TodoRow]:
    tasks = call.ledger.tasks.tasks_from(THE_OPERATOR, 10 * _MOST)
    for task in tasks:
        if task.state is TaskState.AWAITING_PLAN_APPROVAL:
            who = display_name(call, task.assignee)
            yield _row("plan", task.id, who, task.label, task.created, None)
        elif task.is_delivered:
            who = display_name(call, task.assignee)
            yield _row("judgement", task.id, who, f"{task.label}: {task.why}", task.created, None)


def _approvals(call: Call) -> Iterator[TodoRow]:
    for approval in call.ledger.approvals.pending_approvals(_MOST):
        who = display_name(call, approval.agent) if approval.agent else ""
        text = f"{approval.kind}, effect {approval.effect}: {approval.message}"
        yield _row("approval", approval.id, who, text, approval.created, approval.expires)


def _agents(call: Call) -> Iterator[TodoRow]:
    """Agents that the daemon does not start again by itself."""
    texts = call.states.agent_alarms()
    for name in call.hive.topology.order:
        uuid = call.hive.spec(name).id
        kind = _DOWN.get(call.states.state(uuid))
        if kind is not None:
            run, reason = call.ledger.runs.get(uuid), state_reason(call, call.hive.spec(name))
            text = texts.get(uuid) or f"{name} is {kind}" + (f": {reason}" if reason else "")
            yield _row(kind, name, name, text, run.since if run else None)


def _mail(call: Call) -> Iterator[TodoRow]:
    """Unread mail of the operator, and dead letters of living agents."""
    mail = call.ledger.messages
    first = mail.inbox(THE_OPERATOR, dead=False, limit=_MOST)
    others = [letter for letter in first if letter.kind not in ASKING]
    if count := mail.size(THE_OPERATOR)[0] - len(first) + len(others):
        since = others[0].sent_at if others else None
        row = _row("mail", THE_OPERATOR, "", f"{count} in your inbox", since)
        yield row.model_copy(update={"up_to": mail.newest(THE_OPERATOR)})
    for uuid in mail.parties():
        name = THE_OPERATOR if uuid == THE_OPERATOR else call.hive.name(uuid)
        count, since = mail.recent_dead(uuid, call.now - DEAD_SHOWN)
        if name is not None and count:
            row = _row("dead_letters", name, name, f"{count} that {name} did not receive", since)
            yield row.model_copy(update={"as_of": str(mail.last_death(uuid))})


def _row(
    kind: str, id_: str, agent: str, text: str, *times: float | None
) -> TodoRow:  # fmt: skip
    since, due = (*times, None, None)[:2]
    return TodoRow(kind=kind, id=id_, agent=agent, text=shorten(text, 300), since=since, due=due)
