"""How a question is put, how it comes to wait on somebody else, and how it ends.

The one way for all of them: questions, escalations, and what the daemon asks for an agent. Each
step is a row, an event and mail, in one transaction. Who asked hears of the end exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.happening import Settled, happened
from hive_core.errors import (
    Conflict,
    InboxFull,
    InvalidArgument,
    LimitReached,
    NotAllowed,
    NotFound,
)
from hive_core.ledger.events import Entry
from hive_core.ledger.letters import NewMessage
from hive_core.ledger.questions import End, NewQuestion
from hive_core.model.agent import Role
from hive_core.model.hive import Hive
from hive_core.model.question import URGENCY, Ask, Hop, Item, Question, QuestionState, Severity, Why
from hive_core.model.record import DAEMON, OPERATOR, Relation
from hive_core.operations import question_words
from hive_core.operations.activity import shown
from hive_core.operations.ending import called
from hive_core.operations.notices import PRIORITY, post
from hive_core.policy.decide import decide, visible_names
from hive_core.policy.rules import ROUTE
from hive_core.policy.standing import ABOVE, stand

PARENT: Final = "parent"
ANSWER, ENDED = "answer", "question_ended"
AGAIN: Final = 60.0  # seconds until mail is tried again that did not fit into the inbox
BYTES_MOST: Final = 16 * 1024
_LOW: Final = 3
# Of what somebody else has done the operator sees that it is no more on the list.
_MISSED: Final = frozenset({QuestionState.DEFAULTED, QuestionState.EXPIRED})


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked. `deadline` in seconds from now; `task`: one of the asker's that waits."""

    items: Sequence[Item]
    context: str = ""
    deadline: float | None = None
    task: str = ""
    kind: Ask = Ask.QUESTION
    severity: str = ""
    climbs: bool = False


def topic(question: str) -> str:
    """Touched whenever the question took a step."""
    return f"question:{question}"


def put_question(call: Call, asker: str, to: str, wish: Wish) -> tuple[Question, frozenset[str]]:
    """Ask for an agent (by UUID) the parent, the operator, or an ancestor by name.

    NotAllowed and NotFound for who may not be asked, LimitReached when too many are open, InboxFull
    when whom it concerns has to read first.
    """
    name = call.hive.names[asker]
    holder = whom(call.hive, name, to, wish.kind)
    check_size(wish.context, *(text for item in wish.items for text in _texts(item)))
    _check_room(call, asker, holder, wish.kind)
    uuid = party(call.hive, holder)
    found = call.ledger.questions.create(
        NewQuestion(
            wish.kind, asker, uuid, tuple(wish.items), wish.context, wish.severity, wish.task,
            None if wish.deadline is None else call.now + wish.deadline,
            _climbs(call, wish.severity, uuid) if wish.climbs else None,
        ),
        call.now,
    )  # fmt: skip
    topics = log(call, found, "put", to=uuid) | _post(call, found, holder)
    return found, topics | shown(call, asker)


def hand_on(call: Call, question: Question, holder: str, why: Why) -> frozenset[str]:
    """It waits on `holder` (a UUID, or `operator`) from now on; who had it and who has it hear."""
    hop = Hop(holder, call.now, question.holder, why)
    climbs = None if question.climbs is None else _climbs(call, question.severity, holder)
    found = call.ledger.questions.hand(question.id, hop, climbs)
    topics = log(call, found, why, to=holder) | deliver(call, found)
    before = living(call, question.holder)
    if before is None or call.uuid == question.holder:
        return topics  # who passed it on knows, and who is gone hears nothing
    return topics | _say(call, before, question_words.passed_by(call, found, hop))


def end_question(call: Call, question: Question, end: End) -> frozenset[str]:
    """Its one end: Conflict when it has ended already. Topics to touch."""
    if not question.open:
        raise Conflict(f"{question_words.outcome(call, question)}", **first_end(call, question))
    found = call.ledger.questions.end(question.id, end, call.now)
    topics = log(call, found, end.event, by=end.by)
    topics |= deliver(call, found) | happened(call, Settled(found)) | shown(call, found.asker)
    for uuid in dict.fromkeys(hop.holder for hop in call.ledger.questions.hops(found.id)):
        name = living(call, uuid)
        if name not in (None, call.caller) and (name != OPERATOR or found.state in _MISSED):
            topics |= _say(call, str(name), question_words.closed(call, found))
    return topics


def first_end(call: Call, question: Question) -> dict[str, object]:
    """What who comes too late is told."""
    return {
        "question": question.id, "state": question.state.value,
        "by": called(call, question.answered_by), "answers": list(question.answers),
    }  # fmt: skip


def finish(call: Call, event: str, *, by: str = "", reason: str = "") -> End:
    """An end that gives no answers of its own."""
    return End(event, call.now + call.settings.talk.kept, by=by, reason=reason)


def deliver(call: Call, question: Question) -> frozenset[str]:
    """The mail about where it stands: to whom it waits on, or to who asked.

    An inbox that is full is tried again: an answer is not lost because nobody read.
    """
    name = living(call, question.holder if question.open else question.asker)
    topics, again = frozenset[str](), None
    if name is not None:  # gone: what waits on it is passed on, and what it asked is cancelled
        try:
            topics = _post(call, question, name)
        except (InboxFull, NotFound):
            again = call.now + AGAIN
    call.ledger.questions.owe(question.id, again)
    return topics | {topic(question.id)}


