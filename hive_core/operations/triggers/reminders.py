"""Reminders: mail to the caller or a descendant, at a time or after some seconds (row H11).

The daemon delivers them also while the agent is stopped or asleep: the mail waits, and wakes an
agent with `wakes` in its spec.
"""

from __future__ import annotations

import json
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
from hive_core.operations.notices import PRIORITY, deliver
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
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
        None, gt=0, description="When, in seconds since 1970, by the host's clock."
    )
    in_: float | None = Field(None, alias="in", gt=0, le=YEARS, description="Or seconds from now.")
    to: Agent | None = Field(None, description="A descendant; the caller itself when absent.")


class RemindResult(Result):
    reminder: str = Field(description="The id of the reminder.")
    due: float = Field(description="When it is delivered, in seconds since 1970.")


class CancelReminderParams(Mutation):
    reminder: Annotated[str, Field(max_length=64)] = Field(description="The id of the reminder.")


class CancelledReminder(Result):
    reminder: str = Field(description="The id of the reminder.")
    to: str = Field(description="The agent that would have received it.")


class ListRemindersParams(Paged):
    agent: Agent | None = Field(
        None,
        description="The agent that gets them; when absent the caller itself, and for the operator"
        " every agent and the operator.",
    )


class ReminderRow(Result):
    id: str = Field(description="The id of the reminder.")
    to: str = Field(description="The agent that gets it.")
    by: str = Field(description="The agent that set it.")
    body: str = Field(description="The text, shortened to one line.")
    due: float = Field(description="When it is delivered, in seconds since 1970.")
    relative: bool = Field(
        description="Whether it was set in seconds from now, so that a change of the clock does"
        " not affect it."
    )
    made: float = Field(description="When it was set, in seconds since 1970.")


class ReminderRows(Page):
    reminders: list[ReminderRow] = Field(description="The reminders, the next one first.")


def reminder_owner(call: Call, params: CancelReminderParams) -> str | None:
    """The name of the agent that a reminder is for."""
    reminder = call.ledger.reminders.get(params.reminder)
    if reminder is None:
        return None
    return THE_OPERATOR if reminder.owner == THE_OPERATOR else call.hive.name(reminder.owner)


@operation(action="schedule", allow=SELF | ANCESTOR | OPERATOR, target="to")
def remind(call: Call, params: RemindParams) -> Record[RemindResult]:
    """Send a message of kind `reminder` later, to the caller or a descendant."""
    due_at = _due_time(call, params)
    owner = params.to or call.caller
    uuid = THE_OPERATOR if owner == THE_OPERATOR else call.hive.spec(owner).id
    most = call.settings.talk.reminders
    if call.ledger.reminders.count(call.uuid) >= most:
        reason = f"cannot remind {owner}: {most} reminders of yours wait"
        raise LimitReached(reason, rule="talk.reminders", most=most)
    relative = params.in_ is not None
    reminder = call.ledger.reminders.create(
        Reminder("", uuid, call.uuid, params.body, due_at, relative, call.now)
    )
    call.notify(reminder_topic(reminder.id))
    result = RemindResult(reminder=reminder.id, due=due_at)
    return Record(result, fields={"reminder": reminder.id})


@operation(
    action="schedule",
    allow=SELF | ANCESTOR | OPERATOR,
    whose=Whose("reminder", "reminder", reminder_owner),
    preposition="of",
    destructive=True,
    idempotent=True,
)
def cancel_reminder(call: Call, params: CancelReminderParams) -> Record[CancelledReminder]:
    """Cancel a reminder. Allowed to the agent that it is for, and to its ancestors."""
    reminder = call.ledger.reminders.get(params.reminder)
    if reminder is None:
        raise NotFound(f"no reminder {params.reminder}")
    call.ledger.reminders.drop(reminder.id)
    call.notify(reminder_topic(reminder.id))
    result = CancelledReminder(reminder=reminder.id, to=display_name(call, reminder.owner))
    return Record(result, fields={"reminder": reminder.id})


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_reminders(call: Call, params: ListRemindersParams) -> ReminderRows:
    """List the reminders that an agent will get."""
    owner, last = _owner_of_list(call, params), None
    if params.after is not None:
        last = call.ledger.reminders.get(params.after)
        if last is None or owner not in (None, last.owner):
            raise NotFound(f"no reminder {params.after[:64]}")
    reminders = call.ledger.reminders.page(owner, last, params.most + 1)
    rows = (_reminder_row(call, row) for row in reminders[: params.most])
    page = list(take_fitting(rows, lambda row: reply_bytes(row.body)))
    more = len(page) < len(reminders)
    return ReminderRows(reminders=page, next=page[-1].id if more and page else None)


