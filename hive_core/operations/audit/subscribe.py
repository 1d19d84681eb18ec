"""The audit log for agents: events of themselves and their descendants, and their own notes.

An agent learns nothing about agents that it cannot see. It gets the events in which it or a
descendant had a part, without the names of agents that it cannot see, and only those fields of an
event that are about work.
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, NotFound
from hive_core.ledger.audit.notes import OWN
from hive_core.model.wire.record import DAEMON, OPERATOR, Event
from hive_core.operations.audit.event_filter import (
    EventFilter,
    Gap,
    Kinds,
    event_page,
    find_gap,
    scan_events,
)
from hive_core.operations.fields import Agent, also, bounded_text
from hive_core.operations.mail.inbox_quota import branch_id
from hive_core.operations.pages import Page, reply_bytes
from hive_core.policy.decide import visible_names
from hive_core.policy.rules import SELF

TEXT_MOST: Final = 4096
FIELDS_MOST: Final = 32
# Fields of an event that agents may see: about work, never about other agents.
_ABOUT_WORK: Final = (
    "task", "trace", "state", "status", "tool", "argument", "grant", "detail", "plan", "question",
    "percent", "code", "wanted", "text", "own",
)  # fmt: skip
_NOBODY: Final = ""


def _cursor_text(after: object) -> object:
    """A cursor is text everywhere; the `seq` of an event is accepted too."""
    return str(after) if type(after) is int else after


class SubscribeParams(Params):
    after: Annotated[str | None, BeforeValidator(_cursor_text)] = Field(
        None,
        max_length=18,
        pattern=r"^[0-9]+$",
        validation_alias=also("after", "since"),
        description="Only events after this number; 0 or absent: only events from now on. Also"
        " accepted as a number, and as `since`.",
    )
    kinds: Kinds = Field([])
    agents: list[Agent] = Field(
        [], max_length=64, description="Only events of these agents: the caller or its descendants."
    )
    limit: int = Field(200, ge=1, le=1000, description="Maximum number of events in a page.")


class VisibleEvent(Result):
    seq: int = Field(
        description="Number of the event in the whole log; events that the caller may not see"
        " leave gaps."
    )
    time: float = Field(description="Time, in seconds since 1970.")
    kind: str = Field(description="Kind of the event; that of a note begins with `own.`.")
    caller: str = Field(description="Name of the caller; empty when the reader cannot see it.")
    operation: str = Field(description="The operation, or what happened.")
    target: str = Field(
        description="Name of the target; empty: none, or one that the reader cannot see."
    )
    allowed: bool | None = Field(description="The decision; null: none was needed.")
    reason: str = Field(
        description="The reason; empty when an agent had a part that the reader cannot see."
    )
    fields: dict[str, object] = Field(description="Fields of this kind of event.")


class VisibleEventPage(Page):
    events: list[VisibleEvent] = Field(description="The events, the oldest first.")
    gap: Gap | None = Field(
        None, description="Range in which matching events were pruned; null: none."
    )


class NoteEventParams(Mutation):
    kind: str = Field(
        pattern=r"^(own\.)?[a-z][a-z0-9_.-]{0,40}$",
        description="Kind of the note, stored as `own.KIND`.",
    )
    text: Annotated[str, bounded_text(TEXT_MOST)] = Field("", description="Text of the note.")
    fields: dict[str, str | int | float | bool] = Field(
        {},
        max_length=FIELDS_MOST,
        description=f"More, for programs; at most {TEXT_MOST} bytes of JSON.",
    )
    task: str = Field("", max_length=64, description="The task that it is about; empty: none.")


class Noted(Result):
    kind: str = Field(description="Kind as it is stored in the log.")


@operation(action="receive", allow=SELF)
def subscribe(call: Call, params: SubscribeParams) -> VisibleEventPage | Wait[VisibleEventPage]:
    """Follow the events of the caller and its descendants, in order and without gaps.

    Called with `more`, the first answer has the number from which it follows. A caller that
    continues with the last `next` that it got misses no event; `gap` tells which events were pruned
    meanwhile.
    """
    log, now = call.ledger.events, call.ledger.events.last
    wanted = _filter(call, params)
    after = int(params.after or 0)
    if after == 0 and now:
        return VisibleEventPage(events=[], next=str(now))
    scan = scan_events(log, wanted, after, params.limit)
    shown = _EventView(call)
    rows, end = event_page(log, scan, shown.row, _size)
    page = VisibleEventPage(events=rows, gap=find_gap(log, wanted, after, end), next=str(end))
    if call.more and not rows and page.gap is None and end >= now:
        return Wait(frozenset({"events"}), None, page)
    return page


@operation(action="work", allow=SELF)
def note_event(call: Call, params: NoteEventParams) -> Record[Noted]:
    """Write a note into the audit log, as the caller. Only notes have kinds that begin with `own.`.

    A program reports its own work with notes, such as a step of a pipeline. The caller's ancestors
    and the operator can follow them with `subscribe`; a note is not sent as a message. The total
    size of notes is limited: the oldest notes of the same agent are deleted first, and `gap` tells
    readers.
    """
    kind = OWN + params.kind.removeprefix(OWN)
    if params.task and not _is_own_task(call, params.task):
        raise NotFound(f"no task {params.task} of yours")
    if len(json.dumps(params.fields)) > TEXT_MOST:
        raise InvalidArgument(f"fields are longer than {TEXT_MOST} bytes of JSON", field="fields")
    call.ledger.events.notes.enter(call.uuid, branch_id(call))
    about: dict[str, object] = {"own": params.fields, "text": params.text}
    if params.task:
        about["task"] = params.task
    return Record(Noted(kind=kind), fields=about, kind=kind)


def _is_own_task(call: Call, task: str) -> bool:
    row = call.ledger.tasks.get(task)
    return row is not None and row.assignee == call.uuid


def _filter(call: Call, params: SubscribeParams) -> EventFilter:
    """The filter of a caller.

    All parties for the operator, itself and its descendants for an agent.
    """
    if call.by_operator:
        return EventFilter.of(call, params.kinds, params.agents)
    below = call.hive.topology.subtree(call.caller)
    if strange := set(params.agents) - set(below):
        raise NotFound(f"no such agent below you: {min(strange)}")
    names = params.agents or below
    return EventFilter.of(call, params.kinds, names)


class _EventView:
    """Events as one reader may see them now."""

    def __init__(self, call: Call) -> None:
        hive = call.hive
        self._all = call.by_operator
        self._names = {hive.spec(name).id: name for name in visible_names(hive, call.caller)}
        self._names |= {OPERATOR: OPERATOR, DAEMON: DAEMON}

    def row(self, event: Event) -> VisibleEvent:
        caller, target = self._name(event.caller), self._name(event.target)
        whole = self._all or (bool(caller) and bool(target or not event.target))
        fields = event.fields if self._all else {
            key: event.fields[key] for key in _ABOUT_WORK if key in event.fields
        }  # fmt: skip
        return VisibleEvent(
            seq=event.seq, time=event.time, kind=event.kind, caller=caller,
            operation=event.operation, target=target, allowed=event.allowed,
            reason=event.reason if whole else "", fields=dict(fields),
        )  # fmt: skip

    def _name(self, party: str) -> str:
        return self._names.get(party, party if self._all else _NOBODY)


def _size(row: VisibleEvent) -> int:
    return reply_bytes(row.reason, str(row.fields))
