"""Which function answers which address."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response

from hive_core.web.pages import (
    agent,
    attention,
    audit,
    confirm,
    cost,
    login,
    more,
    move,
    new_agent,
    selected,
    settle,
    task,
    task_graph,
    timeline,
    tree,
    work,
)
from hive_core.web.visit import Fields, Visit, json_response

Handler = Callable[[Visit], Awaitable[Response]]


async def show_badge(visit: Visit) -> Response:
    """The number of waiting items, for the title of hidden tabs."""
    return json_response({"waiting": visit.web.hub.waiting})


_ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/", attention.show_attention),
    ("GET", "/attention/rows", attention.show_rows),
    ("GET", "/badge", show_badge),
    ("GET", "/next", attention.show_next),
    ("GET", "/questions/{id}", attention.show_question),
    ("POST", "/questions/{id}/answer", attention.answer),
    ("GET", "/plans/{id}", attention.show_plan),
    ("POST", "/plans/{id}/approve", attention.approve_plan),
    ("POST", "/plans/{id}/reject", attention.reject_plan),
    ("GET", "/approvals/{id}", attention.show_approval),
    ("POST", "/approvals/{id}/approve", attention.approve),
    ("POST", "/approvals/{id}/deny", attention.deny),
    ("GET", "/tree", tree.show_tree),
    ("GET", "/tree/rows", tree.show_rows),
    ("GET", "/new", new_agent.show_new),
    ("POST", "/new", new_agent.create),
    ("GET", "/selected/{action}", selected.ask_selected),
    ("POST", "/selected/{action}", selected.act_on_selected),
    ("GET", "/agents/{name}", agent.show_agent),
    ("GET", "/agents/{name}/move", move.show_move),
    ("POST", "/agents/{name}/move", move.move),
    ("GET", "/agents/{name}/{tab}", agent.show_agent),
    ("GET", "/agents/{name}/ask/{action}", agent.ask_action),
    ("GET", "/agents/{name}/{tab}/rows", agent.show_agent_rows),
    ("POST", "/agents/{name}/do/{action}", agent.act),
    ("POST", "/agents/{name}/say", agent.say),
    ("POST", "/agents/{name}/assign", agent.assign),
    ("POST", "/agents/{name}/settle/clear-dead", settle.clear_dead_letters),
    ("POST", "/agents/{name}/settle/{action}", settle.settle_agent),
    ("POST", "/mail/read", settle.read_mail),
    ("POST", "/tasks/{id}/judge", settle.judge_result),
    ("GET", "/tasks", work.show_tasks),
    ("GET", "/tasks/rows", work.show_task_rows),
    ("GET", "/tasks/graph", task_graph.show_graph),
    ("GET", "/tasks/{id}", task.show_task),
    ("GET", "/tasks/{id}/rows", task.show_task_rows),
    ("POST", "/tasks/{id}/cancel", task.cancel_task),
    ("GET", "/timeline", timeline.show_timeline),
    ("GET", "/timeline/rows", timeline.show_rows),
    ("GET", "/cost", cost.show_cost),
    ("GET", "/cost/rows", cost.show_cost_rows),
    ("GET", "/more", more.show_more),
    ("GET", "/more/triggers/{id}", more.show_fires),
    ("GET", "/more/artifacts/{id}", more.download),
    ("GET", "/more/{section}", more.show_more),
    ("GET", "/audit", audit.show_audit),
    ("GET", "/audit/why", audit.show_why),
    ("POST", "/confirm", confirm.confirm),
    ("GET", "/passkey", confirm.show_passkey),
    ("POST", "/passkey", confirm.add_passkey),
    ("POST", "/logout", login.log_out),
)
_PART: Final = re.compile(r"\\{([a-z]+)\\}")
ROUTES: Final = tuple(
    (method, re.compile(_PART.sub(r"(?P<\1>[^/]{1,128})", re.escape(pattern))), handler)
    for method, pattern, handler in _ROUTES
)


def find_route(method: str, path: str) -> tuple[Handler, Fields] | int:
    """The function and the parts of the path; else 404, or 405 where another method is served."""
    status = 404
    for known, pattern, handler in ROUTES:
        if match := pattern.fullmatch(path):
            if known == method or (known, method) == ("GET", "HEAD"):
                return handler, match.groupdict()
            status = 405
    return status
