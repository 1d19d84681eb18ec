"""What the daemon does with open questions.

Deadlines, climbing, retried mail, changes of the tree.
"""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.questions.storage import QuestionEnd
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.question import HopReason, Question
from hive_core.operations.questions.recipients import parent_uuid
from hive_core.operations.questions.transitions import (
    deliver_mail,
    end_question,
    end_without_answers,
    pass_on,
)
from hive_core.policy.relationship import ABOVE, relationship

# Questions handled in one turn; other calls are served in between.
_MOST: Final = 50


class NoResult(Result):
    """A timer has no caller."""


def _tree_changed_at(ledger: Ledger) -> float | None:
    """Due at once when the tree has changed since the open questions were checked."""
    if ledger.questions.checked_commit == ledger.head:
        return None
    return 0.0 if ledger.questions.any or ledger.reminders.any else None


@due(at=lambda ledger: ledger.questions.next_due(), topics=frozenset({"question"}))
def handle_question_deadlines(call: Call) -> Record[Result]:
    """End late questions first, so that none of them climbs; then climb, retry and forget."""
    rows = call.ledger.questions
    for question in rows.past_deadline(call.now, _MOST):
        end_question(call, question, _deadline_end(call, question))
    for question in rows.due_to_climb(call.now, _MOST):
        pass_on(call, question, parent_uuid(call.hive, question.holder), HopReason.CLIMBED)
    for question in rows.due_retries(call.now, _MOST):
        deliver_mail(call, question)
    rows.forget(call.now, _MOST)
    return Record(NoResult(), audited=True)


@due(at=_tree_changed_at, topics=frozenset({"tree"}))
def recheck_questions(call: Call) -> Record[Result]:
    """After a change of the tree, pass on questions whose holder is no longer above the asker."""
    for question in call.ledger.questions.all_open():
        _recheck_question(call, question)
    for owner in call.ledger.reminders.owners():
        if call.hive.name(owner) is None:
            call.ledger.reminders.drop_all_of(owner)
    call.ledger.questions.mark_checked(call.ledger.head)
    return Record(NoResult(), audited=True)


@on(AgentDestroyed)
def _pass_on_questions(call: Call, event: AgentDestroyed) -> None:
    """Cancel the questions of a destroyed agent.

    Pass those that waited on it to the nearest ancestor.
    """
    rows = call.ledger.questions
    for question in rows.open_of_asker(event.uuid):
        end_question(call, question, _end_by_destruction(call, event.name))
    heir = parent_uuid(call.hive, event.uuid)
    for question in rows.open_of_holder(event.uuid):
        pass_on(call, question, heir, HopReason.PASSED)
    call.ledger.reminders.drop_all_of(event.uuid)


def _deadline_end(call: Call, question: Question) -> QuestionEnd:
    """The end at a deadline: the defaults count, or the question expires when an item has none."""
    keep_until = call.now + call.settings.talk.kept
    complete = None not in question.defaults
    answers = question.defaults if any(question.defaults) else ()
    return QuestionEnd("default" if complete else "expire", keep_until, answers, DAEMON)


def _end_by_destruction(call: Call, name: str) -> QuestionEnd:
    return end_without_answers(call, "cancel", by=DAEMON, reason=f"{name} was destroyed")


def _recheck_question(call: Call, question: Question) -> None:
    """Cancel or pass on one question, by the present tree."""
    asker, holder = call.hive.name(question.asker), call.hive.name(question.holder)
    if asker is None:
        end_question(call, question, _end_by_destruction(call, "the asker"))
    elif question.holder != OPERATOR and not (
        holder and relationship(call.hive, holder, asker) in ABOVE
    ):
        pass_on(call, question, parent_uuid(call.hive, question.asker), HopReason.PASSED)
