"""watch_agents (row H5): whole rows of agents that changed, at most each `every` seconds."""

from __future__ import annotations

import pytest
from fixtures.questions import ask
from fixtures.world import Exchange, Reply, World, names, rows
from typing_extensions import override

from hive_core.broker.row_versions import RowVersions
from hive_core.model.agents.machine import Cpu, Reading, State

WATCHERS = {"a1": "NotAllowed", "root": "NotAllowed", "operator": ""}
EVERY = 0.1


def watch(world: World, **params: object) -> Exchange:
    """A stream that has shown all agents."""
    watching = world.ask("operator", "watch_agents", more=True, **params)
    assert watching.result()["synced"] is True
    return watching


def names_of_page(watching: Exchange, page: int = -1) -> list[object]:
    return names(watching.pages[page]["rows"])


def row(world: World, name: str) -> Reply:
    listed = rows(world.call("operator", "watch_agents")["rows"])
    return next(row for row in listed if row["name"] == name)


@pytest.mark.parametrize(("caller", "error"), WATCHERS.items())
def test_only_the_operator_watches_all_agents(world: World, caller: str, error: str) -> None:
    assert world.fault(caller, "watch_agents") == error


def test_the_first_page_has_all_agents_in_the_order_of_the_tree(world: World) -> None:
    page = world.call("operator", "watch_agents")
    assert page["reset"] is True
    assert page["synced"] is True
    assert names(page["rows"]) == ["root", "a", "a1", "a11", "a2", "b", "b1"]
    assert names(page["rows"], "parent") == [None, "root", "a", "a1", "a", "root", "b"]


def test_a_change_comes_at_once_and_has_the_row_of_this_agent_alone(world: World) -> None:
    watching = watch(world)
    world.advance(EVERY)
    before = len(watching.pages)
    world.call("operator", "send", to="a1", body="x")
    assert len(watching.pages) == before + 1
    assert names_of_page(watching) == ["a1"]
    assert names(watching.result()["rows"], "inbox") == [1]
    assert watching.result()["reset"] is False


def test_changes_of_one_tenth_of_a_second_come_in_one_page(world: World) -> None:
    watching = watch(world)
    world.advance(EVERY)
    for _ in range(5):
        world.call("operator", "send", to="a1", body="x")
        world.call("operator", "send", to="b1", body="x")
    assert names_of_page(watching) == ["a1"]
    before = len(watching.pages)
    world.advance(EVERY)
    assert len(watching.pages) == before + 1
    assert sorted(map(str, names_of_page(watching))) == ["a1", "b1"]
    assert names(watching.result()["rows"], "inbox") == [5, 5]


@pytest.mark.parametrize("more", [0.0, 0.0006])
def test_a_slow_reader_gets_a_page_each_time_that_it_asked_for(world: World, more: float) -> None:
    world.advance(1 - world.clock.time % 1 + more)  # between two milliseconds
    watching = watch(world, every=5.0)
    world.call("operator", "send", to="a1", body="x")
    world.advance(4.9)
    before = len(watching.pages)
    world.advance(0.2)
    assert len(watching.pages) == before + 1
    assert names_of_page(watching) == ["a1"]


def test_a_clock_that_is_set_back_delays_no_page(world: World) -> None:
    watching = watch(world)
    world.set_clock(-3600)
    world.call("operator", "send", to="a1", body="x")
    world.advance(2 * EVERY)
    assert names_of_page(watching) == ["a1"]


def test_states_tasks_moves_and_new_agents_change_rows(world: World) -> None:
    watching = watch(world)
    world.advance(1)
    world.seen.states[world.uuid("a2")] = State.FAILED
    world.broker.touch({f"state:{world.uuid('a2')}"})
    world.run()
    assert [(line["name"], line["state"]) for line in rows(watching.result()["rows"])] == [
        ("a2", "failed")
    ]
    world.advance(1)
    task = world.call("a", "assign_task", agent="a1", title="fix it", description="g")["task"]
    world.advance(1)
    world.call("a1", "begin_task", task=task)
    world.call("a1", "report_progress", task=task, percent=61, text="half way")
    world.advance(1)
    line = row(world, "a1")
    assert (line["task"], line["doing"], line["percent"]) == (task, "fix it", 61)
    assert line["activity"] == "running"
    world.call("operator", "move", agent="a11", parent="b")
    world.advance(1)
    assert {"a11"} <= set(names_of_page(watching))
    assert row(world, "a11")["parent"] == "b"
    world.grow("b/b2")
    world.advance(1)
    assert "b2" in names_of_page(watching)


