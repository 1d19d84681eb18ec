"""Spans of the timeline, built from events of the audit log. Pure.

Each event is one or two facts: something begins, ends, or is told as a whole when it has ended. The
history holds the newest facts without a gap, and grows to older ones when a page asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from typing_extensions import override

from hive_core.web.event_history import Event, EventHistory, event_seq

TEXT_MOST: Final = 200
# The order in which a lane is drawn, and that of the filter.
KINDS: Final = ("work", "wait", "turn", "model", "tool", "run")
# Kinds of events that tell of a span.
EVENT_KINDS: Final = (
    "activity", "crash", "exit", "model", "record", "start", "tool",
)  # fmt: skip
# What ended this long after a window is not looked for: it counts as going on at its end.
_LATER: Final = 86_400.0
_ACTIVITIES: Final = {"running": "work", "blocked": "wait"}


class Edge(StrEnum):
    BEGIN = "begin"
    END = "end"
    WHOLE = "whole"


class Fact(NamedTuple):
    """One edge of a span. `key` separates concurrent spans; `began` is set for whole spans."""

    seq: int
    time: float
    edge: Edge
    kind: str
    agent: str
    name: str
    key: str = ""
    text: str = ""
    is_fault: bool = False
    began: float = 0.0


class TimelineSpan(NamedTuple):
    """`start` None: before what is known; `end` None: it goes on. `seq` is the newest event."""

    kind: str
    agent: str
    name: str
    start: float | None
    end: float | None
    text: str
    is_fault: bool
    seq: int


@dataclass(slots=True)
class History(EventHistory[Fact]):
    """The newest facts of spans."""

    @override
    def read(self, event: Event) -> Iterator[Fact]:
        return read_facts(event)

    def spans(self, start: float, end: float) -> list[TimelineSpan]:
        """What was going on at some time of the window, the newest first."""
        spans = collect_spans(fact for fact in self.facts if fact.time - end < _LATER)
        shown = [span for span in spans if _overlaps(span, start, end)]
        return sorted(shown, key=lambda span: (span.start or 0.0, span.seq), reverse=True)


def read_facts(event: Event) -> Iterator[Fact]:
    """What an event tells of spans."""
    kind, operation = event.get("kind"), event.get("operation")
    if kind == "activity":
        yield from _activity(event)
    elif kind == "start":
        yield _fact(event, Edge.BEGIN, "run", "target")
    elif kind in ("exit", "crash"):
        ended = _fact(event, Edge.END, "run", "target")
        yield ended._replace(text=_cut(event.get("reason")), is_fault=kind == "crash")
    elif kind == "model":
        yield _model_call(event)
    elif kind == "tool":
        yield _tool(event, Edge.END, "target", is_fault=True)
    elif kind == "record" and operation in ("use_tool", "end_tool"):
        edge = Edge.BEGIN if operation == "use_tool" else Edge.END
        is_fault = _fields(event).get("status", "ok") != "ok"
        yield _tool(event, edge, "caller", is_fault=is_fault)
    elif kind == "record" and operation == "keep_turn":
        yield _turn(event)


def collect_spans(facts: Iterable[Fact]) -> list[TimelineSpan]:
    """The spans of facts in the order of their numbers."""
    spans: list[TimelineSpan] = []
    begun: dict[tuple[str, str, str], Fact] = {}
    for fact in facts:
        place = (fact.agent, fact.kind, fact.key)
        if fact.edge is Edge.WHOLE:
            spans.append(_span(fact, fact.began, fact.time))
            continue
        first = begun.pop(place, None)
        if fact.edge is Edge.BEGIN:
            begun[place] = fact
        if first is not None or fact.edge is Edge.END:
            last = fact if fact.edge is Edge.END else first or fact
            spans.append(_span(last, first.time if first else None, fact.time))
    return spans + [_span(fact, fact.time, None) for fact in begun.values()]


def merge_times(spans: Iterable[TimelineSpan], start: float, end: float, steps: int) -> list[range]:
    """The steps of a window that the spans touch, as ranges without a gap between them."""
    size = (end - start) / steps
    merged: list[range] = []
    places = (
        (int((max(span.start or start, start) - start) / size),
         int((min(span.end or end, end) - start) / size))
        for span in spans
    )  # fmt: skip
    bounded = ((min(first, steps - 1), min(last, steps - 1)) for first, last in places)
    for first, last in sorted(bounded):
        if merged and first <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, last + 1))
        else:
            merged.append(range(first, last + 1))
    return merged


def _activity(event: Event) -> Iterator[Fact]:
    fields = _fields(event)
    for edge, name in ((Edge.END, "from"), (Edge.BEGIN, "to")):
        kind = _ACTIVITIES.get(str(fields.get(name)))
        if kind is not None:
            text = _cut(_join(fields.get("tasks")))
            yield _fact(event, edge, kind, "target")._replace(text=text)


def _model_call(event: Event) -> Fact:
    fields = _fields(event)
    text = (
        f"{fields.get('alias') or fields.get('model') or ''} {fields.get('tokens_in', 0)} in,"
        f" {fields.get('tokens_out', 0)} out"
    )
    milliseconds = fields.get("latency_ms")
    seconds = milliseconds / 1000 if isinstance(milliseconds, int | float) else 0.0
    is_fault = fields.get("status", "done") != "done"
    fact = _fact(event, Edge.WHOLE, "model", "caller")
    return fact._replace(text=_cut(text), is_fault=is_fault, began=fact.time - seconds)


def _turn(event: Event) -> Fact:
    fields = _fields(event)
    text = f"turn {fields.get('turn')} of {fields.get('conversation')}: {fields.get('status')}"
    is_fault = fields.get("status") in ("error", "limit")
    fact = _fact(event, Edge.WHOLE, "turn", "caller")
    began = fields.get("began")
    start = min(began, fact.time) if isinstance(began, int | float) else fact.time
    return fact._replace(text=_cut(text), is_fault=is_fault, began=start)


def _tool(event: Event, edge: Edge, party: str, *, is_fault: bool) -> Fact:
    fields = _fields(event)
    text = f"{fields.get('tool')} {fields.get('argument') or ''}"
    fact = _fact(event, edge, "tool", party)
    return fact._replace(key=str(fields.get("grant")), text=_cut(text), is_fault=is_fault)


def _fact(event: Event, edge: Edge, kind: str, party: str) -> Fact:
    time = event.get("time")
    return Fact(
        event_seq(event), time if isinstance(time, int | float) else 0.0, edge, kind,
        str(event.get(f"{party}_uuid")), str(event.get(party)),
    )  # fmt: skip


def _cut(text: object) -> str:
    return str(text or "")[:TEXT_MOST]


def _span(fact: Fact, start: float | None, end: float | None) -> TimelineSpan:
    return TimelineSpan(
        fact.kind, fact.agent, fact.name, start, end, fact.text, fact.is_fault, fact.seq
    )


def _overlaps(span: TimelineSpan, start: float, end: float) -> bool:
    return (span.start or 0.0) <= end and (span.end is None or span.end >= start)


def _fields(event: Event) -> Mapping[str, object]:
    fields = event.get("fields")
    return fields if isinstance(fields, dict) else {}


def _join(values: object) -> str:
    return " ".join(map(str, values)) if isinstance(values, list) else ""
