"""What happens to questions by itself: deadlines, climbing, mail that was owed, and a tree that
has changed under them."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import Gone, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.questions.storage import End
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.question import HopReason, Question
from hive_core.operations.questions.recipients import above
from hive_core.operations.questions.transitions import deliver, end_question, finish, hand_on
from hive_core.policy.relationship import ABOVE, relationship

# So much at a time: others get their turn in between.
_MOST: Final = 50


class Nothing(Result):
    """Nobody asked."""


def _changed(ledger: Ledger) -> float | None:
    """At once, when the tree is another one than that by which the open ones were looked at."""
    if ledger.questions.seen == ledger.head or not (ledger.questions.any or ledger.reminders.any):
        return None
    return 0.0


@due(at=lambda ledger: ledger.questions.next_due(), topics=frozenset({"question"}))
def question_times(call: Call) -> Record[Result]:
    """Deadlines first, so that nothing climbs whose time is over."""
    rows, topics = call.ledger.questions, set[str]()
    for each in rows.late(call.now, _MOST):
        topics |= end_question(call, each, _over(call, each))
    for each in rows.climbing(call.now, _MOST):
        topics |= hand_on(call, each, above(call.hive, each.holder), HopReason.CLIMBED)
    for each in rows.owed(call.now, _MOST):
        topics |= deliver(call, each)
    rows.forget(call.now, _MOST)
    return Record(Nothing(), frozenset(topics), told=True)


@due(at=_changed, topics=frozenset({"tree"}))
def questions_in_the_tree(call: Call) -> Record[Result]:
    """Whoever moved, or was taken out of the tree by hand: nothing waits on who is not above."""
    topics = set[str]()
    for each in call.ledger.questions.open():
        topics |= _settled_anew(call, each)
    for owner in call.ledger.reminders.owners():
        if call.hive.name(owner) is None:
            call.ledger.reminders.drop_of(owner)
    call.ledger.questions.see(call.ledger.head)
    return Record(Nothing(), frozenset(topics), told=True)


@when(Gone)
def _gone(call: Call, what: Gone) -> frozenset[str]:
    """What it asked is cancelled, and what waits on it goes to the nearest living ancestor."""
    rows, topics = call.ledger.questions, set[str]()
    for each in rows.asked_by(what.uuid):
        topics |= end_question(call, each, _without(call, what.name))
    heir = above(call.hive, what.uuid)
    for each in rows.held_by(what.uuid):
        topics |= hand_on(call, each, heir, HopReason.PASSED)
    call.ledger.reminders.drop_of(what.uuid)
    return frozenset(topics)


def _over(call: Call, question: Question) -> End:
    """The defaults count; where one item has none, it has expired, and the others count."""
    kept = call.now + call.settings.talk.kept
    whole = None not in question.defaults
    given = question.defaults if any(question.defaults) else ()
    return End("default" if whole else "expire", kept, given, DAEMON)


def _without(call: Call, name: str) -> End:
    return finish(call, "cancel", by=DAEMON, reason=f"{name} is gone")


def _settled_anew(call: Call, question: Question) -> frozenset[str]:
    """The same for one question, by the tree as it is now."""
    asker, holder = call.hive.name(question.asker), call.hive.name(question.holder)
    if asker is None:
        return end_question(call, question, _without(call, "who asked"))
    if question.holder == OPERATOR or (holder and relationship(call.hive, holder, asker) in ABOVE):
        return frozenset()
    return hand_on(call, question, above(call.hive, question.asker), HopReason.PASSED)
