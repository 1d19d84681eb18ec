"""A parent gets notice when another party ended its child, and not of its own acts."""

from __future__ import annotations

import pytest
from fixtures.machines import start_machines
from fixtures.tasks import read
from fixtures.world import World

HOW: dict[str, tuple[str, dict[str, object], str]] = {
    "stop": ("stop", {}, "a1 was stopped by {}"),
    "kill": ("kill", {"reason": "too loud"}, "a1 was killed by {}: too loud"),
    "destroy": ("destroy", {"recursive": True}, "a1 was destroyed by {}"),
}


def exits(world: World, name: str) -> list[object]:
    return [item["body"] for item in read(world, name) if item["kind"] == "child_exit"]


@pytest.mark.parametrize("who", ["root", "operator"])
@pytest.mark.parametrize("how", HOW)
def test_a_parent_is_told_when_another_caller_ends_its_idle_child(
    world: World, how: str, who: str
) -> None:
    start_machines(world, "a", "a1", "a11")
    operation, params, text = HOW[how]
    world.call(who, operation, agent="a1", **params)
    assert exits(world, "a") == [text.format(who)]


@pytest.mark.parametrize("how", HOW)
def test_a_parent_is_not_told_what_it_did_itself(world: World, how: str) -> None:
    start_machines(world, "a", "a1", "a11")
    operation, params, _ = HOW[how]
    world.call("a", operation, agent="a1", **params)
    assert exits(world, "a") == []


def test_of_a_whole_subtree_only_the_ancestor_that_stays_is_told(world: World) -> None:
    start_machines(world, "a", "a1", "a11", "a2")
    world.call("operator", "kill", agent="a", recursive=True)
    assert exits(world, "root") == ["a was killed by operator"]
    assert exits(world, "a") == exits(world, "a1") == []


def test_what_did_not_run_is_no_end(world: World) -> None:
    start_machines(world, "a1")
    world.call("a", "stop", agent="a1")
    world.seen.states[world.uuid("a1")] = world.seen.state(world.uuid("a1"))
    world.call("operator", "stop", agent="a1")
    assert exits(world, "a") == []


def test_the_new_parent_of_orphans_gets_one_message(world: World) -> None:
    start_machines(world, "a", "a1", "a11")
    world.call("operator", "destroy", agent="a1")
    assert [item["kind"] for item in read(world, "a")] == ["adopted"]
