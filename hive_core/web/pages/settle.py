"""Decisions of the list of what waits which have no page of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from hive_core.errors import NotFound
from hive_core.web.visit import Visit, refuse_field

_OPERATOR: Final = "operator"
_OPERATIONS: Final[Mapping[str, str]] = {
    "start": "start", "lift": "lift_quarantine", "clear-dead": "clear_dead_letters",
    "stop-work": "stop_work",
}  # fmt: skip


async def settle_agent(visit: Visit) -> Response:
    """Start an agent, lift its quarantine, clear its dead letters, or stop its work."""
    action, name = visit.parts["action"], visit.parts["name"]
    operation = _OPERATIONS.get(action)
    if operation is None:
        raise NotFound(f"nothing named {action!r} settles an item")
    reason = None
    if action == "stop-work":
        reason = visit.form.get("reason", "").strip() or refuse_field("reason", "say why")
    agent = None if (action, name) == ("clear-dead", _OPERATOR) else name
    return await visit.change(operation, "/", agent=agent, reason=reason)


async def judge_result(visit: Visit) -> Response:
    """Accept the result of a task, or give the work back with what is missing."""
    verdict, feedback = visit.form.get("verdict", ""), visit.form.get("feedback", "").strip()
    if verdict not in ("accept", "retry"):
        refuse_field("verdict", "accept or retry")
    if verdict == "retry" and not feedback:
        refuse_field("feedback", "say what is missing")
    attempt = visit.form.get("attempt", "")
    if not attempt.isdecimal():
        refuse_field("attempt", "is not a number")
    return await visit.change(
        "judge_task", "/", task=visit.parts["id"], verdict=verdict, feedback=feedback,
        attempt=int(attempt),
    )  # fmt: skip
