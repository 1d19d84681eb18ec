"""The steps of a question: it is asked, passed on and ended.

Questions, escalations and the daemon's own questions all use these functions. Each step is a row,
an event and mail, in one transaction. The asker learns of the end exactly once: as mail, unless it
ends the question itself and no task waits for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.hooks import QuestionSettled, emit
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
from hive_core.operations.notices import PRIORITY, deliver, inbox
from hive_core.operations.questions import letters as question_letters
from hive_core.operations.questions.recipients import party_uuid, resolve_recipient

ANSWER, ENDED = "answer", "question_ended"
AGAIN: Final = 60.0  # seconds until mail that did not fit into an inbox is sent again
BYTES_MOST: Final = 16 * 1024
_LOW: Final = 3
# Part of the recipient's inbox that questions may fill.
_SHARES: Final = {QuestionKind.QUESTION: 0.5, QuestionKind.ESCALATION: 0.75}
# The operator's list shows what other parties did; of these ends the operator always gets mail.
_MISSED: Final = frozenset({QuestionState.DEFAULTED, QuestionState.EXPIRED})


@dataclass(frozen=True, slots=True)
class QuestionRequest:
    """A question to ask.

    `deadline` is in seconds from now; `task`: a task of the asker that waits.
    """

    items: Sequence[QuestionItem]
    context: str = ""
    deadline: float | None = None
    task: str = ""
    kind: QuestionKind = QuestionKind.QUESTION
    severity: str = ""
    climbs: bool = False


def question_topic(question: str) -> str:
    """The topic that every step of a question touches."""
    return f"question:{question}"


def put_question(call: Call, asker: str, to: str, request: QuestionRequest) -> Question:
    """Ask the parent, the operator, or an ancestor by name, for an agent (by UUID).

    Raises NotAllowed or NotFound when the agent may not ask this recipient, LimitReached when too
    many questions are open, and InboxFull when the recipient's inbox is nearly full.
    """
    name = call.hive.names[asker]
    holder = resolve_recipient(call.hive, name, to, request.kind)
    texts = (text for item in request.items for text in _texts(item))
    check_total_size(request.context, *texts)
    _check_room(call, asker, holder, request.kind)
    uuid = party_uuid(call.hive, holder)
    question = call.ledger.questions.create(
        NewQuestion(
            request.kind, asker, uuid, tuple(request.items), request.context, request.severity,
            request.task,
            None if request.deadline is None else call.now + request.deadline,
            _climb_time(call, request.severity, uuid) if request.climbs else None,
        ),
        call.now,
    )  # fmt: skip
    log_step(call, question, "put", to=uuid)
    _post_letter(call, question, holder)
    update_activity(call, asker)
    return question


def pass_on(call: Call, question: Question, holder: str, why: HopReason) -> None:
    """Make `holder` (a UUID, or `operator`) the holder of a question.

    Tell the old and the new one.
    """
    hop = Hop(holder, call.now, question.holder, why)
    climbs = None if question.climbs is None else _climb_time(call, question.severity, holder)
    passed = call.ledger.questions.pass_on(question.id, hop, climbs)
    log_step(call, passed, why, to=holder)
    deliver_mail(call, passed)
    former = call.ledger.questions.hops(question.id)[-2]
    if call.uuid != former.holder:
        body = question_letters.handover_letter(call, passed, hop)
        _tell_former_holder(call, former, body, stays=why is HopReason.CLIMBED)


def end_question(call: Call, question: Question, end: QuestionEnd) -> None:
    """Write the one end of a question; Conflict when it has ended already."""
    if not question.open:
        outcome = question_letters.outcome_line(call, question)
        raise Conflict(outcome, **outcome_fields(call, question))
    ended = call.ledger.questions.end(question.id, end, call.now)
    log_step(call, ended, end.event, by=end.by)
    if end.by == ended.asker and not _waits_with_its_task(ended):
        call.ledger.questions.set_retry(ended.id, None)
        call.notify(question_topic(ended.id))
    else:
        deliver_mail(call, ended)
    emit(call, QuestionSettled(ended))
    update_activity(call, ended.asker)
    last_hops = {hop.holder: hop for hop in call.ledger.questions.hops(ended.id)}
    body, missed = question_letters.closing_letter(call, ended), ended.state in _MISSED
    for uuid, hop in last_hops.items():
        _tell_former_holder(call, hop, "" if uuid == call.uuid else body, always=missed)


def _waits_with_its_task(question: Question) -> bool:
    """Whether a task of the asker waits for the end, perhaps in another conversation of it.

    A session escalates for a task that goes on by itself, and cancels that in the same turn.
    """
    return bool(question.task) and question.kind is QuestionKind.QUESTION


def outcome_fields(call: Call, question: Question) -> dict[str, object]:
    """The fields of the error for an answer that comes too late."""
    return {
        "question": question.id, "state": question.state.value,
        "by": display_name(call, question.answered_by), "answers": list(question.answers),
    }  # fmt: skip


def end_without_answers(call: Call, event: str, *, by: str = "", reason: str = "") -> QuestionEnd:
    return QuestionEnd(event, call.now + call.settings.talk.kept, by=by, reason=reason)


def deliver_mail(call: Call, question: Question) -> None:
    """Send the mail about the present state: to the holder, or after the end to the asker.

    Mail that does not fit into a full inbox is sent again later, so that no answer is lost.
    """
    name = living_name(call, question.holder if question.open else question.asker)
    retry = None
    if (
        name is not None
    ):  # destroyed: questions that wait on it are passed on, its own questions are cancelled
        try:
            _post_letter(call, question, name)
        except (InboxFull, NotFound):
            retry = call.now + AGAIN
    call.ledger.questions.set_retry(question.id, retry)
    call.notify(question_topic(question.id))


def _tell_former_holder(
    call: Call, hop: Hop, body: str, *, always: bool = False, stays: bool = False
) -> None:
    """Tell a former holder that the question has ended, or waits on another party.

    If the holder has not read the letter about it, the daemon withdraws that letter instead, unless
    the holder may still answer (`stays`). With `always` (an end without an answer) it tells the
    holder in any case. The operator's list shows the rest.
    """
    name, mail = living_name(call, hop.holder), call.ledger.messages
    if name is None:
        return
    unread = bool(hop.letter) and mail.untaken(hop.holder, hop.letter)
    if unread and not stays:
        mail.ack(hop.holder, [hop.letter])
    call.notify(inbox(hop.holder))
    if body and (always or not (unread or name == OPERATOR)):
        with suppress(InboxFull, NotFound):  # useful, but not worth a retry
            _send_mail(call, name, ENDED, body, _LOW)


def living_name(call: Call, uuid: str) -> str | None:
    """The name of a party; None for a destroyed agent, also one that this call destroys."""
    if uuid == OPERATOR:
        return OPERATOR
    return None if call.ledger.archives.get(uuid) is not None else call.hive.name(uuid)


def log_step(call: Call, question: Question, operation: str, **more: object) -> None:
    """Write one event for a step of a question."""
    fields = {
        "question": question.id, "state": question.state.value,
        "asker_name": display_name(call, question.asker), "caller_name": call.caller,
        "target_name": display_name(call, question.holder), **more,
    }  # fmt: skip
    if question.severity:
        fields["severity"] = question.severity
    call.ledger.events.append(
        AuditEntry(
            question.kind.value, call.uuid, operation, question.holder, None, "", "",
            call.hive.commit, call.request, call.now, fields,
        )
    )  # fmt: skip
    call.notify(question_topic(question.id), "events")


def check_total_size(*texts: str) -> None:
    """Raise InvalidArgument unless all texts together fit into one message."""
    if sum(len(text.encode()) for text in texts) > BYTES_MOST:
        raise InvalidArgument(
            f"all texts together are longer than {BYTES_MOST} bytes", field="items"
        )


def _texts(item: QuestionItem) -> tuple[str, ...]:
    return (item.prompt, *item.options, item.default or "")


def _check_room(call: Call, asker: str, holder: str, kind: QuestionKind) -> None:
    """Bound the open questions of one asker, and its share of those on one holder (row Q28)."""
    bounds, rows = call.settings.talk, call.ledger.questions
    if rows.count_open_questions(asker) >= bounds.open:
        raise LimitReached(
            f"cannot ask {holder}: {bounds.open} of your questions are open",
            rule="talk.open", most=bounds.open,
        )  # fmt: skip
    uuid = party_uuid(call.hive, holder)
    _check_inbox(call, uuid, holder, kind)
    if (
        kind is QuestionKind.ESCALATION
    ):  # escalations always find room here; the bound above applies to them too
        return
    waiting = rows.count_held(uuid)
    full = waiting >= bounds.asked
    if full or (2 * waiting >= bounds.asked and rows.count_held(uuid, asker)):
        whose = "it has" if full else "one of yours is among them, and it has"
        raise LimitReached(
            f"cannot ask {holder}: {whose} {waiting} open questions to answer",
            rule="talk.asked", most=bounds.asked,
        )  # fmt: skip


def _check_inbox(call: Call, uuid: str, holder: str, kind: QuestionKind) -> None:
    """Raise InboxFull when questions would fill the inbox: the rest is for other mail.

    Questions arrive as mail of the daemon, so mail of agents cannot block them.
    """
    count, size = call.ledger.messages.bytes_by_sender(uuid).get(DAEMON, (0, 0))
    share, limits = _SHARES[kind], call.settings.limits
    if count >= share * limits.inbox_count or size >= share * limits.inbox_bytes:
        raise InboxFull(
            f"cannot ask {holder}: its inbox is nearly full; it must read its mail first"
        )


def _climb_time(call: Call, severity: str, holder: str) -> float | None:
    """When it goes up a level; None when it waits on the operator."""
    if holder == OPERATOR:
        return None
    return call.now + float(getattr(call.settings.talk, Severity(severity).value))


def _post_letter(call: Call, question: Question, name: str) -> None:
    priority = MAIL_PRIORITY[Severity(question.severity)] if question.severity else PRIORITY
    if question.state is QuestionState.OPEN:
        hop = call.ledger.questions.hops(question.id)[-1]
        body = question_letters.question_letter(call, question, hop)
        letter = _send_mail(call, name, question.kind, body, priority)
        call.ledger.questions.set_letter(question.id, letter)
    else:
        body = question_letters.answer_letter(call, question)
        _send_mail(call, name, ANSWER, body, min(priority, PRIORITY))


def _send_mail(call: Call, name: str, kind: str, body: str, priority: int) -> str:
    """Send a message from the daemon; its id."""
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, relation=Relation.DAEMON,
        recipient=party_uuid(call.hive, name), recipient_name=name,
        body=body, kind=kind, priority=priority,
    )  # fmt: skip
    return deliver(call, letter).id
