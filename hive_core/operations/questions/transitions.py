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
from hive_core.broker.hooks import QuestionSettled, happened
from hive_core.errors import Conflict, InboxFull, InvalidArgument, LimitReached, NotFound
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.mail.letters import NewMessage
from hive_core.ledger.questions.storage import NewQuestion, QuestionEnd
from hive_core.model.wire.record import DAEMON, OPERATOR, Relation
from hive_core.model.work.question import (
    MAIL_PRIORITY,
    Hop,
    HopReason,
    Question,
    QuestionItem,
    QuestionKind,
    QuestionState,
    Severity,
)
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.operations.notices import PRIORITY, inbox, post
from hive_core.operations.questions import letters as question_letters
from hive_core.operations.questions.recipients import party_uuid, resolve_recipient

ANSWER, ENDED = "answer", "question_ended"
AGAIN: Final = 60.0  # seconds until mail is tried again that did not fit into the inbox
BYTES_MOST: Final = 16 * 1024
_LOW: Final = 3
# How full the inbox of whom is asked may be.
_SHARES: Final = {QuestionKind.QUESTION: 0.5, QuestionKind.ESCALATION: 0.75}
# Of what somebody else has done the operator sees that it is no more on the list.
_MISSED: Final = frozenset({QuestionState.DEFAULTED, QuestionState.EXPIRED})


@dataclass(frozen=True, slots=True)
class QuestionRequest:
    """What is asked. `deadline` in seconds from now; `task`: one of the asker's that waits."""

    items: Sequence[QuestionItem]
    context: str = ""
    deadline: float | None = None
    task: str = ""
    kind: QuestionKind = QuestionKind.QUESTION
    severity: str = ""
    climbs: bool = False


def question_topic(question: str) -> str:
    """Touched whenever the question took a step."""
    return f"question:{question}"


def put_question(
    call: Call, asker: str, to: str, wish: QuestionRequest
) -> tuple[Question, frozenset[str]]:
    """Ask for an agent (by UUID) the parent, the operator, or an ancestor by name.

    NotAllowed and NotFound for who may not be asked, LimitReached when too many are open, InboxFull
    when whom it concerns has to read first.
    """
    name = call.hive.names[asker]
    holder = resolve_recipient(call.hive, name, to, wish.kind)
    check_total_size(wish.context, *(text for item in wish.items for text in _texts(item)))
    _check_room(call, asker, holder, wish.kind)
    uuid = party_uuid(call.hive, holder)
    found = call.ledger.questions.create(
        NewQuestion(
            wish.kind, asker, uuid, tuple(wish.items), wish.context, wish.severity, wish.task,
            None if wish.deadline is None else call.now + wish.deadline,
            _climb_time(call, wish.severity, uuid) if wish.climbs else None,
        ),
        call.now,
    )  # fmt: skip
    topics = log_step(call, found, "put", to=uuid) | _post_letter(call, found, holder)
    return found, topics | update_activity(call, asker)


def pass_on(call: Call, question: Question, holder: str, why: HopReason) -> frozenset[str]:
    """It waits on `holder` (a UUID, or `operator`) from now on; who had it and who has it hear."""
    hop = Hop(holder, call.now, question.holder, why)
    climbs = None if question.climbs is None else _climb_time(call, question.severity, holder)
    found = call.ledger.questions.pass_on(question.id, hop, climbs)
    topics = log_step(call, found, why, to=holder) | deliver_mail(call, found)
    had = call.ledger.questions.hops(question.id)[-2]
    if call.uuid == had.holder:  # who passed it on knows
        return topics
    body = question_letters.handover_letter(call, found, hop)
    return topics | _tell_former_holder(call, had, body, stays=why is HopReason.CLIMBED)


def end_question(call: Call, question: Question, end: QuestionEnd) -> frozenset[str]:
    """Its one end: Conflict when it has ended already. Topics to touch."""
    if not question.open:
        raise Conflict(
            f"{question_letters.outcome_line(call, question)}", **outcome_fields(call, question)
        )
    found = call.ledger.questions.end(question.id, end, call.now)
    topics = log_step(call, found, end.event, by=end.by)
    topics |= (
        deliver_mail(call, found)
        | happened(call, QuestionSettled(found))
        | update_activity(call, found.asker)
    )
    had = {hop.holder: hop for hop in call.ledger.questions.hops(found.id)}
    body, missed = question_letters.closing_letter(call, found), found.state in _MISSED
    for uuid, hop in had.items():
        topics |= _tell_former_holder(call, hop, "" if uuid == call.uuid else body, always=missed)
    return topics


def outcome_fields(call: Call, question: Question) -> dict[str, object]:
    """What who comes too late is told."""
    return {
        "question": question.id, "state": question.state.value,
        "by": display_name(call, question.answered_by), "answers": list(question.answers),
    }  # fmt: skip


def end_without_answers(call: Call, event: str, *, by: str = "", reason: str = "") -> QuestionEnd:
    """An end that gives no answers of its own."""
    return QuestionEnd(event, call.now + call.settings.talk.kept, by=by, reason=reason)


def deliver_mail(call: Call, question: Question) -> frozenset[str]:
    """The mail about where it stands: to whom it waits on, or to who asked.

    An inbox that is full is tried again: an answer is not lost because nobody read.
    """
    name = living_name(call, question.holder if question.open else question.asker)
    topics, again = frozenset[str](), None
    if name is not None:  # gone: what waits on it is passed on, and what it asked is cancelled
        try:
            topics = _post_letter(call, question, name)
        except (InboxFull, NotFound):
            again = call.now + AGAIN
    call.ledger.questions.set_retry(question.id, again)
    return topics | {question_topic(question.id)}


