"""The audit log for the operator: changes, refusals, and what happened by itself."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.wire.record import Event
from hive_core.operations.audit.event_filter import (
    EventFilter,
    Gap,
    Kinds,
    event_page,
    find_gap,
    scan_events,
)
from hive_core.operations.fields import Agent
from hive_core.operations.pages import Page
from hive_core.policy.rules import OPERATOR


class ListEventsParams(Params):
    after: str | None = Field(
        None,
        max_length=18,
        pattern=r"^[0-9]+$",
        description="Only events after this number; `next` of the previous page.",
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


class EventRow(Result):
    seq: int = Field(description="Number of the event; later events have greater ones.")
    time: float = Field(description="Time, in seconds since 1970.")
    kind: str = Field(description="Kind of the event.")
    caller: str = Field(description="Name of the caller at that time, `operator` or `daemon`.")
    caller_uuid: str = Field(description="UUID of the caller.")
    operation: str = Field(description="The operation.")
    target: str = Field(
        description="Name of the target at that time, whether such an agent exists or not; empty:"
        " none."
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


class EventRows(Page):
    events: list[EventRow] = Field(description="The events, the oldest first.")
    gap: Gap | None = Field(
        None, description="Range in which matching events were pruned; null: none."
    )


@operation(action="administer", allow=OPERATOR)
def list_events(call: Call, params: ListEventsParams) -> EventRows | Wait[EventRows]:
    """List events of the audit log: changes, recorded calls, refusals, and what happened by itself.

    Called with `more`, events follow as they happen. Allowed reads are not listed but counted, see
    `count_reads`.
    """
    log = call.ledger.events
    after = int(params.after or 0)
    if params.after is None and params.last is not None:
        after = max(0, log.last - params.last)
    wanted = EventFilter.of(call, params.kinds, params.agents, params.since)
    scan = scan_events(log, wanted, after, params.limit)
    rows, end = event_page(log, scan, _row, _size)
    whole = end >= log.last
    page = EventRows(
        events=rows, gap=find_gap(log, wanted, after, end),
        next=None if whole and not call.more else str(end),
    )  # fmt: skip
    if call.more and not rows and page.gap is None and whole:
        return Wait(frozenset({"events"}), None, page)
    return page


@operation(action="administer", allow=OPERATOR)
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
