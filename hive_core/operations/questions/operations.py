"""Questions to agents above: ask, answer, relay and cancel (rows H11, K16, Q27 to Q29, Q31, T5).

No call is held open: a question is a row, and its answer comes as mail, even if it takes days.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Protocol

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import QuestionSettled, TaskEnded, on
from hive_core.broker.login_rule import Level, LoginRule
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from hive_core.ledger.questions.storage import QuestionEnd
from hive_core.model.wire.record import DAEMON
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.question import HopReason, Question, QuestionItem
from hive_core.model.work.task import TaskState
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Reason, bounded_text
from hive_core.operations.questions import letters as question_letters
from hive_core.operations.questions.recipients import PARENT, party_uuid, resolve_recipient
from hive_core.operations.questions.transitions import (
    QuestionRequest,
    check_total_size,
    end_question,
    end_without_answers,
    outcome_fields,
    pass_on,
    put_question,
)
from hive_core.operations.tasks.steps import begin_work
from hive_core.operations.tasks.transitions import move_task
from hive_core.policy.relationship import ABOVE, relationship
from hive_core.policy.rules import ANCESTOR, OPERATOR, QUEEN_OR_ROOT, SELF, fact_rule

YEAR: Final = 366 * 86_400.0
TEXT_MOST: Final = 8 * 1024
ASKED: Final = "asked"

Id = Annotated[str, Field(max_length=64)]
Text = Annotated[str, Field(min_length=1), bounded_text(TEXT_MOST)]


class ItemParams(Params):
    """A plain string stands for an item with that prompt."""

    prompt: Text = Field(description="The question in words.")
    options: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        [],
        max_length=4,
        description="No answers, or 2 to 4 to choose from; any other text is an answer too.",
    )
    default: Text | None = Field(
        None, description="The answer that counts when there is none by the deadline."
    )


def _as_item(item: object) -> object:
    return {"prompt": item} if isinstance(item, str) else item


class AskUserParams(Mutation):
    items: list[Annotated[ItemParams, BeforeValidator(_as_item)]] = Field(
        min_length=1, max_length=8, description="Items of the question; a plain string is a prompt."
    )
    deadline: float | None = Field(
        None, gt=0, le=YEAR, description="Seconds until the defaults count; absent: no deadline."
    )
    task: Id | None = Field(
        None, description="Task of the caller that cannot continue without the answer."
    )
    context: Annotated[str, bounded_text(TEXT_MOST)] = Field(
        "", description="Context that the recipient needs for the answer."
    )


class AskParams(AskUserParams):
    to: Annotated[str, Field(max_length=64)] = Field(
        PARENT, description="`parent`, `operator`, or the name of an ancestor."
    )


class AskResult(Result):
    question: str = Field(description="The id of the question; the answer names it.")
    to: str = Field(
        description="The agent that it waits on; a question to the operator may go to the parent"
        " instead."
    )
    deadline: float | None = Field(description="When the defaults count, in seconds since 1970.")


class AnswerParams(Mutation):
    question: Id = Field(description="The id of the question or escalation.")
    answers: list[Annotated[str, bounded_text(TEXT_MOST)]] = Field(
        min_length=1, max_length=8, description="One text for each item, in their order."
    )


class AnswerResult(Result):
    question: str = Field(description="The id of the question.")
    state: str = Field(description="Its state now.")
    asker: str = Field(description="The agent that asked and gets the answer as mail.")


class RelayParams(Mutation):
    question: Id = Field(description="The id of a question that waits on the caller.")
    to: Annotated[str, Field(max_length=64)] = Field(
        PARENT,
        description="`parent`, `operator`, or the name of an ancestor of the caller; the"
        " operator names an ancestor of the asker.",
    )


class RelayResult(Result):
    question: str = Field(description="The id of the question, as before.")
    to: str = Field(description="The agent that it waits on now.")


class CancelParams(Mutation):
    question: Id = Field(description="The id of the question or escalation.")
    why: Reason = Field("", description="Reason shown to the asker and to the recipients.")


class AboutQuestion(Protocol):
    """Parameters that name a question."""

    @property
    def question(self) -> str: ...


def asker_name(call: Call, params: AboutQuestion) -> str | None:
    """The name of the asker, which owns the question."""
    question = call.ledger.questions.get(params.question)
    return None if question is None else call.hive.name(question.asker)


def question_facts(call: Call, params: AboutQuestion) -> frozenset[str]:
    """Whether the caller is or was a holder of the question and is still above the asker."""
    question = call.ledger.questions.get(params.question)
    if question is None or not call.ledger.questions.has_held(question.id, call.uuid):
        return frozenset()
    asker = call.hive.name(question.asker)
    above = call.by_operator or (asker and relationship(call.hive, call.caller, asker) in ABOVE)
    return frozenset({ASKED}) if above else frozenset()


WHOSE: Final = Whose("question", "question", asker_name)
WAS_ASKED: Final = fact_rule(ASKED, "an agent that was asked", "you were not asked")


@operation(action="escalate", allow=SELF)
def ask(call: Call, params: AskParams) -> Record[AskResult]:
    """Ask an agent above the caller. The answer comes later, as mail of kind `answer`.

    The recipient may answer, or pass the question on upwards; in both cases the caller gets the
    answer. A question to the operator goes to the operator if the caller has the capability
    `message.operator`, and otherwise to its parent.
    """
    return _ask(call, params, params.to)


@operation(action="escalate", allow=SELF & QUEEN_OR_ROOT)
def ask_user(call: Call, params: AskUserParams) -> Record[AskResult]:
    """Ask the user, with choices or for a text. The answer comes later, as mail of kind `answer`.

    Only the queen and a root speak to the user by themselves; any other agent asks its parent.
    """
    return _ask(call, params, THE_OPERATOR)


def _ask(call: Call, params: AskUserParams, to: str) -> Record[AskResult]:
    if call.by_operator:
        raise NotAllowed("cannot ask: no agent is above the operator", rule="self")
    items = tuple(map(_request_item, params.items))
    task = params.task or ""
    check_request(call, items, params.deadline, task)
    request = QuestionRequest(items, params.context, params.deadline, task)
    question = put_question(call, call.uuid, to, request)
    park_task(call, question)
    holder = display_name(call, question.holder)
    result = AskResult(question=question.id, to=holder, deadline=question.deadline)
    return Record(result, fields={"question": question.id, "to": holder, "task": task})


def _confirmation(call: Call, params: AnswerParams) -> Level | None:
    """An answer that gives more of a budget takes what `allocate_budget` takes."""
    is_of_budget = call.ledger.budgets.shortage_of_question(params.question) is not None
    return "fresh" if is_of_budget else None


@operation(
    action="escalate",
    allow=WAS_ASKED | OPERATOR,
    whose=WHOSE,
    facts=question_facts,
    aliases=("reply_to_worker",),
    urgent=True,
    login=LoginRule(confirm=_confirmation),
)
def answer(call: Call, params: AnswerParams) -> Record[AnswerResult]:
    """Answer a question or an escalation, once. The asker gets the answers as mail.

    The agent that it waits on may answer, and each agent that has passed it on. A second answer is
    refused with `Conflict`, which shows the first.
    """
    question = call.ledger.questions.require(params.question)
    cannot = f"cannot answer {question.id}"
    if not question.open:
        raise Conflict(
            f"{cannot}: {_outcome_text(call, question)}", **outcome_fields(call, question)
        )
    if len(params.answers) != len(question.items):
        reason = f"{cannot}: it has {len(question.items)} items, not {len(params.answers)}"
        raise InvalidArgument(reason, field="answers")
    check_total_size(*params.answers)
    keep_until = call.now + call.settings.talk.kept
    end_question(call, question, QuestionEnd("answer", keep_until, params.answers, call.uuid))
    return _end_record(call, question)


def _end_record(call: Call, question: Question) -> Record[AnswerResult]:
    ended = call.ledger.questions.require(question.id)
    result = AnswerResult(
        question=ended.id, state=ended.state, asker=display_name(call, ended.asker)
    )
    return Record(result, fields={"question": ended.id, "asker_name": result.asker})


@operation(action="escalate", allow=WAS_ASKED, whose=WHOSE, facts=question_facts)
def relay_question(call: Call, params: RelayParams) -> Record[RelayResult]:
    """Pass a question on, upwards; the answer goes directly to the asker.

    The caller may still answer: the first answer counts. The operator passes a question back down.
    """
    question = call.ledger.questions.require(params.question)
    cannot = f"cannot relay {question.id}"
    if not question.open:
        raise Conflict(
            f"{cannot}: {_outcome_text(call, question)}", **outcome_fields(call, question)
        )
    if question.holder != call.uuid:
        holder = display_name(call, question.holder)
        raise Conflict(f"{cannot}: it waits on {holder}", question=question.id)
    to = _relay_target(call, params.to, question)
    pass_on(call, question, party_uuid(call.hive, to), HopReason.RELAYED)
    return Record(
        RelayResult(question=question.id, to=to), fields={"question": question.id, "to": to}
    )


@operation(action="escalate", allow=SELF | ANCESTOR | OPERATOR, whose=WHOSE)
def cancel_question(call: Call, params: CancelParams) -> Record[AnswerResult]:
    """Cancel an open question or escalation. An ancestor of the asker may do so too.

    The asker gets mail of kind `answer` about it. One that is the caller gets it only about a
    question of a task, which may wait in another conversation.
    """
    question = call.ledger.questions.require(params.question)
    if not question.open:
        outcome = _outcome_text(call, question)
        reason = f"cannot cancel {question.id}: {outcome}"
        raise Conflict(reason, **outcome_fields(call, question))
    end = end_without_answers(call, "cancel", by=call.uuid, reason=params.why)
    end_question(call, question, end)
    return _end_record(call, question)


@on(QuestionSettled)
def _resume_task(call: Call, event: QuestionSettled) -> None:
    """Resume a task when the last of its questions has ended (row K16)."""
    id_ = event.question.task
    task = call.ledger.tasks.get(id_) if id_ else None
    waits = task is not None and task.state is TaskState.AWAITING_MORE_INFORMATION
    if task is not None and waits and not call.ledger.questions.open_of_task(id_):
        why = f"question {event.question.id} {event.question.state}"
        move_task(call, task, "answer", why=why)


@on(TaskEnded)
def _cancel_task_questions(call: Call, event: TaskEnded) -> None:
    """Cancel the questions of a task that has ended."""
    for question in call.ledger.questions.open_of_task(event.id):
        reason = f"task {event.id} has ended ({event.status})"
        end_question(call, question, end_without_answers(call, "cancel", by=DAEMON, reason=reason))


def _request_item(item: ItemParams) -> QuestionItem:
    if len(item.options) == 1:
        raise InvalidArgument("give no options, or 2 to 4", field="items.options")
    return QuestionItem(item.prompt, tuple(item.options), item.default)


def check_request(
    call: Call, items: Sequence[QuestionItem], deadline: float | None, id_: str
) -> None:
    """Refuse a default without a deadline, and a task that the caller does not work on."""
    if deadline is None and any(item.default is not None for item in items):
        raise InvalidArgument("`default` requires `deadline`", field="deadline")
    if not id_:
        return
    task = call.ledger.tasks.get(id_)
    if task is None or task.assignee != call.uuid:
        raise NotFound(f"no task {id_} of yours")
    if not task.held:
        raise Conflict(f"cannot ask for task {id_}: it is {task.state}")


def park_task(call: Call, question: Question) -> None:
    """Let the task of a question wait for more information (row T5)."""
    task = call.ledger.tasks.get(question.task) if question.task else None
    if task is None:
        return
    task = begin_work(call, task, "its question")
    if task.state in (TaskState.IN_PROGRESS, TaskState.PENDING_DELEGATION):
        title = question_letters.question_title(question)
        move_task(call, task, "ask", why=f"question {question.id}: {title}")


def _relay_target(call: Call, to: str, question: Question) -> str:
    """An ancestor of the caller; for the operator, an ancestor of the asker."""
    if not call.by_operator:
        return resolve_recipient(call.hive, call.caller, to, question.kind)
    asker = call.hive.name(question.asker)
    if asker is None or to not in call.hive.topology.lineage(asker):
        reason = f"cannot relay to {to[:64]}: name an ancestor of the asker"
        raise InvalidArgument(reason, field="to")
    return to


def _outcome_text(call: Call, question: Question) -> str:
    """How a question ended, with the first answer."""
    texts = [question_letters.shorten(text) for text in question.answers if text is not None]
    answers = f" ({'; '.join(texts)})" if texts else ""
    return f"{question_letters.outcome_line(call, question)}{answers}"
