"""The log, for the operator: what was done, what was refused, and what happened by itself."""

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
        None, max_length=18, pattern=r"^[0-9]+$",
        description="Only events behind this number; `next` of the page before.",
    )  # fmt: skip
    last: int | None = Field(None, ge=0, description="Without `after`: only the newest.")
    limit: int = Field(500, ge=1, le=1000, description="Events in a page at most.")
    kinds: Kinds = Field([])
    agents: list[Agent] = Field(
        [], max_length=64,
        description="Only events of these: names, or UUIDs of those who are no more.",
    )  # fmt: skip
    since: float | None = Field(None, description="Only events from this time on.")


class EventRow(Result):
    seq: int = Field(description="Its number; later ones are greater.")
    time: float = Field(description="Seconds since 1970.")
    kind: str = Field(description="What sort of event.")
    caller: str = Field(description="Name of who did it then, `operator` or `daemon`.")
    caller_uuid: str = Field(description="Its identity.")
    operation: str = Field(description="What was asked for.")
    target: str = Field(description="Name of on whom then, known or not; empty: on nobody.")
    target_uuid: str = Field(description="Its identity; the name when there is none such.")
    allowed: bool | None = Field(description="The decision; null where there was none.")
    rule: str = Field(description="The part of the rule that decided.")
    reason: str = Field(description="Why.")
    commit: str = Field(description="The tree that it was judged by, or that it made.")
    request: str = Field(description="The call.")
    digest: str = Field(
        description="Chains the event to the one before; empty for what agents note."
    )
    fields: dict[str, object] = Field(description="What is particular to the kind.")


class CountReadsParams(Params):
    caller: str = Field(max_length=64, description="Name or UUID of an agent, or `operator`.")


class ReadCount(Result):
    operation: str = Field(description="What was asked for.")
    count: int = Field(description="How often it was allowed, since the ledger was made.")


class ReadCounts(Result):
    caller_uuid: str = Field(description="Whose calls.")
    reads: list[ReadCount] = Field(description="By operation.")


class EventRows(Page):
    events: list[EventRow] = Field(description="The oldest first.")
    gap: Gap | None = Field(
        None, description="Where events that were asked for are not kept any more; null: nowhere."
    )


@operation(action="administer", allow=OPERATOR)
def list_events(call: Call, params: ListEventsParams) -> EventRows | Wait[EventRows]:
    """Read the log: every change, every recorded call, every refusal, and what happened by itself.

    Called with `more`, events follow as they happen. Allowed reads are not listed but counted, see
    `count_reads`.
    """
    log = call.ledger.events
    after = int(params.after or 0)
    if params.after is None and params.last is not None:
        after = max(0, log.last - params.last)
    wanted = EventFilter.of(call, params.kinds, params.agents, params.since)
    part = scan_events(log, wanted, after, params.limit)
    rows, end = event_page(log, part, _row, _size)
    whole = end >= log.last
    page = EventRows(
        events=rows, gap=find_gap(log, wanted, after, end),
        next=None if whole and not call.more else str(end),
    )  # fmt: skip
    if call.more and not rows and page.gap is None and whole:
        return Wait(frozenset({"events"}), None, page)
    return page


@operation(action="administer", allow=OPERATOR)
def count_reads(call: Call, params: CountReadsParams) -> ReadCounts:
    """Say how often somebody read something. What changed nothing stands in no log."""
    spec = call.hive.specs.get(params.caller)
    caller = params.caller if spec is None else spec.id
    found = call.ledger.events.reads.reads_of(caller)
    rows = [ReadCount(operation=name, count=count) for name, count in sorted(found.items())]
    return ReadCounts(caller_uuid=caller, reads=rows)


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
