"""Work: all tasks by their state."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hive_core.varlink import Message
from hive_core.web.visit import Visit

_TASKS: Final = 100
# The columns of the page, and the states of tasks in each.
COLUMNS: Final = (
    ("Queued", ("queued", "waiting", "pending_delegation")),
    ("Working", ("in_progress", "stopping")),
    ("Waits for a plan", ("awaiting_plan_approval",)),
    ("Waits for an answer", ("awaiting_more_information",)),
    ("Waits for a verdict", ("awaiting_judgement",)), ("Done", ("done", "cancelled")),
)  # fmt: skip


async def show_tasks(visit: Visit) -> Response:
    """The newest tasks, by what they wait for."""
    return visit.page("tasks", "Tasks", **_task_values(await _read_tasks(visit)))


async def show_task_rows(visit: Visit) -> Response:
    """The rows alone, to refresh a page."""
    reply = await _read_tasks(visit)
    return visit.rows("tasks_rows", (reply,), lambda: _task_values(reply))


async def _read_tasks(visit: Visit) -> Message:
    return await visit.read("list_tasks", limit=_TASKS, after=visit.query.get("after"))


def _task_values(reply: Message) -> dict[str, object]:
    tasks = reply.get("tasks")
    rows: list[Message] = tasks if isinstance(tasks, list) else []
    columns = [
        (name, [row for row in rows if row.get("state") in states]) for name, states in COLUMNS
    ]
    return {"columns": columns, "next": reply.get("next")}
