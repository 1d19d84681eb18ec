"""Creating an agent: hived authorizes it, and decides whether it needs a confirmation."""

from __future__ import annotations

from starlette.responses import Response

from hive_core.web.pages.agent import address
from hive_core.web.visit import Visit, refuse_field


async def show_new(visit: Visit) -> Response:
    """The form; the address may name the parent."""
    rows = visit.web.hub.agents.rows.values()
    return visit.page(
        "new_agent", "New agent", parent=visit.query.get("parent", ""),
        names=sorted(str(row.get("name")) for row in rows),
        roles=sorted({str(row.get("role")) for row in rows}),
    )  # fmt: skip


async def create(visit: Visit) -> Response:
    """Create the agent; the daemon fills in defaults for empty fields."""
    values = {key: visit.form.get(key, "").strip() for key in ("name", "parent", "role", "title")}
    name = values.pop("name") or refuse_field("name", "name the agent")
    fields = {key: value for key, value in values.items() if value}
    return await visit.change("spawn", address(name), name=name, **fields)
