"""The timeline: lanes of agents with what they did when, and the same as a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from hive_core.services.replies import rows_of
from hive_core.web import drawing
from hive_core.web.event_history import EventHistory
from hive_core.web.timeline import EVENT_KINDS, KINDS, TimelineSpan, merge_times
from hive_core.web.visit import Fields, Visit

WINDOWS: Final[Mapping[str, int]] = {"10m": 600, "1h": 3600, "6h": 21_600, "1d": 86_400}
WORDS: Final[Mapping[str, str]] = {
    "work": "works on a task", "wait": "waits", "turn": "turn", "model": "model call",
    "tool": "tool call", "run": "machine runs",
}  # fmt: skip
LANES_MOST: Final = 40
_ROWS_MOST: Final = 200
_PAGES_MOST: Final = 8  # that one request reads of older events
_EVENTS: Final = 1000
_STEPS: Final = 500  # that a lane is drawn in
_NAME_MOST: Final = 128
_DIGITS_MOST: Final = 12


@dataclass(frozen=True, slots=True)
class TimelineView:
    """What of the timeline is shown, as it stands in the address. `until` 0: until now."""

    window: str = "1h"
    until: int = 0
    under: str = ""
    show: str = ""
    lanes: int = 0
    rows: int = 0

    @property
    def seconds(self) -> int:
        return WINDOWS[self.window]


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    drawing: Markup
    summary: str


async def show_timeline(visit: Visit) -> Response:
    """The view of the address."""
    view = await _read_view(visit)
    return visit.page("timeline", "Timeline", **_values(visit, view))


async def show_rows(visit: Visit) -> Response:
    """The lanes and rows alone, to refresh a page."""
    view, hub = await _read_view(visit), visit.web.hub
    basis = (hub.history.version, hub.agents.shape)
    return visit.rows("timeline_rows", basis, lambda: _values(visit, view))


def parse_view(query: Fields) -> TimelineView:
    """Parse the view from an address; unknown parts are ignored."""
    window, show = query.get("window", "1h"), query.get("show", "")
    return TimelineView(
        window if window in WINDOWS else "1h", _number(query.get("until", "")),
        query.get("under", "").strip()[:_NAME_MOST], show if show in KINDS else "",
        _number(query.get("lanes", "")), _number(query.get("rows", "")),
    )  # fmt: skip


def view_address(view: TimelineView, **changes: object) -> str:
    """The address of a view, with some of it changed. Another time begins at its first rows."""
    values = {
        "window": view.window, "until": view.until, "under": view.under, "show": view.show,
        "lanes": view.lanes, "rows": view.rows, **changes,
    }  # fmt: skip
    if values["window"] == "1h":
        values["window"] = ""
    query = urlencode({key: value for key, value in values.items() if value})
    return f"/timeline?{query}" if query else "/timeline"


async def _read_view(visit: Visit) -> TimelineView:
    """The view of the address; what happened in its time has been read."""
    view = parse_view(visit.query)
    await read_back(visit, visit.web.hub.history, _window(visit, view)[0], EVENT_KINDS)
    return view


def _window(visit: Visit, view: TimelineView) -> tuple[float, float]:
    end = float(view.until) or visit.web.clock()
    return end - view.seconds, end


def _values(visit: Visit, view: TimelineView) -> dict[str, object]:
    history = visit.web.hub.history
    start, end = _window(visit, view)
    spans = _select(visit, view, history.spans(start, end))
    lanes = _lanes(visit, spans, start, end)
    return {
        "view": view, "start": start, "end": end, "words": WORDS, "kinds": KINDS,
        "lanes": lanes[view.lanes : view.lanes + LANES_MOST], "lane_count": len(lanes),
        "spans": list(islice(spans, view.rows, view.rows + _ROWS_MOST)), "span_count": len(spans),
        "unread": None if history.reaches(start) else history.oldest,
        "links": _links(view, end, len(lanes), len(spans)),
    }  # fmt: skip


async def read_back(
    visit: Visit, history: EventHistory[Any], start: float, kinds: Sequence[str]
) -> None:
    """Read older events of these kinds until the history reaches `start`, within bounds."""
    if history.first is None:
        history.take(
            rows_of(await visit.read("list_events", last=_EVENTS, limit=_EVENTS), "events")
        )
    for _ in range(_PAGES_MOST):
        first = history.first
        if first is None or history.reaches(start) or history.is_full:
            return
        reply = await visit.read("list_events", before=str(first), limit=_EVENTS, kinds=list(kinds))
        if history.first == first:  # else another page has read the same meanwhile
            history.prepend(rows_of(reply, "events"), int(str(reply.get("next") or 0)))


def _select(visit: Visit, view: TimelineView, spans: Sequence[TimelineSpan]) -> list[TimelineSpan]:
    """The spans of the branch and the kind of the view."""
    if view.under:
        agents = visit.web.hub.agents
        below = set(agents.below(view.under)) if agents.get(view.under) else {view.under}
        spans = [span for span in spans if span.name in below]
    return [span for span in spans if not view.show or span.kind == view.show]


def _lanes(visit: Visit, spans: Sequence[TimelineSpan], start: float, end: float) -> list[Lane]:
    """A lane for each agent that did something, in the order of the tree."""
    by_agent: dict[str, list[TimelineSpan]] = defaultdict(list)
    for span in spans:
        by_agent[span.agent].append(span)
    order = {name: at for at, name in enumerate(visit.web.hub.agents.order())}
    listed = sorted(
        by_agent.values(), key=lambda own: (order.get(own[0].name, len(order)), own[0].name)
    )
    return [_lane(own, start, end) for own in listed]


def _lane(spans: Sequence[TimelineSpan], start: float, end: float) -> Lane:
    counts = Counter(span.kind for span in spans)
    faults = sum(span.is_fault for span in spans)
    summary = ", ".join(f"{WORDS[kind]} {counts[kind]}" for kind in KINDS if counts[kind])
    if faults:
        summary += f", failed {faults}"
    strips = [
        (f"t-{kind}", merge_times((s for s in spans if s.kind == kind), start, end, _STEPS))
        for kind in KINDS
    ]
    ends = (span._replace(start=span.end) for span in spans if span.is_fault)
    strips.append(("t-fault", merge_times(ends, start, end, _STEPS)))
    title = f"{spans[0].name}: {summary}"
    return Lane(spans[0].name, drawing.lane(strips, title, _STEPS), summary)


def _links(view: TimelineView, end: float, lanes: int, rows: int) -> dict[str, str]:
    """The addresses of other views; empty where there is none."""
    names = list(WINDOWS)
    at = names.index(view.window)
    later = int(end) + view.seconds
    other = {"lanes": 0, "rows": 0}
    return {
        "shorter": view_address(view, window=names[at - 1], **other) if at else "",
        "longer": view_address(view, window=names[at + 1], **other) if names[at + 1 :] else "",
        "earlier": view_address(view, until=int(end) - view.seconds, **other),
        "later": view_address(view, until=later, **other) if view.until else "",
        "now": view_address(view, until=0, **other) if view.until else "",
        "lanes": view_address(view, lanes=view.lanes + LANES_MOST)
        if lanes > view.lanes + LANES_MOST else "",
        "rows": view_address(view, rows=view.rows + _ROWS_MOST)
        if rows > view.rows + _ROWS_MOST else "",
    }  # fmt: skip


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _DIGITS_MOST else 0
