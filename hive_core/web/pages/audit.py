"""The audit log, the newest event first, and why a call is decided as it is."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from hive_core.errors import InvalidArgument
from hive_core.services.replies import rows_of
from hive_core.varlink import Message
from hive_core.web.live_rows import event_row
from hive_core.web.visit import Fields, Visit, refuse_field

ROWS: Final = 100
# Pages of events that one request looks through for the rows of an account.
_PAGES_MOST: Final = 8
_PAGE: Final = 500
_CHECK_SECONDS: Final = 1.0
_DIGITS_MOST: Final = 18
_TIMES: Final = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")
FILTERS: Final = ("kinds", "agents", "task", "account", "from", "until")


@dataclass(frozen=True, slots=True)
class AuditView:
    """What of the log is shown, as it stands in the address. Times are seconds since 1970."""

    kinds: Sequence[str]
    agents: Sequence[str]
    task: str
    account: str
    start: float | None
    end: float | None
    before: int | None

    @property
    def parameters(self) -> dict[str, object]:
        """What hived itself selects by."""
        return {"kinds": list(self.kinds), "agents": list(self.agents), "task": self.task}


@dataclass(frozen=True, slots=True)
class AuditPage:
    """`older` is the number before which further rows may be; None: there are none."""

    events: Sequence[Message]
    older: int | None


async def show_audit(visit: Visit) -> Response:
    """The events of the view; filters are words in the address."""
    last = await _last_event(visit)
    chain = visit.web.chain
    await chain.refresh(visit.login, _CHECK_SECONDS)
    page, fault = AuditPage((), None), ""
    try:
        page = await read_events(visit, parse_view(visit.query), last)
    except InvalidArgument as error:
        fault = str(error)
    is_whole = not any(visit.query.get(key) for key in (*FILTERS, "before"))
    return visit.page(
        "audit", "Audit", events=[event_row(event) for event in page.events], fault=fault,
        is_whole=is_whole, older=_older(visit.query, page.older), last=last,
        chain=chain.state, checked=chain.reached if chain.is_running else None,
    )  # fmt: skip


async def show_why(visit: Visit) -> Response:
    """Whether a caller may do something to a target now, and by which rule."""
    values = {key: visit.query.get(key, "").strip() for key in ("caller", "operation", "target")}
    reply: Message = {}
    if values["caller"] and values["operation"]:
        reply = await visit.try_read(
            "why", **{key: value for key, value in values.items() if value}
        )
    return visit.page("why", "Why", asked=values, reply=reply)


def parse_view(query: Fields) -> AuditView:
    """The view of an address. InvalidArgument: a time or a number that is none."""
    kinds, agents = (query.get(key, "").replace(",", " ").split() for key in ("kinds", "agents"))
    before = query.get("before", "")
    if before and not (before.isascii() and before.isdecimal() and len(before) <= _DIGITS_MOST):
        refuse_field("before", "is not the number of an event")
    return AuditView(
        kinds, agents, query.get("task", "").strip(), query.get("account", "").strip(),
        _parse_time(query, "from"), _parse_time(query, "until"), int(before) if before else None,
    )  # fmt: skip


async def read_events(visit: Visit, view: AuditView, last: int) -> AuditPage:
    """The rows of the view, the newest first."""
    top = last + 1 if view.before is None else min(view.before, last + 1)
    if view.end is not None:
        top = min(top, await _first_event_from(visit, view.end, last))
    low = 0 if view.start is None else await _first_event_from(visit, view.start, last) - 1
    events: list[Message] = []
    following: int | None = top
    for _ in range(_PAGES_MOST):
        if following is None or following - 1 <= low or len(events) >= ROWS:
            break
        reply = await visit.read(
            "list_events", before=str(following), limit=_PAGE if view.account else ROWS,
            **view.parameters,
        )  # fmt: skip
        events += [event for event in rows_of(reply, "events") if _is_in(event, view, low)]
        following = int(str(reply["next"])) if reply.get("next") else None
    if len(events) > ROWS:
        events, following = events[:ROWS], _seq(events[ROWS - 1])
    return AuditPage(events, None if following is None or following - 1 <= low else following)


def _is_in(event: Message, view: AuditView, low: int) -> bool:
    fields = event.get("fields")
    account = fields.get("account") if isinstance(fields, dict) else None
    return _seq(event) > low and (not view.account or account == view.account)


async def _last_event(visit: Visit) -> int:
    """The number of the newest event."""
    events = rows_of(await visit.read("list_events", last=1, limit=1), "events")
    return _seq(events[-1]) if events else 0


async def _first_event_from(visit: Visit, moment: float, last: int) -> int:
    """The number of the first event from a time on, by halving; one after the newest: none is."""
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        nearest = rows_of(
            await visit.read("list_events", before=str(middle + 1), limit=1), "events"
        )
        time_there = nearest[0].get("time") if nearest else None
        if isinstance(time_there, int | float) and time_there >= moment:
            high = middle
        else:
            low = middle + 1
    return low


def _parse_time(query: Fields, name: str) -> float | None:
    """A time in UTC, as a form field of a time writes it."""
    text = query.get(name, "").strip()
    if not text:
        return None
    for form in _TIMES:
        try:
            return float(calendar.timegm(time.strptime(text, form)))
        except ValueError:
            continue
    return refuse_field(name, "is not a time such as 2026-01-31T12:00")


def _older(query: Fields, before: int | None) -> str:
    """The address of the rows that follow; empty where there are none."""
    if before is None:
        return ""
    values = {key: query[key] for key in FILTERS if query.get(key)}
    return f"/audit?{urlencode({**values, 'before': before})}"


def _seq(event: Mapping[str, object]) -> int:
    return int(str(event.get("seq")))
