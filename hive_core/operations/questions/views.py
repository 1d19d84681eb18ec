"""Showing one question, and listing those that concern the caller."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import NotFound
from hive_core.model.work.question import Question
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import WAIT_MOST
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.operations.questions.letters import question_title
from hive_core.operations.questions.operations import WAS_ASKED, WHOSE, Id, question_facts
from hive_core.operations.questions.transitions import question_topic
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

Which = Literal["to_me", "mine", "subtree"]


class GetQuestionParams(Params):
    question: Id = Field(description="The id of the question or escalation.")
    wait: float = Field(
        0.0, ge=0, le=WAIT_MOST,
        description="Seconds to wait for its end; 0: show it as it is now.",
    )  # fmt: skip


class ListQuestionsParams(Paged):
    which: Which = Field(
        "to_me",
        description="`to_me`: those that wait on the caller; `mine`: those that the caller asked;"
        " `subtree`: those that the caller and its descendants asked.",
    )  # fmt: skip
    open: bool = Field(default=True, description="Only those that have not ended.")


class QuestionRow(Result):
    id: str = Field(description="The id of the question.")
    kind: str = Field(description="`question` or `escalation`.")
    state: str = Field(description="open, answered, defaulted, expired or cancelled.")
    severity: str = Field(description="For an escalation: info, warning, error or critical.")
    asker: str = Field(description="The name of the asker.")
    asker_uuid: str = Field(description="The UUID of the asker.")
    to: str = Field(description="The agent that it waits on, or waited on last.")
    prompt: str = Field(description="The first item, shortened to one line.")
    items: int = Field(description="The number of items.")
    task: str = Field(description="The task that waits for it.")
    asked: float = Field(description="When it was asked, in seconds since 1970.")
    deadline: float | None = Field(
        description="When the defaults count or it expires, in seconds since 1970."
    )
    climbs: float | None = Field(description="When it goes up a level.")
    answered_by: str = Field(description="The party that ended it; `daemon` at a deadline.")
    ended: float | None = Field(description="When it ended, in seconds since 1970.")
    reason: str = Field(description="Why it was cancelled.")
    budget: str = Field(
        description="The kind of the budget of which the daemon asks for more, while it is used up;"
        " empty: it asks something else."
    )


class QuestionRows(Page):
    questions: list[QuestionRow] = Field(description="The questions, the newest first.")


class ItemRow(Result):
    prompt: str = Field(description="The question in words.")
    options: list[str] = Field(description="Answers to choose from; any other text counts too.")
    default: str | None = Field(description="The answer that counts at the deadline.")
    answer: str | None = Field(description="The answer; null while there is none.")


class HopRow(Result):
    to: str = Field(description="The new holder: the agent that it waited on from then on.")
    at: float = Field(description="Time, in seconds since 1970.")
    by: str = Field(description="The party that passed it on.")
    why: str = Field(
        description="asked, relayed, climbed, or passed (the previous holder can no longer answer)."
    )


class QuestionDetails(Result):
    question: QuestionRow = Field(description="The question as in a list.")
    context: str = Field(description="Context that the recipient needs for the answer.")
    items: list[ItemRow] = Field(description="All items, in order.")
    hops: list[HopRow] = Field(description="The agents that it has waited on, in order.")


@operation(
    action="read",
    allow=WAS_ASKED | SELF | ANCESTOR | OPERATOR,
    whose=WHOSE,
    facts=question_facts,
)
def get_question(call: Call, params: GetQuestionParams) -> QuestionDetails | Wait[QuestionDetails]:
    """Show a question or an escalation: its items, the agents it has waited on, the answers.

    With `wait` the call returns when it ends. The asker, its ancestors, and the agents that it has
    waited on may see it.
    """
    question = call.ledger.questions.require(params.question)
    details = _question_details(call, question)
    if question.open and params.wait:
        topics = frozenset({question_topic(question.id)})
        return Wait(topics, call.now + params.wait, details)
    return details


@operation(action="read", allow=SELF, aliases=("list_worker_questions",))
def list_questions(call: Call, params: ListQuestionsParams) -> QuestionRows:
    """List the questions and escalations that wait on the caller, or that its subtree asked."""
    questions, after = call.ledger.questions, params.after
    if after is not None and not _can_see(call, after):
        raise NotFound(f"no question {after[:64]}")
    parties = _parties(call, params.which)
    rows = questions.page(parties, after, params.most + 1, open_=params.open)
    shown = [_question_row(call, row) for row in rows[: params.most]]
    page = list(take_fitting(shown, lambda row: reply_bytes(row.prompt, row.reason)))
    return QuestionRows(questions=page, next=page[-1].id if len(page) < len(rows) else None)


def _can_see(call: Call, id_: str) -> bool:
    """Whether the caller may know that the question exists."""
    question = call.ledger.questions.get(id_)
    if question is None or call.by_operator:
        return question is not None
    asker = standing_in(call, question.asker)
    below = asker is not None and asker in call.hive.topology.subtree(call.caller)
    return below or call.ledger.questions.has_held(id_, call.uuid)


def _parties(call: Call, which: Which) -> tuple[str, list[str]] | None:
    """The column and the parties to select by; None: all questions, for the operator."""
    if which == "to_me":
        return "holder", [call.uuid]
    if which == "mine" or not call.by_operator:
        names = call.hive.topology.subtree(call.caller) if which == "subtree" else ()
        return "asker", [call.uuid, *(call.hive.spec(name).id for name in names)]
    return None


def _question_row(call: Call, question: Question) -> QuestionRow:
    return QuestionRow(
        id=question.id, kind=question.kind, state=question.state, severity=question.severity,
        asker=display_name(call, question.asker), asker_uuid=question.asker,
        to=display_name(call, question.holder), prompt=question_title(question),
        items=len(question.items), task=question.task, asked=question.asked,
        deadline=question.deadline, climbs=question.climbs,
        answered_by=display_name(call, question.answered_by) if question.answered_by else "",
        ended=question.ended, reason=question.reason, budget=_asked_budget(call, question),
    )  # fmt: skip


def _asked_budget(call: Call, question: Question) -> str:
    """The kind of the budget whose shortage the question is about; empty: none."""
    shortage = call.ledger.budgets.shortage_of_question(question.id) if question.open else None
    return "" if shortage is None else shortage.kind.value


def _question_details(call: Call, question: Question) -> QuestionDetails:
    answers = question.answers or (None,) * len(question.items)
    items = [
        ItemRow(prompt=item.prompt, options=list(item.options), default=item.default, answer=answer)
        for item, answer in zip(question.items, answers, strict=True)
    ]
    hops = [
        HopRow(
            to=display_name(call, hop.holder), at=hop.at, by=display_name(call, hop.by), why=hop.why
        )
        for hop in call.ledger.questions.hops(question.id)
    ]
    row = _question_row(call, question)
    return QuestionDetails(question=row, context=question.context, items=items, hops=hops)