def test_destroyed_agents_are_gone(world: World) -> None:
    watching = watch(world)
    world.advance(1)
    uuid = world.uuid("a11")
    world.call("operator", "destroy", agent="a11")
    world.advance(1)
    assert [uuid] in [page["gone"] for page in watching.pages]


def test_a_blocked_agent_shows_what_it_waits_for(world: World) -> None:
    world.call("a1", "report_activity", blocked=True, reason="the build")
    assert (row(world, "a1")["activity"], row(world, "a1")["waits_on"]) == ("blocked", "the build")


def test_usage_of_today_is_shown_and_begins_at_0_on_the_next_day(world: World) -> None:
    world.call("a1", "report_usage", tokens_in=100, tokens_out=20, cost=500_000)
    assert (row(world, "a1")["tokens"], row(world, "a1")["cost"]) == (120, 0.5)
    after = world.call("operator", "watch_agents")["next"]
    world.advance(86_400)
    page = world.call("operator", "watch_agents", after=after)
    assert "a1" in names(page["rows"])
    assert row(world, "a1")["tokens"] == 0


def test_a_cursor_continues_and_one_of_an_earlier_daemon_gets_all(world: World) -> None:
    after = world.call("operator", "watch_agents")["next"]
    world.call("operator", "send", to="b", body="x")
    page = world.call("operator", "watch_agents", after=after)
    assert (page["reset"], names(page["rows"])) == (False, ["b"])
    world.restart()
    page = world.call("operator", "watch_agents", after=page["next"])
    assert page["reset"] is True
    assert len(rows(page["rows"])) == 7
    for strange in ("x", f"{world.broker.services.rows.epoch}.1.2.-3", "....", "٣.1.1.1"):
        assert world.call("operator", "watch_agents", after=strange)["reset"] is True


def test_a_reader_has_all_agents_once_a_page_says_so_though_all_of_them_change(
    world: World,
) -> None:
    world.grow(*(f"b/w{number}" for number in range(250)))
    agents, listed = {f"w{number}" for number in range(250)}, set[object]()
    page = world.call("operator", "watch_agents")
    listed |= set(names(page["rows"]))
    for name in sorted(agents - listed):  # all that are still to come change before they come
        world.call("operator", "send", to=name, body="x")
    for _ in range(3):
        assert page["synced"] is agents.issubset(listed)
        page = world.call("operator", "watch_agents", after=page["next"])
        listed |= set(names(page["rows"]))
    assert (page["synced"], agents - listed) == (True, set())


def test_a_reader_who_has_all_agents_keeps_them_while_more_change_than_a_page_has(
    world: World,
) -> None:
    world.grow(*(f"b/w{number}" for number in range(150)))
    watching = watch(world)
    before = len(watching.pages)
    for number in range(150):
        world.call("operator", "send", to=f"w{number}", body="x")
    world.advance(EVERY)
    world.advance(EVERY)
    pages = watching.pages[before:]
    assert [len(rows(page["rows"])) for page in pages] == [100, 50]
    assert all(page["synced"] for page in pages)


def test_a_reader_who_asks_now_and_then_is_told_to_ask_on_while_changes_wait(
    world: World,
) -> None:
    """`hive top` in a pipe prints what is so now, and not what was so some intervals before."""
    world.grow(*(f"b/w{number}" for number in range(150)))
    pages = [world.call("operator", "watch_agents")]
    while not pages[-1]["synced"]:
        pages.append(world.call("operator", "watch_agents", after=pages[-1]["next"]))
    for number in range(150):
        world.call("operator", "send", to=f"w{number}", body="x")
    for _ in range(2):
        pages.append(world.call("operator", "watch_agents", after=pages[-1]["next"]))
    assert [(len(rows(page["rows"])), page["synced"]) for page in pages[-2:]] == [
        (100, False), (50, True),
    ]  # fmt: skip


def test_figures_come_from_the_kernel_and_change_rows(world: World) -> None:
    uuid = world.uuid("a1")
    watching = watch(world, figures=True)
    world.advance(1)
    world.broker.show_figures({uuid: Reading(Cpu("g", 0), 1 << 20)})
    world.run()
    assert (row(world, "a1")["cpu"], row(world, "a1")["memory"]) == (None, 1 << 20)
    world.advance(2)
    world.broker.show_figures({uuid: Reading(Cpu("g", 500_000), 2 << 20)})
    world.run()
    assert names_of_page(watching) == ["a1"]
    assert (row(world, "a1")["cpu"], row(world, "a1")["memory"]) == (0.25, 2 << 20)
    world.broker.show_figures({})
    assert row(world, "a1")["cpu"] is None
    points = rows(world.call("operator", "get_figures", agent="a1")["points"])
    assert [point["cpu"] for point in points] == [0.25]


