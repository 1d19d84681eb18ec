"""Each page of the dashboard has a picture, which the docs show."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures import BYTES_MOST, PHONE, PICTURES, Picture

from hive_core.web.pages import agent, attention, cost, more, task, timeline, tree, work
from hive_core.web.routes import ROUTES, Handler, show_badge

DOCS = Path(__file__).parents[2] / "docs"
OUTSIDE = ("/login", "/link/")  # what is served without a login
# What answers without a page of its own.
NO_PAGES = frozenset({
    show_badge, attention.show_next, attention.show_rows, tree.show_rows, timeline.show_rows,
    more.download, task.show_task_rows, work.show_task_rows, cost.show_cost_rows,
    agent.show_agent_rows,
})  # fmt: skip


def handler_of(path: str) -> Handler:
    """What answers the first of the routes that fits, as the dashboard looks it up."""
    return next(
        handler
        for method, pattern, handler in ROUTES
        if method == "GET" and pattern.fullmatch(path.partition("?")[0])
    )


def test_each_page_has_a_picture() -> None:
    pages = {handler for method, _, handler in ROUTES if method == "GET"} - NO_PAGES
    paths = [picture.path for picture in PICTURES if not picture.path.startswith(OUTSIDE)]

    assert {handler_of(path) for path in paths} == pages


def test_what_needs_no_login_and_the_confirmation_have_pictures() -> None:
    names = {picture.name for picture in PICTURES}
    outside = {prefix for prefix in OUTSIDE for picture in PICTURES
               if picture.path.startswith(prefix)}  # fmt: skip

    assert outside == set(OUTSIDE)
    assert "confirm" in names
    assert {picture.size for picture in PICTURES} >= {PHONE}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_small_and_shown_in_the_guide(picture: Picture) -> None:
    guide = (DOCS / "guide/dashboard.md").read_text()

    for file in picture.files():
        data = file.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) <= BYTES_MOST
        assert f"](../pictures/{file.name})" in guide, f"{file.name} is not shown"


def test_the_docs_have_no_picture_that_nothing_makes() -> None:
    made = {file.name for picture in PICTURES for file in picture.files()}

    assert {path.name for path in (DOCS / "pictures").iterdir()} == made
