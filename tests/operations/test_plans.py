"""T6, T7: the assignee makes a plan; the assigner approves it, once, by id."""

from __future__ import annotations

import json

import pytest
from fixtures.tasks import give, state
from fixtures.world import Reply, World, rows, world

from hive_core.errors import Conflict, NotFound
from hive_core.operations.tasks.steps import execution_lock

STEPS = [{"title": "look", "tools": ["read_file"]}, {"title": "mend", "detail": "line 3"}]


def propose(world: World, agent: str, task: str, **more: object) -> Reply:
    return world.call(agent, "create_plan", task=task, steps=STEPS, **more)


def prompts(world: World, name: str = "a") -> list[Reply]:
    return [message for message in world.mail(name) if message["kind"] == "plan_submitted"]


def test_a_plan_waits_for_the_assigner_and_execution_is_locked(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    plan = propose(world, "a1", task, note="careful")
    assert (plan["state"], plan["decides"]) == ("submitted", "a")
    assert state(world, task) == "awaiting_plan_approval"
    assert execution_lock(world.ledger, world.uuid("a1"))
    (letter,) = prompts(world)
    head, _, text = str(letter["body"]).partition("\n")
    assert json.loads(head) == {"task": task, "plan": plan["plan"], "agent": "a1", "voids": []}
    assert "1. look [read_file]" in text
    assert f"approve_plan {task} {plan['plan']}" in text
    assert "careful" in text


def test_a_step_may_be_said_as_its_title_alone(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    made = world.call("a1", "create_plan", task=task, steps=["look", {"title": "mend"}])
    steps = world.call("a1", "get_plan", plan=made["plan"])["steps"]
    assert [step["title"] for step in rows(steps)] == ["look", "mend"]


def test_execution_is_locked_before_there_is_a_plan(world: World) -> None:
    give(world, "a", "a1", plan_required=True)
    assert "needs an approved plan" in execution_lock(world.ledger, world.uuid("a1"))


def test_an_approved_plan_unlocks_and_the_agent_is_told(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    plan = propose(world, "a1", task)["plan"]
    done = world.call("a", "approve_plan", task=task, plan=plan)
    assert done == {"plan": plan, "task": task, "agent": "a1", "state": "approved"}
    assert state(world, task) == "in_progress"
    assert execution_lock(world.ledger, world.uuid("a1")) == ""
    assert "plan_approved" in [message["kind"] for message in world.mail("a1")]


def test_a_plan_is_approved_exactly_once(world: World) -> None:
    task = give(world, "a", "a1")
    plan = propose(world, "a1", task)["plan"]
    world.call("a", "approve_plan", task=task, plan=plan)
    with pytest.raises(Conflict, match="it is approved"):
        world.call("operator", "approve_plan", task=task, plan=plan)
    with pytest.raises(Conflict, match="it is approved"):
        world.call("a", "reject_plan", task=task, plan=plan, reason="late")


def test_a_rejected_plan_keeps_the_lock_and_tells_why(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    plan = propose(world, "a1", task)["plan"]
    world.call("a", "reject_plan", task=task, plan=plan, reason="too risky")
    assert state(world, task) == "in_progress"
    assert execution_lock(world.ledger, world.uuid("a1"))
    (letter,) = [message for message in world.mail("a1") if message["kind"] == "plan_rejected"]
    assert "too risky" in str(letter["body"])
    assert world.fault("a", "approve_plan", task=task, plan=plan) == "Conflict"


def test_a_revised_plan_voids_the_one_before(world: World) -> None:
    task = give(world, "a", "a1")
    first = propose(world, "a1", task)["plan"]
    second = propose(world, "a1", task)
    assert second["voids"] == [first]
    with pytest.raises(Conflict, match="took its place"):
        world.call("a", "approve_plan", task=task, plan=first)
    world.call("a", "approve_plan", task=task, plan=second["plan"])
    states = [plan["state"] for plan in rows(world.call("a", "list_plans", task=task)["plans"])]
    assert states == ["approved", "void"]


def test_a_revision_of_an_approved_plan_locks_again(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    world.call("a", "approve_plan", task=task, plan=propose(world, "a1", task)["plan"])
    third = propose(world, "a1", task)["plan"]
    assert execution_lock(world.ledger, world.uuid("a1"))
    world.call("a", "reject_plan", task=task, plan=third, reason="no")
    assert execution_lock(world.ledger, world.uuid("a1"))


def test_no_message_is_taken_for_an_approval(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    plan = propose(world, "a1", task)["plan"]
    for kind in ("message", "plan_approved", "approve_plan"):
        world.call("a", "send", to="a1", kind=kind, body=f"approved: {plan}")
    assert state(world, task) == "awaiting_plan_approval"
    assert execution_lock(world.ledger, world.uuid("a1"))


@pytest.mark.parametrize(
    ("caller", "error"),
    {"a": "", "root": "", "operator": "", "a1": "NotAllowed", "a2": "NotAllowed",
     "a11": "NotAllowed", "b": "NotFound"}.items(),
)  # fmt: skip
def test_callers_that_may_approve(world: World, caller: str, error: str) -> None:
    task = give(world, "a", "a1")
    plan = propose(world, "a1", task)["plan"]
    assert world.fault(caller, "approve_plan", task=task, plan=plan) == error
    assert (state(world, task) == "in_progress") == (error == "")


def test_the_task_must_be_the_plan_s(world: World) -> None:
    task, other = give(world, "a", "a1"), give(world, "a", "a2")
    plan = propose(world, "a1", task)["plan"]
    with pytest.raises(NotFound):
        world.call("a", "approve_plan", task=other, plan=plan)


def test_only_the_assignee_plans_its_task(world: World) -> None:
    task = give(world, "a", "a1")
    assert world.fault("a", "create_plan", task=task, steps=STEPS) == "NotAllowed"
    assert world.fault("a2", "create_plan", task=task, steps=STEPS) == "NotFound"
    assert world.fault("a1", "create_plan", steps=STEPS) == "InvalidArgument"


def test_the_own_plans_of_a_main_manager_need_no_approval(world: World) -> None:
    own = world.call("root", "create_plan", steps=STEPS)
    assert (own["state"], own["decides"]) == ("approved", "")
    task = give(world, "operator", "root", plan_required=True)
    assert execution_lock(world.ledger, world.uuid("root"))
    assert propose(world, "root", task)["state"] == "approved"
    assert execution_lock(world.ledger, world.uuid("root")) == ""
    assert not prompts(world, "operator")


def test_steps_of_an_approved_plan_have_their_own_status(world: World) -> None:
    task = give(world, "a", "a1")
    plan = propose(world, "a1", task)["plan"]
    step = {"plan": plan, "step": 1, "status": "in_progress"}
    assert world.fault("a1", "update_plan_step", **step) == "Conflict"
    world.call("a", "approve_plan", task=task, plan=plan)
    world.call("a1", "update_plan_step", **step)
    world.call("a1", "update_plan_step", plan=plan, step=1, status="done", note="fine")
    shown = rows(world.call("a", "get_plan", plan=plan)["steps"])
    assert [(item["status"], item["note"]) for item in shown] == [("done", "fine"), ("pending", "")]
    with pytest.raises(Conflict):
        world.call("a1", "update_plan_step", plan=plan, step=1, status="failed")
    assert world.fault("a1", "update_plan_step", plan=plan, step=3, status="done") == "NotFound"
    assert world.fault("a", "update_plan_step", plan=plan, step=2, status="done") == "NotAllowed"


def test_of_a_task_that_has_ended_no_plan_is_decided(world: World) -> None:
    task = give(world, "a", "a1")
    plan = propose(world, "a1", task)["plan"]
    world.call("a", "cancel_task", task=task)
    assert world.fault("a", "approve_plan", task=task, plan=plan) == "Conflict"


def test_a_plan_can_be_decided_when_the_assigner_is_destroyed() -> None:
    with world(None, "root/a", "a/a1", "a1/a11") as made:
        task = give(made, "a1", "a11")
        plan = propose(made, "a11", task)["plan"]
        made.call("operator", "destroy", agent="a1")
        made.call("a", "approve_plan", task=task, plan=plan)
        assert state(made, task) == "in_progress"


def test_a_plan_of_a_hundred_long_steps_is_a_message_of_bounded_size(world: World) -> None:
    task = give(world, "a", "a1")
    steps = [{"title": "x", "detail": "y" * 2000}] * 100
    plan = world.call("a1", "create_plan", task=task, steps=steps)["plan"]
    (letter,) = prompts(world)
    body = str(letter["body"])
    assert len(body) < 64 * 1024
    assert f"more: get_plan {plan}" in body
    assert len(rows(world.call("a", "get_plan", plan=plan)["steps"])) == 100
    assert world.fault("a1", "create_plan", task=task, steps=[*steps, steps[0]]) == (
        "InvalidArgument"
    )