def living(call: Call, uuid: str) -> str | None:
    """The name of a party; None for an agent that is destroyed, be it by this very call."""
    if uuid == OPERATOR:
        return OPERATOR
    return None if call.ledger.archives.get(uuid) is not None else call.hive.name(uuid)


def log(call: Call, question: Question, what: str, **more: object) -> frozenset[str]:
    """One event for each step; gives the topic of the question."""
    fields = {
        "question": question.id, "state": question.state.value,
        "asker_name": called(call, question.asker), "caller_name": call.caller,
        "target_name": called(call, question.holder), **more,
    }  # fmt: skip
    if question.severity:
        fields["severity"] = question.severity
    call.ledger.events.append(
        Entry(
            question.kind.value, call.uuid, what, question.holder, None, "", "",
            call.hive.commit, call.request, call.now, fields,
        )
    )  # fmt: skip
    return frozenset({topic(question.id), "events"})


def whom(hive: Hive, asker: str, to: str, kind: Ask) -> str:
    """Who is meant: the name of an ancestor of the asker, or `operator`."""
    cannot = f"cannot {'ask' if kind is Ask.QUESTION else 'escalate to'} {to[:64]}"
    above = hive.topology.parent(asker)
    if to in (PARENT, above, OPERATOR):
        return _nearest(hive, asker, to, kind)
    if to not in visible_names(hive, asker):
        raise NotFound(f"{cannot}: no such agent")
    if stand(hive, to, asker) not in ABOVE:
        raise NotAllowed(f"{cannot}: not your ancestor", rule="ancestor")
    if hive.spec(asker).role is Role.TASK:
        raise NotAllowed(f"{cannot}: a task asks its parent only", rule="route")
    return to


def _nearest(hive: Hive, asker: str, to: str, kind: Ask) -> str:
    """The parent, or the operator if that is meant and the asker may write to the operator.

    Who may not asks its parent, who may pass it on. An escalation of a root is the operator's.
    """
    above = hive.topology.parent(asker)
    direct = decide(ROUTE, hive, asker, OPERATOR).allowed
    if to == OPERATOR and direct:
        return OPERATOR
    if above is not None:
        return above
    if direct or kind is Ask.ESCALATION:
        return OPERATOR
    raise NotAllowed(
        "cannot ask operator: you have no parent, and not the capability message.operator",
        rule="route",
    )


def party(hive: Hive, name: str) -> str:
    """UUID of an agent; the operator is called by its name."""
    return OPERATOR if name == OPERATOR else hive.spec(name).id


def above(hive: Hive, uuid: str) -> str:
    """UUID of the parent of an agent; `operator` above a root, and above who is not there."""
    name = hive.name(uuid)
    parent = None if name is None else hive.topology.parent(name)
    return OPERATOR if parent is None else hive.spec(parent).id


def check_size(*texts: str) -> None:
    """All of it together has to fit into one message."""
    if sum(len(text.encode()) for text in texts) > BYTES_MOST:
        raise InvalidArgument(
            f"all texts together are longer than {BYTES_MOST} bytes", field="items"
        )


def _texts(item: Item) -> tuple[str, ...]:
    return (item.prompt, *item.options, item.default or "")


def _check_room(call: Call, asker: str, holder: str, kind: Ask) -> None:
    """Nobody has too many open, and nobody keeps others from asking the same one (row Q28)."""
    bounds, rows = call.settings.talk, call.ledger.questions
    if rows.count_asked(asker) >= bounds.open:
        raise LimitReached(
            f"cannot ask {holder}: {bounds.open} of your questions are open",
            rule="talk.open", most=bounds.open,
        )  # fmt: skip
    if kind is Ask.ESCALATION:  # what is urgent finds room; the bound above holds for it too
        return
    uuid = party(call.hive, holder)
    there = rows.count_held(uuid)
    full = there >= bounds.asked
    if full or (2 * there >= bounds.asked and rows.count_held(uuid, asker)):
        whose = "it has" if full else "one of yours is among them, and it has"
        raise LimitReached(
            f"cannot ask {holder}: {whose} {there} open questions to answer",
            rule="talk.asked", most=bounds.asked,
        )  # fmt: skip


def _climbs(call: Call, severity: str, holder: str) -> float | None:
    """When it goes a level up by itself: nobody is above the operator."""
    if holder == OPERATOR:
        return None
    return call.now + float(getattr(call.settings.talk, Severity(severity).value))


def _post(call: Call, question: Question, name: str) -> frozenset[str]:
    urgent = URGENCY[Severity(question.severity)] if question.severity else PRIORITY
    if question.state is QuestionState.OPEN:
        hop = call.ledger.questions.hops(question.id)[-1]
        return _mail(call, name, question.kind, question_words.put(call, question, hop), urgent)
    return _mail(call, name, ANSWER, question_words.ended(call, question), min(urgent, PRIORITY))


def _say(call: Call, name: str, body: str) -> frozenset[str]:
    """What is good to know and no more: not worth another try."""
    with suppress(InboxFull, NotFound):
        return _mail(call, name, ENDED, body, _LOW)
    return frozenset()


def _mail(call: Call, name: str, kind: str, body: str, priority: int) -> frozenset[str]:
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=party(call.hive, name), recipient_name=name,
        relation=Relation.DAEMON, body=body, kind=kind, priority=priority,
    )  # fmt: skip
    return post(call, letter)[1]
