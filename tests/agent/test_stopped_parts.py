"""Nobody of the built-in ones waits for an agent that was stopped on purpose."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine
from fixtures.queen import QueenHarness

JOB = "group\nsum 1 2\ngroup\nsum 3 4\ncombine sum"
PLANNED = "architect\n" + JOB


def stop(harness: QueenHarness, name: str) -> None:
    """The operator stops it; what it had begun goes back into the queue."""
    harness.world.call("operator", "stop", agent=name)
    end_machine(harness.world, name, 0)
    harness.built_in.behaviours.pop(harness.world.uuid(name), None)


def works(harness: QueenHarness, role: str) -> str:
    """The agent of this role that has begun something; empty if none has."""
    tasks = harness.world.ledger.tasks
    busy = (name for name in harness.agents(role) if tasks.offered_tasks(harness.world.uuid(name)))
    return next(busy, "")


@pytest.mark.parametrize("role", ["lead", "worker"])
@pytest.mark.parametrize("queen", ["stays", "starts again"])
def test_what_was_given_to_a_stopped_agent_is_tried_again(
    harness: QueenHarness, role: str, queen: str
) -> None:
    task, stopped = harness.assign(JOB), list[str]()

    def over() -> bool:
        name = works(harness, role)
        if name and not stopped:
            stop(harness, name)
            stopped.append(name)
            if queen != "stays":
                harness.built_in.crash("queen")
        return harness.built_in.task(task)["result"] is not None

    harness.built_in.play(over)
    row = harness.built_in.task(task)
    assert (row["result"]["status"], row["result"]["summary"]) == ("success", "10")
    assert stopped


def test_an_agent_that_is_stopped_each_time_is_reported(harness: QueenHarness) -> None:
    task = harness.assign(JOB)

    def over() -> bool:
        if name := works(harness, "lead"):
            stop(harness, name)
        return harness.built_in.task(task)["result"] is not None

    harness.built_in.play(over)
    result = harness.built_in.task(task)["result"]
    assert result["status"] == "failed"
    assert "is stopped" in result["summary"]


def test_an_architect_whose_task_was_taken_back_goes(harness: QueenHarness) -> None:
    task = harness.assign(PLANNED)
    harness.built_in.play(lambda: bool(harness.agents("architect")))
    harness.world.call("operator", "cancel_task", task=task)
    harness.built_in.play(lambda: not harness.agents("architect"))
