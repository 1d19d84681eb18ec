"""Zombies: which agents are zombies, that they take no seat, and when they go (rows K4, K8, K9)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.world import World, names, world

from hive_core.model.config.limits import LifeSettings
from hive_core.model.config.settings import Settings


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """A lead with a one-shot child and one that is not; reaped ten seconds after the end."""
    settings = Settings(life=LifeSettings(reap=10))
    with world(settings, "root/lead:lead", "lead/worker:worker", "lead/once:task") as made:
        start_machines(made, "root", "lead", "worker", "once")
        yield made


@pytest.mark.parametrize("code", [0, 1, None])
def test_a_one_shot_agent_goes_after_a_while(world: World, code: int | None) -> None:
    """K8: by its own timestamp, whatever happened to it meanwhile."""
    end_machine(world, "once", code)
    world.advance(5)
    world.call("operator", "allow", agent="once", other="root")
    world.advance(4.9)
    assert "once" in world.hive.specs
    world.advance(0.2)
    assert "once" not in world.hive.specs
    assert names(world.call("operator", "list_archives")["archives"]) == ["once"]


def test_a_process_that_stays_is_no_zombie(world: World) -> None:
    """K6, K9: a worker that was stopped, or crashed, keeps its place."""
    end_machine(world, "worker", 1)
    world.advance(3600)
    assert "worker" in world.hive.specs


def test_a_worker_that_exits_after_its_task_leaves_its_children_to_its_parent(world: World) -> None:
    """K9: reaping adopts, with an event and a notice."""
    world.call("lead", "spawn", name="brief", role="lead", after_task="exits")
    world.call("brief", "spawn", name="kid", role="worker")
    start_machines(world, "brief", "kid")
    end_machine(world, "brief", 0)
    world.advance(11)
    assert "brief" not in world.hive.specs
    assert world.hive.topology.parent("kid") == "lead"
    assert "adopted" in {letter["kind"] for letter in world.mail("lead")}
    (event,) = (event for event in world.events() if event["operation"] == "reap")
    assert (event["kind"], event["target"]) == ("change", "brief")


def test_asking_how_it_ended_reaps_at_once(world: World) -> None:
    """K7."""
    end_machine(world, "once", 0)
    world.call("lead", "wait_child", agent="once")
    world.advance(0)
    assert "once" not in world.hive.specs


def test_one_that_is_started_again_is_spared(world: World) -> None:
    end_machine(world, "once", 1)
    world.advance(5)
    world.call("lead", "restart", agent="once")
    world.advance(60)
    assert "once" in world.hive.specs
    start_machines(world, "once")
    end_machine(world, "once", 1)
    world.advance(11)
    assert "once" not in world.hive.specs


def test_a_zombie_takes_no_seat(world: World) -> None:
    """K4: and one that is to run again needs one."""
    world.call("root", "spawn", name="boss", role="lead", max_children=1)
    world.call("boss", "spawn", name="first", role="task")
    start_machines(world, "boss", "first")
    assert world.fault("boss", "spawn", name="second", role="task") == "LimitReached"
    end_machine(world, "first", 0)
    assert world.fault("boss", "spawn", name="second", role="task") == ""
    assert world.fault("boss", "spawn", name="third", role="task") == "LimitReached"
    assert world.fault("boss", "start", agent="first") == "LimitReached"
    assert world.fault("operator", "start", agent="first") == ""


def test_what_is_due_survives_a_clock_that_is_set(world: World) -> None:
    """R16: ten seconds stay ten seconds."""
    end_machine(world, "once", 0)
    with world.ledger.transaction():
        world.ledger.shifts.move(1e6, world.clock.now() + 1e6, 0)
    world.clock.time += 1e6
    world.agenda.on_clock_set()
    world.advance(9)
    assert "once" in world.hive.specs
    world.advance(2)
    assert "once" not in world.hive.specs


def test_one_that_is_destroyed_is_not_reaped_once_more(world: World) -> None:
    end_machine(world, "once", 0)
    world.call("lead", "destroy", agent="once")
    world.advance(60)
    assert [event["operation"] for event in world.events()].count("reap") == 0
