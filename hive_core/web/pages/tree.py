"""The tree: all agents with what they do and use. The view is in the address."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from hive_core.web.mirror import SORTS, TreeView
from hive_core.web.visit import Fields, Visit

_FILTER_MOST: Final = 100
_FOLDED_MOST: Final = 200
STATES: Final = ("running", "stopped", "failed", "parked", "blocked", "idle")


async def show_tree(visit: Visit) -> Response:
    """The stream of the page begins behind the newest frame that its rows hold."""
    rows = visit.draw_rows("tree_rows", (visit.web.hub.agents.shape,), lambda: _values(visit))
    grid = Markup(rows.plain.decode())  # noqa: S704 - the template of the rows has escaped it
    return visit.page(
        "tree", "Tree",
        states=STATES, sorts=SORTS, view=parse_view(visit.query), grid=grid, newest=rows.newest,
    )  # fmt: skip


async def show_rows(visit: Visit) -> Response:
    """The rows alone, for a page whose tree has changed its shape.

    The page itself applies the frames that came since, so rows of the same shape are never too old.
    """
    shape = visit.web.hub.agents.shape
    return visit.rows("tree_rows", (shape,), lambda: _values(visit))


def parse_view(query: Fields) -> TreeView:
    """Parse the view from an address; unknown parts are ignored."""
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


def _values(visit: Visit) -> dict[str, object]:
    view, hub = parse_view(visit.query), visit.web.hub

    def toggle_address(agent: str) -> str:
        return view_address(view, fold=",".join(sorted(view.folded ^ {agent})))

    return {
        "page": hub.agents.page(view), "view": view, "cells": hub.cells,
        "toggle_address": toggle_address, "is_flat": view.is_flat,
    }  # fmt: skip
