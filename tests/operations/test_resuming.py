"""Q23: the same agent continues ended work, with guidance, as a new task."""

from __future__ import annotations

import pytest
from fixtures.tasks import end, give, state, take
from fixtures.world import World

from hive_core.errors import Conflict
from hive_core.model.agents.machine import DesiredState


def resume(world: World, task: str, caller: str = "a", **more: object) -> dict[str, object]:
    return world.call(caller, "resume_task", task=task, guidance="use tin", **more)


@pytest.mark.parametrize("status", ["failed", "partial", "timeout", "stopped"])
def test_it_has_the_text_what_there_was_and_the_guidance(world: World, status: str) -> None:
    task = give(world, "a", "a1", description="mend the roof", data={"x": 7})
    end(world, task, status, summary="half of it", artifacts=["art1"])
    result = resume(world, task)
    assert (result["agent"], result["resumes"]) == ("a1", task)
    assert result["task"] != task
    (letter,) = [item for item in take(world, "a1") if item["kind"] == "task"]
    body = str(letter["body"])
    for part in ("mend the roof", "half of it", "Guidance: use tin", '"x": 7', "art1"):
        assert part in body
    assert state(world, str(result["task"])) == "in_progress"


def test_a_stopped_machine_is_started_for_it(world: World) -> None:
    task = give(world, "a", "a1")
    world.call("a", "stop_work", reason="rain")
    end(world, task)
    world.call("a", "stop", agent="a1")
    resume(world, task)
    run = world.ledger.runs.get(world.uuid("a1"))
    assert run is not None
    assert run.wanted is DesiredState.RUNNING


def test_a_sleeper_is_woken_for_it(world: World) -> None:
    task = give(world, "a", "a1")
    end(world, task, "failed")
    world.call("a", "sleep", agent="a1")
    resume(world, task)
    run = world.ledger.runs.get(world.uuid("a1"))
    assert run is not None
    assert run.wanted is DesiredState.RUNNING


def test_open_successful_and_unassigned_items_are_not_resumed(world: World) -> None:
    task = give(world, "a", "a1")
    with pytest.raises(Conflict, match="has not ended"):
        resume(world, task)
    end(world, task)
    with pytest.raises(Conflict, match="ended as success"):
        resume(world, task)
    other = give(world, "a", "a2")
    end(world, other, "failed")
    world.call("a", "destroy", agent="a2")
    with pytest.raises(Conflict, match="a2 is destroyed"):
        resume(world, other)


@pytest.mark.parametrize(
    ("caller", "error"),
    {"a": "", "root": "", "operator": "", "a1": "NotAllowed", "a2": "NotAllowed",
     "b1": "NotFound"}.items(),
)  # fmt: skip
def test_callers_that_are_allowed(world: World, caller: str, error: str) -> None:
    task = give(world, "a", "a1")
    end(world, task, "failed")
    assert world.fault(caller, "resume_task", task=task, guidance="x") == error
