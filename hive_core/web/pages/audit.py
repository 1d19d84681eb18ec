"""The audit log, the newest event first, and why a call is decided as it is."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hive_core.errors import InvalidArgument
from hive_core.varlink import Message
from hive_core.web.visit import Visit

_ROWS: Final = 100


async def show_audit(visit: Visit) -> Response:
    """The newest events; filters are words in the address."""
    kinds, agents = (
        visit.query.get(key, "").replace(",", " ").split() for key in ("kinds", "agents")
    )
    filters: dict[str, object] = {"kinds": kinds, "agents": agents, "last": _ROWS, "limit": _ROWS}
    reply, fault = await _events(visit, filters)
    listed = reply.get("events")
    events = listed[::-1] if isinstance(listed, list) else []
    draw = visit.web.renderer.event_row
    return visit.page(
        "audit",
        "Audit",
        events=[draw(event) for event in events],
        fault=fault,
        is_filtered=bool(kinds or agents),
    )


async def show_why(visit: Visit) -> Response:
    """Whether a caller may do something to a target now, and by which rule."""
    values = {key: visit.query.get(key, "").strip() for key in ("caller", "operation", "target")}
    reply: Message = {}
    if values["caller"] and values["operation"]:
        reply = await visit.try_read(
            "why", **{key: value for key, value in values.items() if value}
        )
    return visit.page("why", "Why", asked=values, reply=reply)


async def _events(visit: Visit, filters: dict[str, object]) -> tuple[Message, str]:
    try:
        return await visit.read("list_events", **filters), ""
    except InvalidArgument as error:
        return {}, str(error)
