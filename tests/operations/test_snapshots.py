"""keep_snapshot and get_snapshot (row K12)."""

from __future__ import annotations

import pytest
from fixtures.machines import start_machines
from fixtures.world import World


def test_what_was_kept_comes_back(world: World) -> None:
    """K12: the newest snapshot, over a restart, and no other agent's."""
    assert world.call("a", "get_snapshot") == {"data": "", "kept_at": None}
    world.call("a", "keep_snapshot", data="step 3")
    at = world.clock.now()
    assert world.call("a", "keep_snapshot", data="step 4 ☃") == {"size": 10}
    world.call("root", "restart", agent="a")
    start_machines(world, "a")
    assert world.call("a", "get_snapshot") == {"data": "step 4 ☃", "kept_at": at}
    assert world.call("a1", "get_snapshot")["data"] == ""


def test_it_can_be_kept_while_the_agent_is_stopped(world: World) -> None:
    """K12: in the handler of TERM, within the grace."""
    start_machines(world, "a")
    world.call("root", "stop", agent="a")
    world.call("a", "keep_snapshot", data="in time")
    assert world.call("a", "get_snapshot")["data"] == "in time"


def test_an_empty_one_is_none(world: World) -> None:
    world.call("a", "keep_snapshot", data="x")
    world.call("a", "keep_snapshot", data="")
    assert world.call("a", "get_snapshot")["kept_at"] is None


@pytest.mark.parametrize("data", ["x" * 65_537, "☃" * 21_846])
def test_it_is_bounded(world: World, data: str) -> None:
    world.call("a", "keep_snapshot", data="x" * 65_536)
    assert world.fault("a", "keep_snapshot", data=data) == "InvalidArgument"
    assert world.call("a", "get_snapshot")["data"] == "x" * 65_536


def test_an_agent_that_is_restored_has_it_and_a_new_one_of_its_name_has_not(world: World) -> None:
    """Keyed by identity: a reused name inherits nothing."""
    uuid = world.uuid("a2")
    world.call("a2", "keep_snapshot", data="mine")
    world.call("a", "destroy", agent="a2")
    world.call("a", "spawn", name="a2")
    assert world.call("a2", "get_snapshot")["data"] == ""
    world.call("a", "destroy", agent="a2")
    world.call("operator", "restore", id=uuid)
    assert world.call("a2", "get_snapshot")["data"] == "mine"


def test_the_operator_has_none(world: World) -> None:
    assert world.fault("operator", "keep_snapshot", data="x") == "Conflict"
