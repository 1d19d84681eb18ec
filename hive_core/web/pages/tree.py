"""The tree: all agents with what they do and use. The view is in the address."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from hive_core.web.mirror import SORTS, TreeView
from hive_core.web.visit import Fields, Visit

_FILTER_MOST: Final = 100
_FOLDED_MOST: Final = 200
STATES: Final = ("running", "stopped", "failed", "parked", "blocked", "idle")


async def show_tree(visit: Visit) -> Response:
    return _draw(visit, "tree")


async def show_rows(visit: Visit) -> Response:
    """The rows alone, for a page whose tree has changed its shape."""
    return _draw(visit, "tree_rows")


def parse_view(query: Fields) -> TreeView:
    """The view of an address. What it does not know it leaves out."""
    sort = query.get("sort", "tree")
    state = query.get("state", "")
    folded = [name for name in query.get("fold", "").split(",") if name][:_FOLDED_MOST]
    return TreeView(
        filter=query.get("filter", "")[:_FILTER_MOST], state=state if state in STATES else "",
        sort=sort if sort in SORTS else "tree", under=query.get("under", ""),
        folded=frozenset(folded),
    )  # fmt: skip


def view_address(view: TreeView, **changes: object) -> str:
    """The address of a view, with some of it changed."""
    values = {
        "filter": view.filter, "state": view.state, "sort": view.sort, "under": view.under,
        "fold": ",".join(sorted(view.folded)), **changes,
    }  # fmt: skip
    if values["sort"] == "tree":
        values["sort"] = ""
    query = urlencode({key: value for key, value in values.items() if value})
    return f"/tree?{query}" if query else "/tree"


def _draw(visit: Visit, name: str) -> Response:
    view = parse_view(visit.query)
    page = visit.web.hub.agents.page(view)
    render = visit.web.renderer.agent_cells

    def toggle_address(agent: str) -> str:
        return view_address(view, fold=",".join(sorted(view.folded ^ {agent})))

    return visit.page(
        name, "Tree", page=page, view=view, states=STATES, sorts=SORTS, cells=render,
        toggle_address=toggle_address,
        is_flat=bool(view.filter or view.state or view.sort != "tree"),
    )  # fmt: skip
