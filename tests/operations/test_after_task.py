"""What agents do when their last task has ended (row K6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine, end_task, run_of, start_machines
from fixtures.world import World, world

from hive_core.model.agents.agent import Role
from hive_core.model.agents.machine import DesiredState, State

USUAL = {
    "daemon": DesiredState.RUNNING,
    "agent": DesiredState.RUNNING,
    "lead": DesiredState.RUNNING,
    "worker": DesiredState.RUNNING,
    "architect": DesiredState.SLEEPING,
    "task": DesiredState.STOPPED,
}


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world() as made:
        yield made


def pet(world: World, role: str, **more: object) -> None:
    world.call("operator", "spawn", name="pet", role=role, **more)
    start_machines(world, "pet")


@pytest.mark.parametrize("role", Role)
def test_as_the_role_says(world: World, role: Role) -> None:
    """K6: a task exits, an architect sleeps, the rest stay; half a second after the result."""
    pet(world, role)
    end_task(world, "pet")
    world.advance(0.4)
    assert run_of(world, "pet").wanted is DesiredState.RUNNING
    world.advance(0.2)
    assert run_of(world, "pet").wanted is USUAL[role]


def test_a_worker_as_its_parent_says(world: World) -> None:
    """K6, section 6: `after_task` of a worker is its parent's to set."""
    pet(world, "worker", after_task="exits")
    end_task(world, "pet")
    world.advance(1)
    assert run_of(world, "pet").wanted is DesiredState.STOPPED
    end_machine(world, "pet", 0)
    assert world.mail("root") == []
    world.advance(60)
    assert "pet" not in world.hive.specs


def test_one_whose_machine_has_not_come_up_yet_leaves_when_it_has(world: World) -> None:
    """Otherwise no end would be recorded, and the agent would never be reaped."""
    world.call("operator", "spawn", name="pet", role="task")
    end_task(world, "pet", "stopped")
    world.advance(5)
    assert run_of(world, "pet").wanted is DesiredState.RUNNING
    start_machines(world, "pet")
    end_task(world, "pet", "stopped")
    world.advance(2)
    assert run_of(world, "pet").wanted is DesiredState.STOPPED


@pytest.mark.parametrize("state", [State.FAILED, State.PARKED])
def test_one_that_failed_stays_as_it_is(world: World, state: State) -> None:
    """Its end is written down already, and says more than that its task has ended."""
    pet(world, "task")
    world.seen.states[world.uuid("pet")] = state
    end_task(world, "pet", "failed")
    world.advance(1)
    assert run_of(world, "pet").wanted is DesiredState.RUNNING


def test_mail_that_came_with_the_last_task_wakes_it_again(world: World) -> None:
    """Nothing may lie there until something else comes."""
    pet(world, "architect", wakes=True)
    world.call("operator", "send", to="pet", body="one more")
    end_task(world, "pet")
    world.advance(1)
    assert run_of(world, "pet").wanted is DesiredState.SLEEPING
    end_machine(world, "pet", 0)
    assert run_of(world, "pet").wanted is DesiredState.RUNNING
