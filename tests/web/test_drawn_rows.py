"""Rows that many tabs load at once are drawn once, and never older than what they show."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.event_streams import events, newest
from hypothesis import given
from hypothesis import strategies as st

from hive_core.web import frames
from hive_core.web.drawn_rows import KEPT, KEPT_BYTES, DrawnRows, size_of
from hive_core.web.frames import FrameLog

FRAMES = FrameLog()


@pytest.fixture
def frozen(browser: FakeBrowser, web: RunningDashboard) -> Iterator[FakeBrowser]:
    """A browser of a dashboard at which no second passes."""
    before = web.app.web
    web.app.web = replace(before, clock=lambda: 1_700_000_000.5)
    yield browser
    web.app.web = before


@pytest.mark.parametrize("path", ["/tree/rows", "/tree/rows?sort=cpu", "/timeline/rows"])
def test_twenty_equal_fetches_are_one_render(
    frozen: FakeBrowser, web: RunningDashboard, path: str
) -> None:
    drawn = web.app.web.drawn
    before = drawn.count
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: frozen.get(path), range(20)))

    assert drawn.count == before + 1
    assert {answer.status for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert frozen.get(path, accept_encoding="identity").text == answers[0].text
    assert drawn.count == before + 1


def test_twenty_fetches_of_tasks_are_one_read_and_one_render(
    frozen: FakeBrowser, web: RunningDashboard
) -> None:
    web.app.web.reads.clock = lambda: 5.0
    drawn, read = web.app.web.drawn, web.app.web.reads
    read.forget()
    before = drawn.count
    with ThreadPoolExecutor(20) as pool:
        texts = {answer.text for answer in pool.map(lambda _: frozen.get("/tasks/rows"), range(20))}

    assert len(texts) == 1
    assert drawn.count == before + 1


def test_a_new_agent_is_in_rows_that_are_loaded_in_the_same_second(
    frozen: FakeBrowser, web: RunningDashboard
) -> None:
    shape = web.app.web.hub.agents.shape
    assert "sam" not in frozen.get("/tree/rows").text
    web.hived.call("operator", "spawn", name="sam", parent="root")
    while web.app.web.hub.agents.shape == shape:
        web.ask("GET", "/badge")

    assert 'data-name="sam"' in frozen.get("/tree/rows").text


def test_twenty_pages_of_the_tree_share_its_rows(
    frozen: FakeBrowser, web: RunningDashboard
) -> None:
    drawn = web.app.web.drawn
    before = drawn.count
    with ThreadPoolExecutor(10) as pool:
        pages = [answer.text for answer in pool.map(lambda _: frozen.get("/tree"), range(20))]

    assert drawn.count == before + 1
    assert all(page.count('data-name="lead"') == 1 for page in pages)


def test_what_changes_after_rows_were_drawn_reaches_a_page_that_shares_them(
    frozen: FakeBrowser, web: RunningDashboard
) -> None:
    """The page has the rows of before, so its stream has to begin behind these."""
    first = newest(frozen, "/tree")
    web.hived.call("operator", "assign_task", agent="lead", title="a later task", description="x")
    while web.app.web.hub.frames.newest == first:
        web.ask("GET", "/badge")
    assert "a later task" not in frozen.get("/tree").text
    assert newest(frozen, "/tree") == first

    with closing(web.connect()) as connection:
        path = f"/live?topics=tree&after={first}"
        connection.sendall(
            web.request("GET", path, cookie=frozen.cookie, accept_encoding="identity")
        )
        assert any(
            "a later task" in event.get("data", "") for event in events(connection, packed=False)
        )


def test_a_page_does_not_share_rows_behind_which_its_stream_cannot_begin(
    frozen: FakeBrowser, web: RunningDashboard
) -> None:
    """It would be told of a gap, load itself again, and get the same rows."""
    first, log = newest(frozen, "/tree"), web.app.web.hub.frames
    for _ in range(frames.KEPT + 1):
        log.add("audit", {})
    second = newest(frozen, "/tree")
    assert not log.has_all_after(first)
    assert log.has_all_after(second)


def test_who_makes_a_change_gets_rows_that_were_drawn_after_it(
    frozen: FakeBrowser, web: RunningDashboard
) -> None:
    frozen.get("/tree")
    before = web.app.web.drawn.count
    for wish in ("stop", "start"):
        assert frozen.post(f"/selected/{wish}", {"agents": "w-9"}).status == 303
        frozen.get("/tree")
    assert web.app.web.drawn.count == before + 2


def test_another_view_or_another_second_is_drawn_anew(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    before, clock = web.app.web, iter(range(10))
    web.app.web = replace(before, clock=lambda: float(next(clock)))
    try:
        first = before.drawn.count
        for path in ("/tree/rows", "/tree/rows?filter=lead", "/tree/rows"):
            assert browser.get(path).status == 200
    finally:
        web.app.web = before
    assert before.drawn.count == first + 3


def test_rows_that_are_kept_have_a_bound() -> None:
    drawn = DrawnRows()
    for number in range(KEPT + 5):
        drawn.find(f"/tree/rows?filter={number}", (1,), FRAMES, lambda: "rows")
    assert drawn.find("/tree/rows?filter=9", (1,), FRAMES, lambda: "new").plain == b"rows"
    assert drawn.find("/tree/rows?filter=0", (1,), FRAMES, lambda: "new").plain == b"new"


@pytest.mark.parametrize("large", ["address", "basis", "rows"])
def test_all_that_is_kept_of_rows_counts(large: str) -> None:
    """The address is what a login asks for, and the basis of tasks is a whole answer of hived."""
    drawn, size = DrawnRows(), KEPT_BYTES // 10
    texts = [os.urandom(size).hex() for _ in range(12)]

    def draw(number: int, rows: str) -> bytes:
        text = texts[number]
        address = f"/tasks/rows?filter={text if large == 'address' else number}"
        basis = ({"tasks": [{"title": text}]},) if large == "basis" else (1,)
        return drawn.find(
            address, basis, FRAMES, lambda: text + rows if large == "rows" else rows
        ).plain

    for number in range(12):
        draw(number, "old")
    plains = [draw(number, "new") for number in (11, 0)]
    assert [plain[-3:] for plain in plains] == [b"old", b"new"]


@given(st.recursive(
    st.integers() | st.text() | st.none(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=20,
))  # fmt: skip
def test_a_value_counts_more_than_what_is_written_of_it(value: object) -> None:
    assert size_of(value) >= len(pickle.dumps(value)) / 2


def test_rows_that_are_larger_than_the_bound_are_not_kept_and_put_no_others_out() -> None:
    drawn = DrawnRows()
    drawn.find("/tree/rows", (1,), FRAMES, lambda: "small")
    address = "/tree/rows?filter=" + "x" * KEPT_BYTES
    for word in ("first", "second"):
        assert drawn.find(address, (1,), FRAMES, lambda: word).plain == word.encode()  # noqa: B023 - at once
    assert drawn.find("/tree/rows", (1,), FRAMES, lambda: "again").plain == b"small"


def test_a_row_of_the_tree_is_drawn_once_for_each_of_its_values(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    hub = web.app.web.hub
    row = hub.agents.get("lead")
    assert row is not None
    browser.get("/tree")
    cells = hub.cells(row)
    assert hub.cells(row) is cells
    assert hub.cells({**row, "inbox": 77}) != cells
