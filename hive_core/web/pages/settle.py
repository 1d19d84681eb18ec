"""Decisions of the list of what waits which have no page of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from hive_core.errors import NotFound
from hive_core.web.pages import task
from hive_core.web.pages.agent import OPERATOR
from hive_core.web.visit import Visit, form_number, redirect, refuse_field

_CLEARED_MOST: Final = 1000  # letters that hived acknowledges in one call
_OPERATIONS: Final[Mapping[str, str]] = {
    "start": "start",
    "lift": "lift_quarantine",
    "stop-work": "stop_work",
}


async def settle_agent(visit: Visit) -> Response:
    """Start an agent, lift its quarantine, or stop its work."""
    action, name = visit.parts["action"], visit.parts["name"]
    operation = _OPERATIONS.get(action)
    if operation is None:
        raise NotFound(f"nothing named {action!r} settles an item")
    reason = None
    if action == "stop-work":
        reason = visit.form.get("reason", "").strip() or refuse_field("reason", "say why")
    return await visit.change(operation, "/", agent=name, reason=reason)


async def clear_dead_letters(visit: Visit) -> Response:
    """Delete the dead letters that there were when the page was drawn; later ones stay."""
    name, as_of = visit.parts["name"], visit.form.get("as_of", "")
    agent = None if name == OPERATOR else name
    return await visit.change("clear_dead_letters", "/", agent=agent, as_of=as_of)


async def read_mail(visit: Visit) -> Response:
    """Acknowledge one letter to the operator, or those up to the newest that the page showed."""
    id_, up_to = visit.form.get("id"), visit.form.get("up_to")
    if (id_ is None) == (up_to is None):
        refuse_field("up_to", "name one letter or the newest one")
    back = "/agents/operator/mail" if visit.form.get("page") == "mail" else "/"
    if id_ is not None:
        return await visit.change("clear_inbox", back, ids=[id_])
    while (await visit.call("clear_inbox", {"up_to": up_to}, back)).get("cleared") == _CLEARED_MOST:
        pass  # there may be more of them
    return redirect(back)


async def judge_result(visit: Visit) -> Response:
    """Accept the result of a task, or give the work back with what is missing."""
    verdict, feedback = visit.form.get("verdict", ""), visit.form.get("feedback", "").strip()
    if verdict not in ("accept", "retry"):
        refuse_field("verdict", "accept or retry")
    if verdict == "retry" and not feedback:
        refuse_field("feedback", "say what is missing")
    attempt = form_number(visit, "attempt")
    id_ = visit.parts["id"]
    back = task.address(id_) if visit.form.get("page") == "task" else "/"
    return await visit.change(
        "judge_task", back, task=id_, verdict=verdict, feedback=feedback, attempt=attempt
    )
