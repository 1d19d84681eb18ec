"""Moving an agent under another parent: hived lists the effects, or refuses with a reason."""

from __future__ import annotations

from starlette.responses import Response

from hive_core.errors import HiveError, InvalidArgument
from hive_core.varlink import Message
from hive_core.web.visit import Fields, Visit, refuse_field


async def show_move(visit: Visit) -> Response:
    """The form that asks for the parent; with a parent, what the move would do."""
    name = visit.parts["name"]
    agent = await visit.read("get_agent", agent=name)
    names = sorted(str(row["name"]) for row in visit.web.hub.agents.rows.values())
    parent = _parent(visit.query)
    trial = {} if parent is None else await _try_move(visit, parent)
    return visit.page(
        "move", f"Move {name}", name=name, agent=agent, parent=parent, trial=trial,
        others=[other for other in names if other != name],
    )  # fmt: skip


async def move(visit: Visit) -> Response:
    """Make the move; hived asks for a confirmation before."""
    parent = _parent(visit.form)
    if parent is None:
        refuse_field("parent", "name the new parent")
    return await visit.change(
        "move", "/tree", agent=visit.parts["name"], parent=parent,
        when_idle=_seconds(visit.form.get("when_idle", "")),
    )  # fmt: skip


async def _try_move(visit: Visit, parent: str) -> Message:
    """What the move would do; where hived refuses it, the reason under `refused`."""
    values: Message = {"agent": visit.parts["name"], "parent": parent, "dry_run": True}
    try:
        return await visit.login.connection.call("move", values)
    except HiveError as error:
        return {"refused": str(error)}


def _parent(fields: Fields) -> str | None:
    """The parent that a form names; empty: the agent is to be a root; None: none is named."""
    if fields.get("root") == "yes":
        return ""
    return fields.get("parent", "").strip() or None


def _seconds(text: str) -> float | None:
    """The seconds that were typed; None where nothing was."""
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InvalidArgument("when_idle: must be a number (seconds)", field="when_idle") from error