def _tell_former_holder(
    call: Call, hop: Hop, body: str, *, always: bool = False, stays: bool = False
) -> frozenset[str]:
    """Tell who had it that it is over, or waits on somebody else.

    Who has not read the letter that brought it need not know; it is taken back, unless it may
    still be answered (`stays`). What nobody answered in time is told `always`. The operator looks
    at its list.
    """
    name, mail = living_name(call, hop.holder), call.ledger.messages
    if name is None:
        return frozenset()
    unread = bool(hop.letter) and mail.untaken(hop.holder, hop.letter)
    if unread and not stays:
        mail.ack(hop.holder, [hop.letter])
    if not body or (not always and (unread or name == OPERATOR)):
        return frozenset({inbox(hop.holder)})
    with suppress(InboxFull, NotFound):  # good to know and no more: not worth another try
        return _send_mail(call, name, ENDED, body, _LOW)[1]
    return frozenset({inbox(hop.holder)})


def living_name(call: Call, uuid: str) -> str | None:
    """The name of a party; None for an agent that is destroyed, be it by this very call."""
    if uuid == OPERATOR:
        return OPERATOR
    return None if call.ledger.archives.get(uuid) is not None else call.hive.name(uuid)


def log_step(call: Call, question: Question, what: str, **more: object) -> frozenset[str]:
    """One event for each step; gives the topic of the question."""
    fields = {
        "question": question.id, "state": question.state.value,
        "asker_name": display_name(call, question.asker), "caller_name": call.caller,
        "target_name": display_name(call, question.holder), **more,
    }  # fmt: skip
    if question.severity:
        fields["severity"] = question.severity
    call.ledger.events.append(
        AuditEntry(
            question.kind.value, call.uuid, what, question.holder, None, "", "",
            call.hive.commit, call.request, call.now, fields,
        )
    )  # fmt: skip
    return frozenset({question_topic(question.id), "events"})


def check_total_size(*texts: str) -> None:
    """All of it together has to fit into one message."""
    if sum(len(text.encode()) for text in texts) > BYTES_MOST:
        raise InvalidArgument(
            f"all texts together are longer than {BYTES_MOST} bytes", field="items"
        )


def _texts(item: QuestionItem) -> tuple[str, ...]:
    return (item.prompt, *item.options, item.default or "")


def _check_room(call: Call, asker: str, holder: str, kind: QuestionKind) -> None:
    """Nobody has too many open, and nobody keeps others from asking the same one (row Q28)."""
    bounds, rows = call.settings.talk, call.ledger.questions
    if rows.count_asked(asker) >= bounds.open:
        raise LimitReached(
            f"cannot ask {holder}: {bounds.open} of your questions are open",
            rule="talk.open", most=bounds.open,
        )  # fmt: skip
    uuid = party_uuid(call.hive, holder)
    _check_inbox(call, uuid, holder, kind)
    if (
        kind is QuestionKind.ESCALATION
    ):  # what is urgent finds room; the bound above holds for it too
        return
    there = rows.count_held(uuid)
    full = there >= bounds.asked
    if full or (2 * there >= bounds.asked and rows.count_held(uuid, asker)):
        whose = "it has" if full else "one of yours is among them, and it has"
        raise LimitReached(
            f"cannot ask {holder}: {whose} {there} open questions to answer",
            rule="talk.asked", most=bounds.asked,
        )  # fmt: skip


def _check_inbox(call: Call, uuid: str, holder: str, kind: QuestionKind) -> None:
    """Asking, again and again, fills no box: the rest of it is for the mail of others.

    Questions come as mail of the daemon's: what agents send there keeps nobody from asking.
    """
    count, size = call.ledger.messages.crowd(uuid).get(DAEMON, (0, 0))
    share, limits = _SHARES[kind], call.settings.limits
    if count >= share * limits.inbox_count or size >= share * limits.inbox_bytes:
        raise InboxFull(f"cannot ask {holder}: its inbox is nearly full; it has to read first")


def _climb_time(call: Call, severity: str, holder: str) -> float | None:
    """When it goes a level up by itself: nobody is above the operator."""
    if holder == OPERATOR:
        return None
    return call.now + float(getattr(call.settings.talk, Severity(severity).value))


def _post_letter(call: Call, question: Question, name: str) -> frozenset[str]:
    urgent = MAIL_PRIORITY[Severity(question.severity)] if question.severity else PRIORITY
    if question.state is QuestionState.OPEN:
        hop = call.ledger.questions.hops(question.id)[-1]
        body = question_letters.question_letter(call, question, hop)
        letter, topics = _send_mail(call, name, question.kind, body, urgent)
        call.ledger.questions.set_letter(question.id, letter)
        return topics
    return _send_mail(
        call, name, ANSWER, question_letters.answer_letter(call, question), min(urgent, PRIORITY)
    )[1]


def _send_mail(
    call: Call, name: str, kind: str, body: str, priority: int
) -> tuple[str, frozenset[str]]:
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON,
        recipient=party_uuid(call.hive, name), recipient_name=name,
        relation=Relation.DAEMON, body=body, kind=kind, priority=priority,
    )  # fmt: skip
    message, topics = post(call, letter)
    return message.id, topics