class CountedVersions(dict[str, int]):
    """Versions by UUID, and which were looked at."""

    def __init__(self, versions: dict[str, int]) -> None:
        super().__init__(versions)
        self.seen: list[str] = []

    @override
    def get(self, key: str, default: int | None = None) -> int | None:  # type: ignore[override]
        self.seen.append(key)
        return super().get(key, default)


def numbered_rows(agents: int) -> RowVersions:
    versions = RowVersions()
    versions._number((f"agent-{number}" for number in range(agents)), "tree")
    return versions


def test_a_look_costs_the_agents_that_changed_and_not_all_of_them() -> None:
    """Counted in steps: of 5,000 agents one changes, and a reader sees one."""
    many = numbered_rows(5000)
    after = many.last
    many._number(["agent-7"], "tree")
    many._versions = counted = CountedVersions(many._versions)
    assert [changed.uuid for changed in many.changes_after(after, 100)] == ["agent-7"]
    assert counted.seen == ["agent-7"]


def test_each_page_of_a_whole_list_costs_its_own_rows() -> None:
    many = numbered_rows(5000)
    many._versions = counted = CountedVersions(many._versions)
    after, listed = 0, list[str]()
    while page := many.changes_after(after, 100):
        after = page[-1].version
        listed += [changed.uuid for changed in page]
    assert listed == [f"agent-{number}" for number in range(5000)]
    assert len(counted.seen) == 5000


def test_changes_of_the_same_agents_do_not_pile_up() -> None:
    few = numbered_rows(10)
    for _ in range(1000):
        few._number((f"agent-{number}" for number in range(5)), "inbox")
    assert len(few._changes) < 2000
    assert [changed.uuid for changed in few.changes_after(0, 100)] == [
        *(f"agent-{number}" for number in range(5, 10)), *(f"agent-{number}" for number in range(5))
    ]  # fmt: skip


def test_a_reader_behind_all_that_is_remembered_gets_all_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = world.call("operator", "watch_agents")["next"]
    monkeypatch.setattr("hive_core.broker.row_versions._GONE_MOST", 0)
    world.call("operator", "destroy", agent="a11")
    world.call("operator", "watch_agents")
    page = world.call("operator", "watch_agents", after=after)
    assert page["reset"] is True
    page = world.call("operator", "watch_agents", after=page["next"])
    assert page["reset"] is False


def test_a_row_of_which_only_some_columns_were_read_anew_is_as_whole_as_any(world: World) -> None:
    watching = watch(world)

    def all_rows() -> list[Reply]:
        world.advance(EVERY)
        return rows(world.call("operator", "watch_agents")["rows"])

    for number in range(3):
        world.call("operator", "send", to="a1", body="x")
        all_rows()
        world.call("a1", "recv", max=1)
        all_rows()
        world.call("a1", "report_usage", tokens_in=5, tokens_out=number)
        all_rows()
        ask(world, "a1")
        world.call("operator", "send", to="a1", body="y")
    shown = all_rows()
    newest: dict[object, Reply] = {}
    for page in watching.pages:
        newest |= {row["uuid"]: row for row in rows(page["rows"])}
    assert [newest[row["uuid"]] for row in shown] == shown
    world.restart()
    assert {row["uuid"]: row for row in all_rows()} == newest


def test_rows_read_together_after_a_restart_are_those_that_were_followed(world: World) -> None:
    assert row(world, "a1")["task"] == ""
    task = world.call("a", "assign_task", agent="a1", title="fix it", description="g")["task"]
    world.call("a1", "begin_task", task=task)
    for _ in range(3):
        world.call("operator", "send", to="b1", body="x")
    world.call("a2", "report_usage", tokens_in=7, context=40)
    agents = ("root", "a", "a1", "a11", "a2", "b", "b1")
    followed = [row(world, name) for name in agents]
    world.restart()
    read = {name: row(world, name) for name in agents}
    assert list(read.values()) == followed
    assert (read["a1"]["task"], read["b1"]["inbox"]) == (task, 3)
    assert (read["a2"]["tokens"], read["a2"]["context"]) == (7, 40)
    assert (read["a"]["task"], read["a"]["inbox"], read["a"]["tokens"]) == ("", 0, 0)
