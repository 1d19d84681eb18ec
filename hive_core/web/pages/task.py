"""One task: what was asked, what its agent does, what came out, and what decides it."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from hive_core.varlink import Message
from hive_core.web.visit import Visit


async def show_task(visit: Visit) -> Response:
    """The task with its newest plan, and the forms of this login."""
    reply, plan = await _read_task(visit)
    return visit.page(
        "task", _title(reply), reply=reply, plan=plan, id=visit.parts["id"], is_whole=True
    )


async def show_task_rows(visit: Visit) -> Response:
    """The same without forms, for a page that is old."""
    reply, plan = await _read_task(visit)
    values = {"reply": reply, "plan": plan, "id": visit.parts["id"], "is_whole": False}
    return visit.rows("task_rows", (reply, plan), lambda: values)


async def cancel_task(visit: Visit) -> Response:
    """End a task with its sub-tasks."""
    id_, reason = visit.parts["id"], visit.form.get("reason", "").strip()
    return await visit.change("cancel_task", address(id_), task=id_, reason=reason)


def address(id_: str) -> str:
    return f"/tasks/{quote(id_, safe='')}"


async def _read_task(visit: Visit) -> tuple[Message, Message | None]:
    reply = await visit.read("get_task", task=visit.parts["id"])
    listed = (await visit.try_read("list_plans", task=visit.parts["id"])).get("plans")
    plans = listed if isinstance(listed, list) else []
    return reply, plans[0] if plans else None


def _title(reply: Message) -> str:
    task = reply.get("task")
    title = task.get("title") if isinstance(task, dict) else ""
    return f"Task: {title}" if title else "Task"
