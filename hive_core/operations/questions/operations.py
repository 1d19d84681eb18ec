"""Questions upwards: put, answered, passed on, taken back (rows H11, K16, Q27 to Q29, Q31, T5).

Nothing is held open: a question is a row, and its answer comes as mail, be it days later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Protocol

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import QuestionSettled, TaskEnded, when
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from hive_core.ledger.questions.storage import QuestionEnd
from hive_core.model.wire.record import DAEMON
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
from hive_core.operations.tasks.begin import begin
from hive_core.operations.tasks.transitions import move
from hive_core.policy.relationship import ABOVE, relationship
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, fact_rule

YEAR: Final = 366 * 86_400.0
TEXT_MOST: Final = 8 * 1024
ASKED: Final = "asked"

Id = Annotated[str, Field(max_length=64)]
Text = Annotated[str, Field(min_length=1), bounded_text(TEXT_MOST)]


class ItemParams(Params):
    """A bare text stands for an item with that prompt."""

    prompt: Text = Field(description="What is asked.")
    options: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        [],
        max_length=4,
        description="None, or 2 to 4 answers to choose from; others count too.",
    )
    default: Text | None = Field(
        None, description="What counts when nobody answers until the deadline."
    )


def _as_item(item: object) -> object:
    return {"prompt": item} if isinstance(item, str) else item


class AskParams(Mutation):
    items: list[Annotated[ItemParams, BeforeValidator(_as_item)]] = Field(
        min_length=1, max_length=8, description="What is asked; a bare text is a prompt."
    )
    to: Annotated[str, Field(max_length=64)] = Field(
        PARENT, description="`parent`, `operator`, or the name of an ancestor."
    )
    deadline: float | None = Field(
        None, gt=0, le=YEAR, description="Seconds until the defaults count; absent: it waits."
    )
    task: Id | None = Field(
        None, description="A task of the caller's that cannot go on without the answer."
    )
    context: Annotated[str, bounded_text(TEXT_MOST)] = Field(
        "", description="What whoever answers has to know."
    )


class AskResult(Result):
    question: str = Field(description="Its id; the answer names it.")
    to: str = Field(description="Whom it waits on: who asks for the operator may get its parent.")
    deadline: float | None = Field(description="When the defaults count, in seconds since 1970.")


class AnswerParams(Mutation):
    question: Id = Field(description="The question, or the escalation.")
    answers: list[Annotated[str, bounded_text(TEXT_MOST)]] = Field(
        min_length=1, max_length=8, description="One text for each item, in their order."
    )


class AnswerResult(Result):
    question: str = Field(description="Its id.")
    state: str = Field(description="How it stands now.")
    asker: str = Field(description="Who asked, and gets the answer as mail.")


class RelayParams(Mutation):
    question: Id = Field(description="A question that waits on the caller.")
    to: Annotated[str, Field(max_length=64)] = Field(
        PARENT,
        description="`parent`, `operator`, or the name of an ancestor of the caller; for"
        " the operator the name of an ancestor of who asked.",
    )


class RelayResult(Result):
    question: str = Field(description="Its id, as before.")
    to: str = Field(description="Whom it waits on now.")


class CancelParams(Mutation):
    question: Id = Field(description="The question, or the escalation.")
    why: Reason = Field("", description="Told to who asked and to who was asked.")


class AboutQuestion(Protocol):
    """Parameters with a question in them."""

    @property
    def question(self) -> str: ...


def asker_name(call: Call, params: AboutQuestion) -> str | None:
    """Whose it is: the name of who asked."""
    found = call.ledger.questions.get(params.question)
    return None if found is None else call.hive.name(found.asker)


def question_facts(call: Call, params: AboutQuestion) -> frozenset[str]:
    """It waits on the caller, or the caller has passed it on and still stands above who asked."""
    found = call.ledger.questions.get(params.question)
    if found is None or not call.ledger.questions.has_held(found.id, call.uuid):
        return frozenset()
    asker = call.hive.name(found.asker)
    still = call.by_operator or (asker and relationship(call.hive, call.caller, asker) in ABOVE)
    return frozenset({ASKED}) if still else frozenset()


WHOSE: Final = Whose("question", "question", asker_name)
WAS_ASKED: Final = fact_rule(ASKED, "whom it was asked or relayed", "it was not asked of you")


@operation(action="escalate", allow=SELF)
def ask(call: Call, params: AskParams) -> Record[AskResult]:
    """Ask who stands above. The answer comes later, as mail of kind `answer`.

    Whom it waits on may answer, or pass it on upwards: the answer comes all the same. To the
    operator it goes at once with the capability `message.operator`; without, to the parent.
    """
    if call.by_operator:
        raise NotAllowed("cannot ask: nobody is above the operator", rule="self")
    items = tuple(map(_request_item, params.items))
    task = params.task or ""
    check_request(call, items, params.deadline, task)
    wish = QuestionRequest(items, params.context, params.deadline, task)
    found, topics = put_question(call, call.uuid, params.to, wish)
    topics |= park_task(call, found)
    result = AskResult(
        question=found.id, to=display_name(call, found.holder), deadline=found.deadline
    )
    return Record(result, topics, {"question": found.id, "to": result.to, "task": task})


@operation(
    action="escalate",
    allow=WAS_ASKED | OPERATOR,
    whose=WHOSE,
    facts=question_facts,
    aliases=("reply_to_worker",),
    urgent=True,
)
def answer(call: Call, params: AnswerParams) -> Record[AnswerResult]:
    """Answer a question or an escalation, once. Who asked gets the answers, whoever gives them.

    Whoever it waits on may, and whoever has passed it on. The second answer is a `Conflict` that
    tells the first.
    """
    found = call.ledger.questions.require(params.question)
    cannot = f"cannot answer {found.id}"
    if not found.open:
        raise Conflict(f"{cannot}: {_outcome_text(call, found)}", **outcome_fields(call, found))
    if len(params.answers) != len(found.items):
        reason = f"{cannot}: it has {len(found.items)} items, not {len(params.answers)}"
        raise InvalidArgument(reason, field="answers")
    check_total_size(*params.answers)
    kept = call.now + call.settings.talk.kept
    topics = end_question(call, found, QuestionEnd("answer", kept, params.answers, call.uuid))
    ended = call.ledger.questions.require(found.id)
    result = AnswerResult(
        question=ended.id, state=ended.state, asker=display_name(call, ended.asker)
    )
    return Record(result, topics, {"question": ended.id, "asker_name": result.asker})


@operation(action="escalate", allow=WAS_ASKED, whose=WHOSE, facts=question_facts)
def relay_question(call: Call, params: RelayParams) -> Record[RelayResult]:
    """Pass a question on, upwards; its answer goes to who asked first, without the caller's help.

    The caller may still answer itself: the first answer counts. The operator, above whom there is
    nobody, passes it back down.
    """
    found = call.ledger.questions.require(params.question)
    cannot = f"cannot relay {found.id}"
    if not found.open:
        raise Conflict(f"{cannot}: {_outcome_text(call, found)}", **outcome_fields(call, found))
    if found.holder != call.uuid:
        whom_ = display_name(call, found.holder)
        raise Conflict(f"{cannot}: it waits on {whom_}", question=found.id)
    to = _relay_target(call, params.to, found)
    topics = pass_on(call, found, party_uuid(call.hive, to), HopReason.RELAYED)
    return Record(RelayResult(question=found.id, to=to), topics, {"question": found.id, "to": to})


@operation(action="escalate", allow=SELF | ANCESTOR | OPERATOR, whose=WHOSE)
def cancel_question(call: Call, params: CancelParams) -> Record[AnswerResult]:
    """Take back a question or an escalation that is open; an ancestor of who asked may too."""
    found = call.ledger.questions.require(params.question)
    if not found.open:
        raise Conflict(
            f"cannot cancel {found.id}: {_outcome_text(call, found)}", **outcome_fields(call, found)
        )
    topics = end_question(
        call, found, end_without_answers(call, "cancel", by=call.uuid, reason=params.why)
    )
    ended = call.ledger.questions.require(found.id)
    result = AnswerResult(
        question=ended.id, state=ended.state, asker=display_name(call, ended.asker)
    )
    return Record(result, topics, {"question": ended.id, "asker_name": result.asker})


@when(QuestionSettled)
def _resume_task(call: Call, what: QuestionSettled) -> frozenset[str]:
    """The task that waited goes on when the last of its questions has ended (row K16)."""
    id_ = what.question.task
    task = call.ledger.tasks.get(id_) if id_ else None
    waits = task is not None and task.state is TaskState.AWAITING_MORE_INFORMATION
    if task is None or not waits or call.ledger.questions.open_of_task(id_):
        return frozenset()
    return move(call, task, "answer", why=f"question {what.question.id} {what.question.state}")[1]


@when(TaskEnded)
def _cancel_task_questions(call: Call, what: TaskEnded) -> frozenset[str]:
    """Nobody has to answer any more what a task would have needed."""
    topics = set[str]()
    for each in call.ledger.questions.open_of_task(what.id):
        reason = f"task {what.id} has ended ({what.status})"
        topics |= end_question(
            call, each, end_without_answers(call, "cancel", by=DAEMON, reason=reason)
        )
    return frozenset(topics)


def _request_item(given: ItemParams) -> QuestionItem:
    if len(given.options) == 1:
        raise InvalidArgument("one option is no choice: none, or 2 to 4", field="items.options")
    return QuestionItem(given.prompt, tuple(given.options), given.default)


def check_request(
    call: Call, items: Sequence[QuestionItem], deadline: float | None, id_: str
) -> None:
    """What makes no sense together: a default that never counts, a task of another."""
    if deadline is None and any(item.default is not None for item in items):
        raise InvalidArgument("`default` requires `deadline`", field="deadline")
    if not id_:
        return
    task = call.ledger.tasks.get(id_)
    if task is None or task.assignee != call.uuid:
        raise NotFound(f"no task {id_} of yours")
    if not task.held:
        raise Conflict(f"cannot ask for task {id_}: it is {task.state}")


def park_task(call: Call, question: Question) -> frozenset[str]:
    """The task waits for more information (row T5)."""
    task = call.ledger.tasks.get(question.task) if question.task else None
    if task is None:
        return frozenset()
    task, begun = begin(call, task, "its question")
    if task.state not in (TaskState.IN_PROGRESS, TaskState.PENDING_DELEGATION):
        return begun
    why = question_letters.question_title(question)
    return begun | move(call, task, "ask", why=f"question {question.id}: {why}")[1]


def _relay_target(call: Call, to: str, question: Question) -> str:
    """Above the caller; the operator, whom nobody is above, may say which ancestor shall see."""
    if not call.by_operator:
        return resolve_recipient(call.hive, call.caller, to, question.kind)
    asker = call.hive.name(question.asker)
    if asker is None or to not in call.hive.topology.lineage(asker):
        reason = f"cannot relay to {to[:64]}: name an ancestor of who asked"
        raise InvalidArgument(reason, field="to")
    return to


def _outcome_text(call: Call, question: Question) -> str:
    """How it ended, with the first answer."""
    given = "; ".join(
        question_letters.shorten(each) for each in question.answers if each is not None
    )
    return f"{question_letters.outcome_line(call, question)}{f' ({given})' if given else ''}"
