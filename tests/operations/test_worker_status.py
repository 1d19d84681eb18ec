"""Q25: how workers stand, from what the daemon knows itself; the detailed views are rationed."""

from __future__ import annotations

import pytest
from fixtures.tasks import give
from fixtures.world import Reply, World, names, rows

from hive_core.errors import LimitReached

VIEWS = ("activity", "memory", "tools", "issues", "progress", "full")


def look(world: World, focus: str = "activity", caller: str = "a", **more: object) -> Reply:
    return world.call(caller, "get_worker_status", focus=focus, **more)


def lines(reply: Reply, worker: str = "a1") -> str:
    (row,) = [row for row in rows(reply["workers"]) if row["worker"] == worker]
    assert isinstance(row["lines"], list)
    return "\n".join(map(str, row["lines"]))


def test_all_below_the_caller_are_shown_in_the_order_of_the_tree(world: World) -> None:
    task = give(world, "a", "a1")
    reply = look(world)
    assert names(reply["workers"], "worker") == ["a1", "a11", "a2"]
    first = rows(reply["workers"])[0]
    assert (first["activity"], first["tasks"], first["state"]) == ("running", 1, "running")
    assert task in lines(reply)
    assert "a1 (agent): running, running, 1 task\n" in str(reply["text"])


def test_progress_is_what_the_worker_says_and_how_far_its_plan_is(world: World) -> None:
    task = give(world, "a", "a1")
    plan = world.call("a1", "create_plan", task=task, steps=[{"title": "x"}, {"title": "y"}])[
        "plan"
    ]
    world.call("a", "approve_plan", task=task, plan=plan)
    world.call("a1", "update_plan_step", plan=plan, step=1, status="done")
    world.call("a1", "report_progress", task=task, percent=40, text="at it")
    said = lines(look(world, "progress"))
    assert "40 %, says: at it" in said
    assert f"plan {plan} (approved): 1 of 2 steps done" in said


def test_issues_are_locks_questions_and_refusals(world: World) -> None:
    give(world, "a", "a1", plan_required=True)
    world.fault("a1", "stop", agent="a")
    said = lines(look(world, "issues"))
    assert "needs an approved plan" in said
    assert "was refused stop: not your descendant" in said


def test_tools_are_those_in_use_and_the_last_ones(world: World) -> None:
    with_worker = world.call("operator", "spawn", name="w", parent="a", role="worker")
    assert with_worker["name"] == "w"
    world.call("w", "use_tool", tool="command", argument=["ls", "-l"])
    said = lines(look(world, "tools"), "w")
    assert "uses bash: ls -l" in said
    assert "bash ls -l: begun" in said
    world.fault("a1", "use_tool", tool="command", argument=["ls"])
    assert "refused: cannot use bash: you plan and delegate" in lines(
        look(world, "tools", caller="root")
    )


def test_memory_is_what_lies_there_for_it(world: World) -> None:
    world.call("a", "send", to="a1", body="x")
    world.call("a1", "wait_for")
    said = lines(look(world, "memory"))
    assert "unread: message of a" in said
    assert "waits (" in said


@pytest.mark.parametrize(
    ("focus", "seconds"), [("memory", 10), ("tools", 10), ("issues", 10), ("progress", 10),
                           ("full", 30)],
)  # fmt: skip
def test_detailed_views_are_rationed_for_each_caller(
    world: World, focus: str, seconds: float
) -> None:
    look(world, focus)
    with pytest.raises(LimitReached, match=f"cannot show {focus} again yet"):
        look(world, focus)
    look(world, focus, caller="root")
    look(world, focus, caller="operator")
    world.advance(seconds + 1)
    look(world, focus)


def test_the_plain_view_is_always_given_and_every_view_is_there(world: World) -> None:
    for _ in range(5):
        look(world)
    for focus in VIEWS:
        assert look(world, focus, caller="root")["focus"] == focus


def test_one_worker_can_be_asked_about_by_its_ancestor(world: World) -> None:
    assert names(look(world, worker="a2")["workers"], "worker") == ["a2"]
    assert world.fault("a2", "get_worker_status", worker="a1") == "NotAllowed"
    assert world.fault("b1", "get_worker_status", worker="a1") == "NotFound"
    assert look(world, caller="a2")["text"] == "you have no descendants"
