"""The drawings of tasks: who waits for whom, and how many were open when."""

from __future__ import annotations

import re

from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.hostile_text import HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from hive_core.web.task_graph import OpenCount, count_open, draw_tasks, place_tasks, sample

_IDS = st.sampled_from("abcdef")


def row(id_: str, *waits_for: str, created: float = 0.0, **more: object) -> dict[str, object]:
    return {"id": id_, "waits_for": list(waits_for), "created": created, "title": id_, **more}


def test_a_task_stands_right_of_what_it_waits_for_and_is_a_part_of() -> None:
    nodes = place_tasks([row("c", "b", part_of="a"), row("b", "a"), row("a"), row("alone")])

    assert {node.row["id"]: node.column for node in nodes} == {"a": 0, "b": 1, "c": 2}
    assert {node.row["id"]: node.part_of for node in nodes}["c"] == "a"


@given(st.lists(st.builds(row, _IDS, _IDS, _IDS, part_of=_IDS), max_size=12))
def test_no_two_tasks_have_the_same_place_even_in_a_ring(rows: list[dict[str, object]]) -> None:
    nodes = place_tasks(rows)

    places = [(node.column, node.line) for node in nodes]
    assert len(set(places)) == len(places)
    assert draw_tasks(nodes).count("<rect") == len(nodes)


def test_open_tasks_are_counted_at_each_change() -> None:
    rows = [row("a", created=1, ended=5), row("b", created=1, ended=None), row("c", created=3)]

    assert count_open(rows, 9) == [
        OpenCount(1, 2), OpenCount(3, 3), OpenCount(5, 2), OpenCount(9, 2),
    ]  # fmt: skip
    assert count_open([], 9) == []


def test_a_table_has_the_first_and_the_last_count() -> None:
    counts = [OpenCount(at, at) for at in range(100)]

    assert len(sample(counts)) == 12
    assert (sample(counts)[0], sample(counts)[-1]) == (counts[0], counts[-1])


def test_hostile_titles_are_text_in_a_drawing() -> None:
    rows = [row("first"), *(row(f"t{at}", "first", title=t) for at, t in enumerate(HOSTILE))]

    text = str(draw_tasks(place_tasks(rows)))

    assert set(re.findall(r"<([a-z]+)", text)) == {"svg", "title", "g", "rect", "path", "text"}
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_the_page_draws_tasks_and_lists_the_same(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    assert "There is no task." in browser.get("/tasks/graph").text
    first = web.hived.call(
        "operator", "assign_task", agent="lead", title="Dig <it>", description="x"
    )
    then = web.hived.call(
        "operator", "assign_task", agent="w-9", title="Fill it", description="x",
        needs=[first["task"]],
    )  # fmt: skip

    page = browser.get("/tasks/graph").text

    assert '<path class="edge waits"' in page
    assert ">Dig &lt;it&gt;</text>" in page
    table = page.partition("Table of tasks")[2]
    assert f'<td><a href="/tasks/{then["task"]}"><bdi>Fill it</bdi></a></td>' in table
    assert "<td><bdi>Dig &lt;it&gt;</bdi></td>" in table
    assert 'href="/tasks/graph"' in browser.get("/tasks").text
