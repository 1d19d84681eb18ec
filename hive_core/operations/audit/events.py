"""The audit log for the operator: changes, refusals, and what happened by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import InvalidArgument
from hive_core.ledger.audit.event_heads import EventHead
from hive_core.ledger.audit.events import AuditLog
from hive_core.model.wire.record import DAEMON, OPERATOR, Event
from hive_core.operations.audit.event_filter import (
    EventFilter,
    EventScan,
    Gap,
    Kinds,
    event_page,
    find_gap,
    scan_events,
    scan_events_back,
)
from hive_core.operations.fields import Agent
from hive_core.operations.pages import REPLY_BYTES, Page
from hive_core.policy.rules import OPERATOR as BY_OPERATOR

_SPECIAL: Final = frozenset({OPERATOR, DAEMON})  # parties that are no agents
_AROUND_NAME: Final = 3  # bytes of a name in JSON besides its text


class ListEventsParams(Params):
    after: str | None = Field(
        None,
        max_length=34,
        pattern=r"^[0-9]{1,18}(@[0-9]{1,15})?$",
        description="Only events after this number; `next` of the previous page.",
    )
    before: str | None = Field(
        None,
        max_length=18,
        pattern=r"^[0-9]+$",
        description="Only events before this number, the newest first; then `next` is the `before`"
        " of the following page. Not with `after` or `last`, and not as a stream.",
    )
    last: int | None = Field(
        None, ge=0, description="Without `after`: only this number of the newest events."
    )
    limit: int = Field(500, ge=1, le=1000, description="Maximum number of events in a page.")
    kinds: Kinds = Field([])
    agents: list[Agent] = Field(
        [],
        max_length=64,
        description="Only events of these agents: names, or UUIDs of destroyed ones.",
    )
    since: float | None = Field(
        None, description="Only events from this time on, in seconds since 1970."
    )
    task: str = Field(
        "", max_length=64, pattern=r"^[A-Za-z0-9_-]*$", description="Only events about this task."
    )
    every: float | None = Field(
        None, ge=0.1, le=60,
        description="In a stream: seconds at least between two pages, once all events are out.",
    )  # fmt: skip
    mail_rate: int | None = Field(
        None, ge=1, le=1000,
        description="In a stream with `every`: about so many events of mail (`ack`, `publish`,"
        " `recv`, `send`, `wake`) a second at most, the newest; `skipped` tells of the others.",
    )  # fmt: skip


class EventRow(Result):
    seq: int = Field(description="Number of the event; later events have greater ones.")
    time: float = Field(description="Time, in seconds since 1970.")
    kind: str = Field(
        description="Kind of the event. `damaged`: somebody changed its row in the ledger, and"
        " hived cannot read an event out of it, as `reason` says; caller and target are unknown"
        " then, and `time` is that of the event before it."
    )
    caller: str = Field(description="Name of the caller at that time, `operator` or `daemon`.")
    caller_uuid: str = Field(description="UUID of the caller.")
    operation: str = Field(description="The operation.")
    target: str = Field(
        description="Name of the target at that time, whether such an agent exists or not: the"
        " agent against which the call was judged, or the one that it created; then `fields` has"
        " the former as `judged`. Empty: none."
    )
    target_uuid: str = Field(description="UUID of the target; its name if no such agent exists.")
    allowed: bool | None = Field(description="The decision; null: none was needed.")
    rule: str = Field(description="The part of the rule that decided.")
    reason: str = Field(description="The reason.")
    commit: str = Field(
        description="The commit of the tree that was used for the decision, or that the change"
        " made."
    )
    request: str = Field(description="The call.")
    digest: str = Field(
        description="Digest that chains the event to the previous one; empty for notes of agents."
    )
    fields: dict[str, object] = Field(description="Fields of this kind of event.")


class CountReadsParams(Params):
    caller: str = Field(max_length=64, description="Name or UUID of an agent, or `operator`.")


class ReadCount(Result):
    operation: str = Field(description="The operation.")
    count: int = Field(description="How often it was allowed since the ledger was created.")


class CallerReads(Result):
    caller_uuid: str = Field(description="UUID of the caller.")
    reads: list[ReadCount] = Field(description="The counts, by operation.")


class SkippedMail(Result):
    """Events of mail that a page does not list."""

    count: int = Field(description="Number of these events.")
    parties: list[str] = Field(
        description="Names of the agents that sent or got this mail, and `operator` or `daemon`."
    )


class EventRows(Page):
    events: list[EventRow] = Field(description="The events, the oldest first.")
    gap: Gap | None = Field(
        None, description="Range in which matching events were pruned; null: none."
    )
    skipped: SkippedMail | None = Field(
        None, description="Mail that was left out because of `mail_rate`; null: none."
    )


@operation(action="administer", allow=BY_OPERATOR)
def list_events(call: Call, params: ListEventsParams) -> EventRows | Wait[EventRows]:
    """List events of the audit log: changes, recorded calls, refusals, and what happened by itself.

    Called with `more`, events follow as they happen. Allowed reads are not listed but counted, see
    `count_reads`.
    """
    log = call.ledger.events
    wanted = EventFilter.of(call, params.kinds, params.agents, params.since)
    wanted = replace(wanted, task=params.task)
    if params.before is not None:
        return _page_before(call, params, wanted)
    number, _, sent = (params.after or "0").partition("@")
    every = params.every if call.more else None
    if params.mail_rate is not None and every is None:
        raise InvalidArgument("only in a stream with `every`", field="mail_rate")
    at = int(sent) / 1000 if sent and every is not None else None
    # Before anything is read. Not after a clock that was set back.
    if at is not None and every is not None and at <= call.now < (due := at + every):
        return Wait(frozenset(), None, EventRows(events=[], next=params.after), until=due)
    after = int(number)
    if params.after is None and params.last is not None:
        after = max(0, log.last - params.last)
    page = _page_after(call, params, wanted, after, _mail_most(call, params, at))
    begun = params.after is not None or params.last is None  # else `next` says where it follows
    is_whole = page.next is None or int(page.next.partition("@")[0]) >= log.last
    if call.more and begun and is_whole and not (page.events or page.gap):
        return Wait(frozenset({"events"}), None, page)
    return page


def _mail_most(call: Call, params: ListEventsParams, at: float | None) -> int | None:
    """How much mail may follow a page of this time, so that the rate holds; at most a second's."""
    if params.mail_rate is None:
        return None
    seconds = 1.0 if at is None or call.now < at else min(1.0, call.now - at)
    return max(1, round(params.mail_rate * seconds))


