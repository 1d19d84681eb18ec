"""One action for several agents that were selected on the tree."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hive_core.errors import HiveError, NotFound
from hive_core.web.visit import Fields, Visit, redirect, refuse_field

ACTIONS: Final = ("stop", "start", "sleep", "restart", "resume")
_MOST: Final = 100


async def ask_selected(visit: Visit) -> Response:
    """Show the selected agents and the action that is about to run on them."""
    return _page(visit, _action(visit), _names(visit.query), {})


async def act_on_selected(visit: Visit) -> Response:
    """Run the action on each agent. List each agent that hived refuses, with the reason."""
    action, refused = _action(visit), {}
    names = _names(visit.form) or refuse_field("agents", "select agents")
    for name in names:
        try:
            await visit.call(action, {"agent": name}, "/tree")
        except HiveError as error:
            refused[name] = str(error)
    return _page(visit, action, list(refused), refused) if refused else redirect("/tree")


def _page(visit: Visit, action: str, names: list[str], refused: Fields) -> Response:
    return visit.page(
        "selected", action.capitalize(), action=action, actions=ACTIONS, names=names,
        refused=refused,
    )  # fmt: skip


def _action(visit: Visit) -> str:
    action = visit.parts["action"]
    if action not in ACTIONS:
        raise NotFound(f"no action {action!r} for several agents")
    return action


def _names(fields: Fields) -> list[str]:
    names = [name for name in fields.get("agents", "").split(",") if name]
    return names if len(names) <= _MOST else refuse_field("agents", f"at most {_MOST} at once")
