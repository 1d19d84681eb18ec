"""Questions and escalations to look at: one, and those that concern the caller."""

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
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.operations.questions.letters import question_title
from hive_core.operations.questions.operations import WAS_ASKED, WHOSE, Id, question_facts
from hive_core.operations.questions.transitions import question_topic
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

Which = Literal["to_me", "mine", "subtree"]


class GetQuestionParams(Params):
    question: Id = Field(description="The question, or the escalation.")
    wait: float = Field(
        0.0, ge=0, le=WAIT_MOST, description="Seconds to wait for its end; without, as it is now."
    )


class ListQuestionsParams(Paged):
    which: Which = Field(
        "to_me", description="`to_me`: what waits on the caller; `mine`: what it asked; `subtree`:"
        " what it and its descendants asked.",
    )  # fmt: skip
    open: bool = Field(default=True, description="Only those that have not ended.")


class QuestionRow(Result):
    id: str = Field(description="The question.")
    kind: str = Field(description="`question` or `escalation`.")
    state: str = Field(description="open, answered, defaulted, expired or cancelled.")
    severity: str = Field(description="Of an escalation: info, warning, error or critical.")
    asker: str = Field(description="Name of who asked.")
    asker_uuid: str = Field(description="Its identity.")
    to: str = Field(description="On whom it waits, or waited last.")
    prompt: str = Field(description="The first item, shortened to one line.")
    items: int = Field(description="How many there are.")
    task: str = Field(description="The task that waits for it.")
    asked: float = Field(description="Seconds since 1970.")
    deadline: float | None = Field(description="When the defaults count, or it expires.")
    climbs: float | None = Field(description="When it goes a level up by itself.")
    answered_by: str = Field(description="Who ended it; `daemon` for the clock.")
    ended: float | None = Field(description="Seconds since 1970.")
    reason: str = Field(description="Why it was cancelled.")


class QuestionRows(Page):
    questions: list[QuestionRow] = Field(description="The newest first.")


class ItemRow(Result):
    prompt: str = Field(description="What is asked.")
    options: list[str] = Field(description="To choose from; any other text counts too.")
    default: str | None = Field(description="What counts at the deadline.")
    answer: str | None = Field(description="The answer, once there is one.")


class HopRow(Result):
    to: str = Field(description="On whom it came to wait.")
    at: float = Field(description="Seconds since 1970.")
    by: str = Field(description="From whom.")
    why: str = Field(description="asked, relayed, climbed, or passed since who had it is gone.")


class QuestionDetails(Result):
    question: QuestionRow = Field(description="The row.")
    context: str = Field(description="What whoever answers has to know.")
    items: list[ItemRow] = Field(description="All that is asked, in order.")
    hops: list[HopRow] = Field(description="On whom it has waited, the first first.")


@operation(
    action="read", allow=WAS_ASKED | SELF | ANCESTOR | OPERATOR, whose=WHOSE, facts=question_facts
)
def get_question(call: Call, params: GetQuestionParams) -> QuestionDetails | Wait[QuestionDetails]:
    """Show a question or an escalation: what is asked, on whom it has waited, the answers.

    With `wait` it is answered at its end. Who asked sees it, who was asked, and those above.
    """
    found = call.ledger.questions.require(params.question)
    shown = _question_details(call, found)
    if found.open and params.wait:
        return Wait(frozenset({question_topic(found.id)}), call.now + params.wait, shown)
    return shown


@operation(action="read", allow=SELF, aliases=("list_worker_questions",))
def list_questions(call: Call, params: ListQuestionsParams) -> QuestionRows:
    """List the questions and escalations that wait on the caller, or that it or others asked."""
    questions, after = call.ledger.questions, params.after
    if after is not None and not _can_see(call, after):
        raise NotFound(f"no question {after[:64]}")
    rows = questions.page(_parties(call, params.which), after, params.most + 1, open_=params.open)
    shown = [_question_row(call, each) for each in rows[: params.most]]
    fit = list(fitting(shown, lambda row: written(row.prompt, row.reason)))
    return QuestionRows(questions=fit, next=fit[-1].id if len(fit) < len(rows) else None)


def _can_see(call: Call, id_: str) -> bool:
    """Whether there is such a question, as far as the caller may know."""
    found = call.ledger.questions.get(id_)
    if found is None or call.by_operator:
        return found is not None
    asker = standing_in(call, found.asker)
    below = asker is not None and asker in call.hive.topology.subtree(call.caller)
    return below or call.ledger.questions.has_held(id_, call.uuid)


def _parties(call: Call, which: Which) -> tuple[str, list[str]] | None:
    """Whose questions; None: everybody's, for the operator."""
    if which == "to_me":
        return "holder", [call.uuid]
    if which == "mine" or not call.by_operator:
        names = call.hive.topology.subtree(call.caller) if which == "subtree" else ()
        return "asker", [call.uuid, *(call.hive.spec(name).id for name in names)]
    return None


def _question_row(call: Call, found: Question) -> QuestionRow:
    return QuestionRow(
        id=found.id,
        kind=found.kind,
        state=found.state,
        severity=found.severity,
        asker=display_name(call, found.asker),
        asker_uuid=found.asker,
        to=display_name(call, found.holder),
        prompt=question_title(found),
        items=len(found.items),
        task=found.task,
        asked=found.asked,
        deadline=found.deadline,
        climbs=found.climbs,
        answered_by=display_name(call, found.answered_by) if found.answered_by else "",
        ended=found.ended,
        reason=found.reason,
    )


def _question_details(call: Call, found: Question) -> QuestionDetails:
    answers = found.answers or (None,) * len(found.items)
    items = [
        ItemRow(prompt=item.prompt, options=list(item.options), default=item.default, answer=answer)
        for item, answer in zip(found.items, answers, strict=True)
    ]
    hops = [
        HopRow(
            to=display_name(call, hop.holder), at=hop.at, by=display_name(call, hop.by), why=hop.why
        )
        for hop in call.ledger.questions.hops(found.id)
    ]
    return QuestionDetails(
        question=_question_row(call, found), context=found.context, items=items, hops=hops
    )
