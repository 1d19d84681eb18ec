"""What happens to questions by itself: deadlines, climbing, mail that was owed, and a tree that
has changed under them."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, when
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

# So much at a time: others get their turn in between.
_MOST: Final = 50


class NoResult(Result):
    """Nobody asked."""


def _tree_changed_at(ledger: Ledger) -> float | None:
    """At once, when the tree is another one than that by which the open ones were looked at."""
    if ledger.questions.checked_commit == ledger.head or not (
        ledger.questions.any or ledger.reminders.any
    ):
        return None
    return 0.0


@due(at=lambda ledger: ledger.questions.next_due(), topics=frozenset({"question"}))
def handle_question_deadlines(call: Call) -> Record[Result]:
    """Deadlines first, so that nothing climbs whose time is over."""
    rows, topics = call.ledger.questions, set[str]()
    for each in rows.past_deadline(call.now, _MOST):
        topics |= end_question(call, each, _deadline_end(call, each))
    for each in rows.due_to_climb(call.now, _MOST):
        topics |= pass_on(call, each, parent_uuid(call.hive, each.holder), HopReason.CLIMBED)
    for each in rows.due_retries(call.now, _MOST):
        topics |= deliver_mail(call, each)
    rows.forget(call.now, _MOST)
    return Record(NoResult(), frozenset(topics), audited=True)


@due(at=_tree_changed_at, topics=frozenset({"tree"}))
def recheck_questions(call: Call) -> Record[Result]:
    """Whoever moved, or was taken out of the tree by hand: nothing waits on who is not above."""
    topics = set[str]()
    for each in call.ledger.questions.all_open():
        topics |= _recheck_question(call, each)
    for owner in call.ledger.reminders.owners():
        if call.hive.name(owner) is None:
            call.ledger.reminders.drop_all_of(owner)
    call.ledger.questions.mark_checked(call.ledger.head)
    return Record(NoResult(), frozenset(topics), audited=True)


@when(AgentDestroyed)
def _pass_on_questions(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """What it asked is cancelled, and what waits on it goes to the nearest living ancestor."""
    rows, topics = call.ledger.questions, set[str]()
    for each in rows.open_of_asker(what.uuid):
        topics |= end_question(call, each, _end_for_destroyed(call, what.name))
    heir = parent_uuid(call.hive, what.uuid)
    for each in rows.open_of_holder(what.uuid):
        topics |= pass_on(call, each, heir, HopReason.PASSED)
    call.ledger.reminders.drop_all_of(what.uuid)
    return frozenset(topics)


def _deadline_end(call: Call, question: Question) -> QuestionEnd:
    """The defaults count; where one item has none, it has expired, and the others count."""
    kept = call.now + call.settings.talk.kept
    whole = None not in question.defaults
    given = question.defaults if any(question.defaults) else ()
    return QuestionEnd("default" if whole else "expire", kept, given, DAEMON)


def _end_for_destroyed(call: Call, name: str) -> QuestionEnd:
    return end_without_answers(call, "cancel", by=DAEMON, reason=f"{name} is gone")


def _recheck_question(call: Call, question: Question) -> frozenset[str]:
    """The same for one question, by the tree as it is now."""
    asker, holder = call.hive.name(question.asker), call.hive.name(question.holder)
    if asker is None:
        return end_question(call, question, _end_for_destroyed(call, "who asked"))
    if question.holder == OPERATOR or (holder and relationship(call.hive, holder, asker) in ABOVE):
        return frozenset()
    return pass_on(call, question, parent_uuid(call.hive, question.asker), HopReason.PASSED)
