"""The log, for agents: what happens to themselves and below them; and what they note in it.

What an agent reads here tells it nothing about anybody whom it cannot see: of events it gets those
that it or a descendant had a part in, without the names of others that it does not see, and of
what is particular to a kind only what is about work.
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
from hive_core.operations.pages import Page, written
from hive_core.policy.decide import visible_names
from hive_core.policy.rules import SELF

TEXT_MOST: Final = 4096
FIELDS_MOST: Final = 32
# Of the fields of an event: what work it was, never who else.
_ABOUT_WORK: Final = (
    "task", "trace", "state", "status", "tool", "argument", "grant", "detail", "plan", "question",
    "percent", "code", "wanted", "text", "own",
)  # fmt: skip
_NOBODY: Final = ""


def _cursor_text(after: object) -> object:
    """A cursor is text as everywhere; the `seq` of an event is one too."""
    return str(after) if type(after) is int else after


class SubscribeParams(Params):
    after: Annotated[str | None, BeforeValidator(_cursor_text)] = Field(
        None, max_length=18, pattern=r"^[0-9]+$", validation_alias=also("after", "since"),
        description="Only events behind this number; 0 or absent: only what comes from now on."
        " Also a number, and also `since`.",
    )  # fmt: skip
    kinds: Kinds = Field([])
    agents: list[Agent] = Field(
        [], max_length=64, description="Only events of these: the caller or descendants of it."
    )
    limit: int = Field(200, ge=1, le=1000, description="Events in a page at most.")


class VisibleEvent(Result):
    seq: int = Field(description="Its number in the whole log: others in between are not shown.")
    time: float = Field(description="Seconds since 1970.")
    kind: str = Field(description="What sort of event; what agents note begins with `own.`.")
    caller: str = Field(description="Who did it; empty when the reader does not see that one.")
    operation: str = Field(description="What was asked for, or what happened.")
    target: str = Field(description="On whom; empty likewise, and for nobody.")
    allowed: bool | None = Field(description="The decision; null where there was none.")
    reason: str = Field(description="Why; empty where somebody unseen had a part in it.")
    fields: dict[str, object] = Field(description="What is particular to the kind.")


class VisibleEventPage(Page):
    events: list[VisibleEvent] = Field(description="The oldest first.")
    gap: Gap | None = Field(
        None, description="Where events that were asked for are not kept any more; null: nowhere."
    )


class NoteEventParams(Mutation):
    kind: str = Field(
        pattern=r"^(own\.)?[a-z][a-z0-9_.-]{0,40}$",
        description="A word for what it is; it stands in the log behind `own.`.",
    )
    text: Annotated[str, bounded_text(TEXT_MOST)] = Field("", description="In words.")
    fields: dict[str, str | int | float | bool] = Field(
        {},
        max_length=FIELDS_MOST,
        description=f"More, for programs; at most {TEXT_MOST} bytes of JSON.",
    )
    task: str = Field("", max_length=64, description="For which task; empty: for none.")


class Noted(Result):
    kind: str = Field(description="The kind as it stands in the log.")


@operation(action="receive", allow=SELF)
def subscribe(call: Call, params: SubscribeParams) -> VisibleEventPage | Wait[VisibleEventPage]:
    """Follow what happens to the caller and its descendants, in order and without gaps.

    Called with `more`, the first answer says from which number on it is told; who comes back with
    the last `next` that it got misses nothing, and is told with `gap` what was pruned meanwhile.
    """
    log, now = call.ledger.events, call.ledger.events.last
    wanted = _filter(call, params)
    after = int(params.after or 0)
    if after == 0 and now:
        return VisibleEventPage(events=[], next=str(now))
    part = scan_events(log, wanted, after, params.limit)
    shown = _EventView(call)
    rows, end = event_page(log, part, shown.row, _size)
    page = VisibleEventPage(events=rows, gap=find_gap(log, wanted, after, end), next=str(end))
    if call.more and not rows and page.gap is None and end >= now:
        return Wait(frozenset({"events"}), None, page)
    return page


@operation(action="work", allow=SELF)
def note_event(call: Call, params: NoteEventParams) -> Record[Noted]:
    """Note something in the log, as the caller. Its kind begins with `own.`, and no other's does.

    For what a program reports of its own work, such as a step of a pipeline. The caller's
    ancestors and the operator can follow it; it is no message to anybody. Notes are bounded in
    bytes: older ones of the same agent go first, and who reads is told of it.
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
    found = call.ledger.tasks.get(task)
    return found is not None and found.assignee == call.uuid


def _filter(call: Call, params: SubscribeParams) -> EventFilter:
    """The operator sees every party; an agent itself and what is below it."""
    if call.by_operator:
        return EventFilter.of(call, params.kinds, params.agents)
    below = call.hive.topology.subtree(call.caller)
    if strange := set(params.agents) - set(below):
        raise NotFound(f"no such agent below you: {min(strange)}")
    names = params.agents or below
    return EventFilter.of(call, params.kinds, names)


class _EventView:
    """Events as one reader may see them at this moment."""

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
    return written(row.reason, str(row.fields))
