"""Nobody of the built-in ones waits for an agent that was stopped on purpose."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine
from fixtures.queen import AgentStage

JOB = "group\nsum 1 2\ngroup\nsum 3 4\ncombine sum"
PLANNED = "architect\n" + JOB


def stop(stage: AgentStage, name: str) -> None:
    """The operator stops it; what it had begun goes back into the queue."""
    stage.world.call("operator", "stop", agent=name)
    end_machine(stage.world, name, 0)
    stage.troupe.minds.pop(stage.world.uuid(name), None)


def works(stage: AgentStage, role: str) -> str:
    """Who of this role has begun something; empty: nobody."""
    tasks = stage.world.ledger.tasks
    busy = (name for name in stage.agents(role) if tasks.offered_tasks(stage.world.uuid(name)))
    return next(busy, "")


@pytest.mark.parametrize("role", ["lead", "worker"])
@pytest.mark.parametrize("queen", ["stays", "starts again"])
def test_what_was_given_to_one_who_is_stopped_is_tried_again(
    stage: AgentStage, role: str, queen: str
) -> None:
    task, stopped = stage.assign(JOB), list[str]()

    def over() -> bool:
        name = works(stage, role)
        if name and not stopped:
            stop(stage, name)
            stopped.append(name)
            if queen != "stays":
                stage.troupe.crash("queen")
        return stage.troupe.task(task)["result"] is not None

    stage.troupe.play(over)
    row = stage.troupe.task(task)
    assert (row["result"]["status"], row["result"]["summary"]) == ("success", "10")
    assert stopped


def test_who_is_stopped_each_time_is_reported(stage: AgentStage) -> None:
    task = stage.assign(JOB)

    def over() -> bool:
        if name := works(stage, "lead"):
            stop(stage, name)
        return stage.troupe.task(task)["result"] is not None

    stage.troupe.play(over)
    result = stage.troupe.task(task)["result"]
    assert result["status"] == "failed"
    assert "is stopped" in result["summary"]


def test_an_architect_whose_task_was_taken_back_goes(stage: AgentStage) -> None:
    task = stage.assign(PLANNED)
    stage.troupe.play(lambda: bool(stage.agents("architect")))
    stage.world.call("operator", "cancel_task", task=task)
    stage.troupe.play(lambda: not stage.agents("architect"))
