"""Reminders: mail to oneself or to a descendant, at a time or after so many seconds (row H11).

They are kept by the daemon and come also while the agent is stopped or asleep: mail waits, and
wakes who is woken by mail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import REGISTRY, Mutation, Result, Whose, operation
from hive_core.broker.timers import due
from hive_core.errors import InboxFull, InvalidArgument, LimitReached, NotFound
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.wire.record import DAEMON, Relation
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.question import Reminder
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Agent, bounded_text
from hive_core.operations.notices import PRIORITY, post
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.operations.questions.letters import shorten
from hive_core.operations.questions.transitions import AGAIN, living_name
from hive_core.policy.decide import decide
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

YEARS: Final = 10 * 366 * 86_400.0
REMINDER: Final = "reminder"
_MOST: Final = 50


class RemindParams(Mutation):
    body: Annotated[str, Field(min_length=1), bounded_text(16 * 1024)] = Field(
        description="The text, at most 16 KiB."
    )
    at: float | None = Field(
        None, gt=0, description="When, in seconds since 1970, by the clock on the wall."
    )
    in_: float | None = Field(
        None, alias="in", gt=0, le=YEARS, description="Or after so many seconds from now."
    )
    to: Agent | None = Field(None, description="A descendant; the caller itself when absent.")


class RemindResult(Result):
    reminder: str = Field(description="Its id.")
    due: float = Field(description="When it comes, in seconds since 1970.")


class CancelReminderParams(Mutation):
    reminder: Annotated[str, Field(max_length=64)] = Field(description="The reminder.")


class CancelledReminder(Result):
    reminder: str = Field(description="Its id.")
    to: str = Field(description="Who would have got it.")


class ListRemindersParams(Paged):
    agent: Agent | None = Field(None, description="Who gets them; the caller itself when absent.")


class ReminderRow(Result):
    id: str = Field(description="The reminder.")
    to: str = Field(description="Who gets it.")
    by: str = Field(description="Who asked for it.")
    body: str = Field(description="The text, shortened to one line.")
    due: float = Field(description="When it comes, in seconds since 1970.")
    relative: bool = Field(description="Asked for in seconds: a clock that is set is no matter.")
    made: float = Field(description="Seconds since 1970.")


class ReminderRows(Page):
    reminders: list[ReminderRow] = Field(description="The next one first.")


def reminder_owner(call: Call, params: CancelReminderParams) -> str | None:
    """Whose it is: the name of who would get it."""
    found = call.ledger.reminders.get(params.reminder)
    if found is None:
        return None
    return THE_OPERATOR if found.owner == THE_OPERATOR else call.hive.name(found.owner)


@operation(action="schedule", allow=SELF | ANCESTOR | OPERATOR, target="to")
def remind(call: Call, params: RemindParams) -> Record[RemindResult]:
    """Have a message of kind `reminder` come later, to the caller or a descendant."""
    when_ = _due_time(call, params)
    owner = params.to or call.caller
    uuid = THE_OPERATOR if owner == THE_OPERATOR else call.hive.spec(owner).id
    most = call.settings.talk.reminders
    if call.ledger.reminders.count(call.uuid) >= most:
        reason = f"cannot remind {owner}: {most} reminders of yours wait"
        raise LimitReached(reason, rule="talk.reminders", most=most)
    relative = params.in_ is not None
    found = call.ledger.reminders.create(
        Reminder("", uuid, call.uuid, params.body, when_, relative, call.now)
    )
    topics = frozenset({reminder_topic(found.id)})
    return Record(RemindResult(reminder=found.id, due=when_), topics, {"reminder": found.id})


@operation(
    action="schedule",
    allow=SELF | ANCESTOR | OPERATOR,
    whose=Whose("reminder", "reminder", reminder_owner),
    preposition="of",
)
def cancel_reminder(call: Call, params: CancelReminderParams) -> Record[CancelledReminder]:
    """Take back a reminder; who would get it may, and its ancestors."""
    found = call.ledger.reminders.get(params.reminder)
    if found is None:
        raise NotFound(f"no reminder {params.reminder}")
    call.ledger.reminders.drop(found.id)
    gone = CancelledReminder(reminder=found.id, to=display_name(call, found.owner))
    return Record(gone, frozenset({reminder_topic(found.id)}), {"reminder": found.id})


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_reminders(call: Call, params: ListRemindersParams) -> ReminderRows:
    """List the reminders that an agent will get."""
    name = params.agent or call.caller
    uuid = THE_OPERATOR if name == THE_OPERATOR else call.hive.spec(name).id
    found = call.ledger.reminders.of(uuid)
    ids = [each.id for each in found]
    if params.after is not None and params.after not in ids:
        raise NotFound(f"no reminder {params.after[:64]}")
    start = 0 if params.after is None else ids.index(params.after) + 1
    page = found[start : start + params.most]
    fit = list(fitting(map(_row_of(call), page), lambda row: written(row.body)))
    more = start + len(fit) < len(found)
    return ReminderRows(reminders=fit, next=fit[-1].id if more and fit else None)


@due(at=lambda ledger: ledger.reminders.next_due(), topics=frozenset({"reminder"}))
def deliver_reminders(call: Call) -> Record[Result]:
    """Deliver those whose time has come, also those that came while no daemon ran."""
    topics = set[str]()
    for each in call.ledger.reminders.due(call.now, _MOST):
        topics |= _deliver(call, each)
    return Record(Result(), frozenset(topics), audited=True)


def reminder_topic(reminder: str) -> str:
    """Touched when it is made, comes, or is cancelled."""
    return f"reminder:{reminder}"


def _deliver(call: Call, found: Reminder) -> frozenset[str]:
    """Once, and away with it; who does not read gets it later."""
    name = living_name(call, found.owner)
    if name is None:
        call.ledger.reminders.drop(found.id)
        return frozenset({reminder_topic(found.id)})
    if why := _refusal(call, found, name):
        call.ledger.reminders.drop(found.id)
        _log_reminder(call, found, name, why)
        return frozenset({reminder_topic(found.id), "events"})
    by = display_name(call, found.setter)
    head = {"reminder": found.id, "by": by, "made": found.made, "due": found.due}
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=found.owner, recipient_name=name,
        relation=Relation.DAEMON, kind=REMINDER, priority=PRIORITY,
        body=f"{json.dumps(head, ensure_ascii=False)}\n{found.body}",
    )  # fmt: skip
    try:
        topics = post(call, letter)[1]
    except (InboxFull, NotFound):
        call.ledger.reminders.put_off(found.id, call.now + AGAIN)
        return frozenset({reminder_topic(found.id)})
    call.ledger.reminders.drop(found.id)
    _log_reminder(call, found, name)
    return topics | {reminder_topic(found.id), "events"}


def _refusal(call: Call, found: Reminder, name: str) -> str:
    """Why who set it may not remind this agent any more; empty: it may, or is itself no more."""
    setter = THE_OPERATOR if found.setter == THE_OPERATOR else call.hive.name(found.setter)
    if setter is None:
        return ""
    judged = decide(REGISTRY["remind"].allow, call.hive, setter, name)
    return "" if judged.allowed else f"{setter} may not remind {name}: {judged.reason}"


def _log_reminder(call: Call, found: Reminder, name: str, refused: str = "") -> None:
    fields = {
        "reminder": found.id, "target_name": name, "by": display_name(call, found.setter),
        "caller_name": DAEMON, "late": round(max(0.0, call.now - found.due), 3),
    }  # fmt: skip
    call.ledger.events.append(
        AuditEntry(
            REMINDER, DAEMON, "refuse" if refused else "come", found.owner,
            False if refused else None, "", refused, call.hive.commit, call.request, call.now,
            fields,
        )
    )  # fmt: skip


def _due_time(call: Call, params: RemindParams) -> float:
    """In seconds since 1970; exactly one of the two was given."""
    if (params.at is None) == (params.in_ is None):
        raise InvalidArgument("say when: `at`, or `in` so many seconds", field="at")
    if params.in_ is not None:
        return call.now + params.in_
    when_ = params.at or 0.0
    if not call.now < when_ <= call.now + YEARS:
        raise InvalidArgument("lies in the past, or ten years ahead", field="at")
    return when_


def _row_of(call: Call) -> Callable[[Reminder], ReminderRow]:
    def row(found: Reminder) -> ReminderRow:
        return ReminderRow(
            id=found.id, to=display_name(call, found.owner), by=display_name(call, found.setter),
            body=shorten(found.body), due=found.due, relative=found.relative, made=found.made,
        )  # fmt: skip

    return row