def _page_after(
    call: Call, params: ListEventsParams, wanted: EventFilter, after: int, mail: int | None
) -> EventRows:
    """Events after a number, the oldest first."""
    log = call.ledger.events
    scan = scan_events(log, wanted, after, params.limit, mail)
    skipped = _describe_skipped_mail(call, scan.skipped)
    room = REPLY_BYTES - sum(len(name) + _AROUND_NAME for name in skipped.parties)
    rows, end = event_page(log, scan, _row, _size, room)
    if scan.skipped and end < scan.skipped[-1].seq:  # the page is full: what follows is the next's
        skipped = _describe_skipped_mail(call, [head for head in scan.skipped if head.seq <= end])
    is_whole = end >= log.last
    paced = f"@{int(call.now * 1000)}" if call.more and params.every and is_whole else ""
    return EventRows(
        events=rows, gap=find_gap(log, wanted, after, end),
        next=None if is_whole and not call.more else f"{end}{paced}",
        skipped=skipped if skipped.count else None,
    )  # fmt: skip


def _describe_skipped_mail(call: Call, heads: Sequence[EventHead]) -> SkippedMail:
    names = call.hive.names
    uuids = {head.caller for head in heads} | {head.target for head in heads}
    parties = {names.get(uuid, uuid) for uuid in uuids if uuid in names or uuid in _SPECIAL}
    return SkippedMail(count=len(heads), parties=sorted(parties))


def _page_before(call: Call, params: ListEventsParams, wanted: EventFilter) -> EventRows:
    """Events before a number, the newest first."""
    if call.more or params.after is not None or params.last is not None:
        raise InvalidArgument("not with `after`, `last` or a stream", field="before")
    log = call.ledger.events
    scan = scan_events_back(log, wanted, int(params.before or 0), params.limit)
    rows, left = list[EventRow](), REPLY_BYTES
    for row in _rows_of(log, scan):
        left -= _size(row)
        if left < 0 and rows:
            return EventRows(events=rows, next=str(rows[-1].seq))
        rows.append(row)
    return EventRows(events=rows, next=str(scan.end) if scan.end else None)


def _rows_of(log: AuditLog, scan: EventScan) -> Iterator[EventRow]:
    """The rows of what was found, without what was deleted since its head was cached."""
    for head in scan.hits:
        event = log.get(head.seq)
        if event is not None:
            yield _row(event)


@operation(action="administer", allow=BY_OPERATOR)
def count_reads(call: Call, params: CountReadsParams) -> CallerReads:
    """Count the reads of a caller. Calls that change nothing are not in the audit log."""
    spec = call.hive.specs.get(params.caller)
    caller = params.caller if spec is None else spec.id
    counts = call.ledger.events.reads.reads_of(caller)
    rows = [ReadCount(operation=name, count=count) for name, count in sorted(counts.items())]
    return CallerReads(caller_uuid=caller, reads=rows)


def _size(row: EventRow) -> int:
    return 100 + len(row.model_dump_json().encode())


def _row(event: Event) -> EventRow:
    return EventRow(
        seq=event.seq, time=event.time, kind=event.kind,
        caller=str(event.fields.get("caller_name", event.caller)), caller_uuid=event.caller,
        operation=event.operation,
        target=str(event.fields.get("target_name", event.target)), target_uuid=event.target,
        allowed=event.allowed, rule=event.rule, reason=event.reason, commit=event.commit,
        request=event.request, digest=event.digest, fields=dict(event.fields),
    )  # fmt: skip
