"""Parameters under the names that the seeds give them, beside ours."""

from __future__ import annotations

import pytest
from fixtures.tasks import give, state
from fixtures.world import World, fields, rows

from hive_core.errors import Conflict, InvalidArgument, InvalidParameter


@pytest.fixture(autouse=True)
def team(world: World) -> None:
    world.grow("root/lead:lead", "lead/w:worker")


def test_a_plan_is_decided_by_task_id_and_plan_id(world: World) -> None:
    task = give(world, "lead", "w", plan_required=True)
    first = world.call("w", "create_plan", task=task, steps=["look"])["plan"]
    world.call("lead", "reject_plan", task_id=task, plan_id=first, reason="too short")
    second = world.call("w", "create_plan", task=task, steps=["look", "mend"])["plan"]
    world.call("lead", "approve_plan", task_id=task, plan_id=second)
    assert state(world, task) == "in_progress"


def test_one_parameter_under_two_names_is_refused(world: World) -> None:
    task = give(world, "lead", "w")
    with pytest.raises(InvalidParameter, match="task_id"):
        world.call("lead", "approve_plan", task=task, task_id=task, plan="x")


def test_an_agent_with_one_task_need_not_say_which(world: World) -> None:
    task = give(world, "lead", "w")
    assert world.call("w", "report_progress", text="half", percent=50)["task"] == task
    reply = world.call("w", "report_to_parent", status="partial", summary="half", data={"n": 1})
    assert (reply["task"], reply["state"]) == (task, "done")


def test_with_no_task_or_with_several_it_has_to(world: World) -> None:
    with pytest.raises(Conflict, match="you do not work on a task"):
        world.call("w", "report_to_parent", status="success", summary="x")
    tasks = [give(world, "lead", "w") for _ in range(2)]
    with pytest.raises(InvalidArgument, match="you work on 2"):
        world.call("w", "report_to_parent", status="success", summary="x")
    assert [state(world, task) for task in tasks] == ["in_progress"] * 2


def test_types_of_agents_may_be_written_large(world: World) -> None:
    wish = {"agent_role": "Editor", "task_description": "edit"}
    made = world.call("lead", "spawn_agent_and_assign_task", agent_type="Manager", **wish)
    assert made["state"] == "pending_delegation"
    assert world.fault("lead", "spawn_agent_and_assign_task", agent_type="boss", **wish)


def test_triggers_take_timezone_and_interval(world: World) -> None:
    then = {"kind": "message", "text": "go"}
    zoned = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}
    made = world.call("lead", "set_trigger", name="daily", when=zoned, action=then)
    assert made["explained"] == "At 03:00 every day (Europe/Berlin)"
    made = world.call("lead", "set_trigger", name="often", when={"interval": 60}, action=then)
    assert made["next"] == world.clock.now() + 60


def test_an_escalation_has_a_reason(world: World) -> None:
    world.call("w", "escalate", reason="no disk", severity="error", context="full")
    (row,) = rows(world.call("lead", "list_worker_questions")["questions"])
    assert (row["prompt"], row["severity"]) == ("no disk", "error")


@pytest.mark.parametrize("cursor", [{"after": 1}, {"since": 1}, {"since": "1"}])
def test_events_are_followed_from_a_number(world: World, cursor: dict[str, object]) -> None:
    world.call("lead", "note_event", kind="mark", text="here")
    result = rows(world.call("lead", "subscribe", **cursor)["events"])
    assert fields(result[-1])["text"] == "here"


def test_artifacts_have_keys(world: World) -> None:
    made = world.call("w", "store_artifact", key="notes.txt", text="hello")
    reply = world.call("w", "get_artifact", key="notes.txt")
    assert isinstance(reply["artifact"], dict)
    assert (reply["artifact"]["id"], reply["artifact"]["name"]) == (made["id"], "notes.txt")
