"""Dependencies between the newest tasks, and the number of open tasks over time."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hive_core.varlink import Message
from hive_core.web.task_graph import count_open, draw_open, draw_tasks, place_tasks, sample
from hive_core.web.visit import Visit

_PAGE: Final = 100
_PAGES: Final = 2


async def show_graph(visit: Visit) -> Response:
    """The drawings of the newest 200 tasks, and tables with the same."""
    rows = await _newest(visit)
    nodes, counts = place_tasks(rows), count_open(rows, visit.web.clock())
    titles = {str(row["id"]): str(row["title"] or row["id"]) for row in rows}
    return visit.page(
        "task_graph", "Task graph", total=len(rows), nodes=nodes, titles=titles,
        graph=draw_tasks(nodes) if nodes else "",
        chart=draw_open(counts) if counts else "", steps=sample(counts),
    )  # fmt: skip


async def _newest(visit: Visit) -> list[Message]:
    rows: list[Message] = []
    after: object = None
    for _ in range(_PAGES):
        reply = await visit.read("list_tasks", limit=_PAGE, after=after)
        tasks, after = reply.get("tasks"), reply.get("next")
        rows += tasks if isinstance(tasks, list) else []
        if after is None:
            break
    return rows