def _owner_of_list(call: Call, params: ListRemindersParams) -> str | None:
    """Whose reminders are listed; None: those of all."""
    if params.agent is None and call.caller == THE_OPERATOR:
        return None
    name = params.agent or call.caller
    return THE_OPERATOR if name == THE_OPERATOR else call.hive.spec(name).id


@due(at=lambda ledger: ledger.reminders.next_due(), topics=frozenset({"reminder"}))
def deliver_reminders(call: Call) -> Record[Result]:
    """Deliver the due reminders, also those that became due while no daemon ran."""
    for reminder in call.ledger.reminders.due(call.now, _MOST):
        _deliver(call, reminder)
    return Record(Result(), audited=True)


def reminder_topic(reminder: str) -> str:
    """The topic that is touched when a reminder is set, delivered or cancelled."""
    return f"reminder:{reminder}"


def _deliver(call: Call, reminder: Reminder) -> None:
    """Deliver a reminder once and delete it; retry later when the inbox is full."""
    call.notify(reminder_topic(reminder.id))
    name = living_name(call, reminder.owner)
    if name is None:
        call.ledger.reminders.drop(reminder.id)
        return
    if why := _refusal(call, reminder, name):
        call.ledger.reminders.drop(reminder.id)
        _log_reminder(call, reminder, name, why)
        return
    by = display_name(call, reminder.setter)
    head = {"reminder": reminder.id, "by": by, "made": reminder.made, "due": reminder.due}
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=reminder.owner, recipient_name=name,
        relation=Relation.DAEMON, kind=REMINDER, priority=PRIORITY,
        body=f"{json.dumps(head, ensure_ascii=False)}\n{reminder.body}",
    )  # fmt: skip
    try:
        deliver(call, letter)
    except (InboxFull, NotFound):
        call.ledger.reminders.put_off(reminder.id, call.now + AGAIN)
        return
    call.ledger.reminders.drop(reminder.id)
    _log_reminder(call, reminder, name)


def _refusal(call: Call, reminder: Reminder, name: str) -> str:
    """Why the setter may no longer remind this agent; empty: it may, or was destroyed."""
    setter = THE_OPERATOR if reminder.setter == THE_OPERATOR else call.hive.name(reminder.setter)
    if setter is None:
        return ""
    decision = decide(REGISTRY["remind"].allow, call.hive, setter, name)
    return "" if decision.allowed else f"{setter} may not remind {name}: {decision.reason}"


def _log_reminder(call: Call, reminder: Reminder, name: str, refused: str = "") -> None:
    fields = {
        "reminder": reminder.id, "target_name": name, "by": display_name(call, reminder.setter),
        "caller_name": DAEMON, "late": round(max(0.0, call.now - reminder.due), 3),
    }  # fmt: skip
    call.ledger.events.append(
        AuditEntry(
            REMINDER, DAEMON, "refuse" if refused else "come", reminder.owner,
            False if refused else None, "", refused, call.hive.commit, call.request, call.now,
            fields,
        )
    )  # fmt: skip
    call.notify("events")


def _due_time(call: Call, params: RemindParams) -> float:
    """The time in seconds since 1970; InvalidArgument unless exactly one of the two is set."""
    if (params.at is None) == (params.in_ is None):
        raise InvalidArgument("set either `at`, or `in` (seconds from now)", field="at")
    if params.in_ is not None:
        return call.now + params.in_
    due_at = params.at or 0.0
    if not call.now < due_at <= call.now + YEARS:
        raise InvalidArgument("lies in the past, or more than ten years ahead", field="at")
    return due_at


def _reminder_row(call: Call, reminder: Reminder) -> ReminderRow:
    return ReminderRow(
        id=reminder.id, to=display_name(call, reminder.owner),
        by=display_name(call, reminder.setter), body=shorten(reminder.body), due=reminder.due,
        relative=reminder.relative, made=reminder.made,
    )  # fmt: skip
