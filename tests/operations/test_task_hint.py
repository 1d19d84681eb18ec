"""Who gives a task to an agent that will not begin it hears so at once, with its state."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine, run_of, start_machines
from fixtures.world import World, rows

from hive_core.model.agents.machine import FailureHistory, State


def assign(world: World, **more: object) -> dict[str, object]:
    return world.call("a", "assign_task", agent="a1", description="x", **more)


def test_an_agent_that_reads_nothing_is_named_until_it_asks_for_its_mail(world: World) -> None:
    start_machines(world, "a1")
    said = assign(world)
    assert said["state"] == "queued"
    assert said["hint"] == "a1 runs and has not asked for its mail since it started"
    world.call("a1", "recv")
    assert assign(world)["hint"] == ""
    end_machine(world, "a1", 137, returns=True)
    start_machines(world, "a1")
    assert "has not asked" in str(assign(world)["hint"])


STATES = {
    State.STOPPED: "a1 is stopped: it gets the task when it is started",
    State.FAILED: "a1 is failed (ended with 7): it gets the task when it is started",
    State.PARKED: "a1 is parked (ended with 7): it gets the task when it is started",
    State.SLEEPING: "a1 sleeps: it gets the task when it is resumed",
    State.STARTING: "",
}


@pytest.mark.parametrize("state", STATES)
def test_the_state_of_an_agent_that_cannot_begin_is_said(world: World, state: State) -> None:
    uuid = world.uuid("a1")
    with world.ledger.transaction():
        nonce = run_of(world, "a1").nonce
        world.ledger.starts.put(
            uuid,
            FailureHistory(
                (1.0,), 1.0, parked=False, exit_seen="i", nonce=nonce, why="ended with 7"
            ),
        )
    world.seen.states[uuid] = state
    said = assign(world)
    assert said["hint"] == STATES[state]
    assert world.call("operator", "get_task", task=said["task"])["hint"] == said["hint"]


def test_nothing_is_said_of_what_waits_for_others_or_was_begun(world: World) -> None:
    first = assign(world)
    second = assign(world, needs=[first["task"]])
    assert second["hint"] == ""
    world.call("a1", "begin_task", task=first["task"])
    assert world.call("operator", "get_task", task=first["task"])["hint"] == ""


def test_an_agent_that_took_a_task_and_does_not_begin_it_is_named(world: World) -> None:
    """No deadline runs before it begins, so its assigner has to hear what it waits for."""
    start_machines(world, "a1")
    world.call("a1", "recv")
    task = assign(world)["task"]
    assert world.call("a", "get_task", task=task)["hint"] == ""
    letters = rows(world.call("a1", "recv", max=10)["messages"])
    world.call("a1", "ack", ids=[letter["id"] for letter in letters])
    hint = "a1 has received the task and not begun it: no deadline runs before it does"
    assert world.call("a", "get_task", task=task)["hint"] == hint
    world.call("a1", "begin_task", task=task)
    assert world.call("a", "get_task", task=task)["hint"] == ""


def test_an_agent_that_has_a_message_to_do_is_at_work(world: World) -> None:
    def activity() -> object:
        agents = rows(world.call("a", "list_agents", root="a1")["agents"])
        return agents[0]["activity"]

    world.call("a", "send", to="a1", body="hello")
    assert activity() == "idle"
    (letter,) = rows(world.call("a1", "recv")["messages"])
    assert activity() == "running"
    world.call("a1", "ack", ids=[letter["id"]])
    assert activity() == "idle"
