"""survey and reap_zombies: for whom, about whom, and what they tell (row K36)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.world import Reply, World, names, rows, texts, world

from hive_core.errors import AlreadyExists, InvalidArgument, NotAllowed
from hive_core.model.agents.agent import Profile
from hive_core.model.agents.machine import Orphan, State
from hive_core.model.config.limits import BuiltInSettings
from hive_core.model.config.settings import Settings
from hive_core.model.work.checks import MaidCheck
from hive_core.model.work.checks import MaidConfig as Table
from hive_core.plan.desired import ReconcilePlan
from hive_core.reconcile.built_in_agents import creation_of


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """A queen with a lead below her; the maid beside that one; another branch."""
    with world(Settings(), "root/other:lead", "other/stranger:task") as made:
        for profile in (Profile.QUEEN, Profile.MAID):
            made.broker.perform("ensure", creation_of(profile))
        made.grow("queen/lead:lead", "lead/once:task", "lead/work:worker")
        start_machines(made, "root", "queen", "maid", "lead", "once", "work", "other", "stranger")
        yield made


def row(world: World, name: str, caller: str = "maid") -> Reply:
    (result,) = (
        agent for agent in rows(world.call(caller, "survey")["agents"]) if agent["name"] == name
    )
    return result


def test_the_maid_sees_what_is_below_its_parent_and_others_what_is_below_them(world: World) -> None:
    """No more authority than its place: the other branch is none of its business."""
    below = {"queen", "maid", "lead", "once", "work"}
    assert {*names(world.call("maid", "survey")["agents"])} == below
    assert {*names(world.call("lead", "survey")["agents"])} == {"lead", "once", "work"}
    assert {*names(world.call("once", "survey")["agents"])} == {"once"}
    everybody = {*names(world.call("operator", "survey")["agents"])}
    assert everybody == below | {"root", "other", "stranger"}


def test_pages_follow_each_other(world: World) -> None:
    result, more = list[object](), dict[str, object]()
    while True:
        page = world.call("maid", "survey", limit=2, **more)
        result += names(page["agents"])
        if page["next"] is None:
            break
        more = {"after": page["next"]}
    assert result == names(world.call("maid", "survey")["agents"])
    assert world.fault("lead", "survey", after=world.uuid("other")) == "Conflict"


def test_a_zombie_an_orphan_and_a_state_are_seen(world: World) -> None:
    end_machine(world, "once", 1)
    assert row(world, "once")["ended_at"] == world.clock.now()
    assert row(world, "work")["ended_at"] is None
    assert not row(world, "work")["orphan"]
    world.seen.states[world.uuid("lead")] = State.PARKED
    assert row(world, "work")["orphan"]
    assert row(world, "lead")["state"] == "parked"
    world.seen.states[world.uuid("lead")] = State.SLEEPING
    assert not row(world, "work")["orphan"]


def test_work_that_says_nothing_is_seen_by_how_long(world: World) -> None:
    """Since its last word; what waits for an answer is not quiet, and who should answer is."""
    assert row(world, "work")["quiet"] is None
    task = world.call("lead", "assign_task", agent="work", description="dig")["task"]
    world.call("work", "begin_task", task=task)
    world.advance(50)
    assert row(world, "work")["quiet"] == pytest.approx(50)
    world.call("work", "report_progress", task=task, text="dug", percent=10)
    world.advance(7)
    assert row(world, "work")["quiet"] == pytest.approx(7)
    assert row(world, "work")["tasks"] == 1
    world.call("work", "ask", items=[{"prompt": "how deep?"}], task=task)
    world.advance(9)
    assert row(world, "work")["quiet"] is None
    assert row(world, "lead")["unanswered"] == pytest.approx(9)


def test_orphans_are_reported_to_the_keeper_of_the_host(world: World) -> None:
    world.seen.planned = ReconcilePlan(reports=(Orphan("unit", "hive-agent@x.service"),))
    for caller, value in (("maid", 1), ("operator", 1), ("lead", 0), ("queen", 0)):
        assert len(texts(world.call(caller, "survey")["left_overs"])) == value


def test_zombies_are_cleared_away_below_the_caller(world: World) -> None:
    """K36: the maid those below its parent; how they ended can still be asked for."""
    end_machine(world, "once", 3)
    end_machine(world, "stranger", 3)
    assert world.call("work", "reap_zombies")["agents"] == []
    assert world.call("maid", "reap_zombies", older=10)["agents"] == []
    world.advance(11)
    assert world.call("maid", "reap_zombies", older=10)["agents"] == ["once"]
    assert "stranger" in world.hive.specs
    assert world.call("maid", "reap_zombies")["agents"] == []
    child = world.call("lead", "wait_child", agent="once")["child"]
    assert isinstance(child, dict)
    assert child["code"] == 3


def test_many_go_at_once_and_never_more_than_a_call_may_take(world: World) -> None:
    for n in range(25):
        world.call("operator", "spawn", name=f"t{n}", parent="lead", role="task")
        start_machines(world, f"t{n}")
        end_machine(world, f"t{n}", 0)
    assert len(texts(world.call("lead", "reap_zombies")["agents"])) == 20
    assert len(texts(world.call("lead", "reap_zombies")["agents"])) == 5
    assert len(texts(world.call("operator", "list_archives")["archives"])) == 25


def test_there_is_one_of_each_on_a_host(world: World) -> None:
    """K33, K36: a second one is refused, also by spawn."""
    with pytest.raises(AlreadyExists, match="a maid exists already: maid"):
        world.broker.perform("ensure", creation_of(Profile.MAID))
    with pytest.raises(InvalidArgument, match="a maid has the role daemon"):
        world.call("root", "spawn", name="x", profile="maid")
    with pytest.raises(NotAllowed, match="only the operator may create one"):
        world.call("root", "spawn", name="x", profile="maid", role="daemon")


def test_checks_are_told_to_the_maid_alone_and_once(world: World) -> None:
    """K36: on the first of several pages; a command may say what not everybody should know."""
    world.settings = Settings(
        daemons=BuiltInSettings(maid=True),
        maid=Table(checks={"disk": MaidCheck(command=("df",), every=60)}),
    )
    world.restart()
    wanted = {"name": "disk", "command": ["df"], "every": 60, "seconds": 30}
    for caller, value in (("maid", [wanted]), ("queen", []), ("operator", []), ("lead", [])):
        assert world.call(caller, "survey")["checks"] == value
    first = world.call("maid", "survey", limit=2)
    assert first["checks"] == [wanted]
    assert world.call("maid", "survey", limit=2, after=first["next"])["checks"] == []
