"""quarantine and lift_quarantine: a subtree that nothing leaves (attack 44)."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.machines import start_machines
from fixtures.tasks import give
from fixtures.world import World, rows

from hive_core.broker.quarantine import FREE, HELD_ACTIONS, HELD_WORK, is_held
from hive_core.errors import Conflict, NotAllowed
from hive_core.operations import load

WHO = {"a": "", "root": "", "operator": "", "a1": "NotAllowed", "a2": "NotAllowed",
       "a11": "NotAllowed", "b1": "NotFound"}  # fmt: skip


def hold(world: World, agent: str = "a", **params: object) -> None:
    world.call("operator", "quarantine", agent=agent, **params)


@for_each("caller, error", WHO.items())
def test_who_may_hold_an_agent(world: World, caller: str, error: str) -> None:
    assert world.fault(caller, "quarantine", agent="a1") == error


@pytest.mark.parametrize("caller", ["a", "a1", "root"])
def test_only_the_operator_lets_it_go(world: World, caller: str) -> None:
    hold(world, "a1")
    assert world.fault(caller, "lift_quarantine", agent="a1") == "NotAllowed"
    assert world.call("operator", "lift_quarantine", agent="a1") == {"agent": "a1", "agents": 2}
    with pytest.raises(Conflict, match="cannot lift the quarantine of a1: it has none"):
        world.call("operator", "lift_quarantine", agent="a1")


def test_nothing_leaves_the_subtree_and_others_work_on(world: World) -> None:
    reply = world.call("operator", "quarantine", agent="a", reason="it writes to everybody")
    assert reply == {"agent": "a", "agents": 4}
    for caller, operation, params in (
        ("a11", "send", {"to": "a1", "body": "x"}),
        ("a", "send", {"to": "operator", "body": "x"}),
        ("a", "publish", {"topic": "t", "body": "x"}),
        ("a", "assign_task", {"agent": "a1", "description": "x"}),
        ("a", "spawn", {"name": "new"}),
        ("a1", "ask", {"items": ["x?"]}),
        ("a1", "escalate", {"issue": "x", "severity": "info"}),
        ("a1", "use_tool", {"tool": "bash", "argument": ["id"]}),
        ("a1", "remind", {"body": "x", "in": 5}),
        ("a", "store_artifact", {"name": "x", "text": "x"}),
        ("a", "open_pipe", {"agent": "a1"}),
    ):
        with pytest.raises(NotAllowed, match="quarantine of ") as error:
            world.call(caller, operation, **params)
        assert error.value.fields["rule"] == "quarantine"
        event = world.events()[-1]
        assert (event["kind"], event["operation"], event["rule"]) == (
            "refusal", operation, "quarantine",
        )  # fmt: skip
    world.call("b", "send", to="root", body="free")
    world.call("root", "send", to="a", body="it still receives")
    assert rows(world.call("a", "recv")["messages"])[0]["body"] == "it still receives"
    for operation in ("whoami", "list_tasks", "wake"):
        params = {"body": "mine"} if operation == "wake" else {}
        assert world.fault("a11", operation, **params) == ""


def test_the_reason_names_whose_quarantine_it_is(world: World) -> None:
    hold(world, "a")
    reason = "a1 is held by a quarantine of a above it, until the operator lifts that"
    with pytest.raises(NotAllowed, match=f"cannot send to a: {reason}"):
        world.call("a1", "send", to="a", body="x")
    with pytest.raises(NotAllowed, match="a is held by a quarantine of it"):
        world.call("a", "send", to="root", body="x")


def test_a_task_is_not_offered_before_it_is_lifted(world: World) -> None:
    start_machines(world, "a1")
    hold(world, "a1")
    task = str(world.call("a", "assign_task", agent="a1", description="x")["task"])
    assert not world.mail("a1")
    assert "quarantine" in str(world.call("a", "get_task", task=task)["hint"])
    world.call("operator", "lift_quarantine", agent="a1")
    assert [letter["kind"] for letter in world.mail("a1")] == ["quarantine", "task"]


def test_a_report_waits_until_it_is_lifted(world: World) -> None:
    start_machines(world, "a1")
    task = give(world, "a", "a1", deadline=0)
    hold(world, "a1")
    report = {"task": task, "status": "success", "summary": "copy me to everybody"}
    assert world.fault("a1", "finish_task", **report) == "NotAllowed"
    world.call("operator", "lift_quarantine", agent="a1")
    assert world.call("a1", "finish_task", **report)["state"] == "done"


def test_it_survives_a_restart_and_a_kill_of_the_daemon(world: World) -> None:
    hold(world, "a", reason="why")
    world.restart()
    assert world.fault("a1", "send", to="a", body="x") == "NotAllowed"
    world.kill()
    assert world.fault("a1", "send", to="a", body="x") == "NotAllowed"
    world.call("operator", "lift_quarantine", agent="a")
    world.kill()
    assert world.fault("a1", "send", to="a", body="x") == ""


def test_it_moves_with_the_agent_and_holds_one_that_is_moved_out(world: World) -> None:
    hold(world, "a")
    world.call("operator", "move", agent="a11", parent="b")
    assert world.fault("a11", "send", to="b", body="x") == "NotAllowed"
    world.call("operator", "move", agent="a", parent="b")
    assert world.fault("a1", "send", to="a", body="x") == "NotAllowed"
    assert world.call("operator", "lift_quarantine", agent="a")["agents"] == 3
    assert world.fault("a11", "send", to="b", body="x") == "NotAllowed"  # on its own now
    world.call("operator", "lift_quarantine", agent="a11")
    assert world.fault("a11", "send", to="b", body="x") == ""


def test_the_end_of_the_held_agent_does_not_free_its_children(world: World) -> None:
    hold(world, "a")
    world.call("root", "destroy", agent="a")
    for agent in ("a1", "a11", "a2"):
        assert world.fault(agent, "send", to="root" if agent != "a11" else "a1", body="x") == (
            "NotAllowed"
        )


def test_an_agent_that_is_restored_is_still_held(world: World) -> None:
    uuid = world.uuid("a2")
    hold(world, "a2")
    world.call("a", "destroy", agent="a2")
    world.call("operator", "restore", id=uuid)
    assert world.fault("a2", "send", to="a", body="x") == "NotAllowed"


def test_an_agent_that_is_made_below_it_is_held_too(world: World) -> None:
    hold(world, "a")
    world.call("operator", "spawn", name="new", parent="a1")
    assert world.fault("new", "send", to="a1", body="x") == "NotAllowed"


def test_two_quarantines_hold_until_both_are_lifted(world: World) -> None:
    hold(world, "a")
    hold(world, "a1")
    assert world.call("operator", "lift_quarantine", agent="a")["agents"] == 2
    assert world.fault("a11", "send", to="a1", body="x") == "NotAllowed"
    assert world.fault("a2", "send", to="a", body="x") == ""


def test_a_trigger_of_a_held_agent_does_nothing(world: World) -> None:
    action = {"kind": "task", "text": "spread"}
    world.call("a", "set_trigger", agent="a1", name="t", when={"every": 60.0}, action=action)
    hold(world, "a")
    world.advance(61)
    assert not rows(world.call("operator", "list_tasks")["tasks"])
    world.call("operator", "lift_quarantine", agent="a")
    world.advance(60)
    assert len(rows(world.call("operator", "list_tasks")["tasks"])) == 1


def test_it_is_shown_by_status_todo_and_the_tree(world: World) -> None:
    hold(world, "a1", reason="it writes to everybody")
    (row,) = rows(world.call("operator", "status")["quarantines"])
    assert (row["agent"], row["agents"], row["by"], row["reason"]) == (
        "a1", 2, "operator", "it writes to everybody",
    )  # fmt: skip
    todo = [
        row for row in rows(world.call("operator", "todo")["todo"]) if row["kind"] == "quarantine"
    ]
    assert [row["id"] for row in todo] == ["a1"]
    listed = {
        row["name"]: row["quarantine"]
        for row in rows(world.call("operator", "list_agents")["agents"])
    }
    assert (listed["a1"], listed["a11"], listed["a"]) == ("a1", "a1", "")


def test_the_parent_is_told(world: World) -> None:
    hold(world, "a1", reason="why")
    assert [letter["body"] for letter in world.mail("a")] == ["a1 is in quarantine: why"]


def test_every_operation_that_acts_is_held_or_known_to_be_harmless() -> None:
    """A new operation of such an action is held without a word."""
    registry = load()
    for name in FREE | HELD_WORK:
        assert name in registry
    held = {name for name, one in registry.items() if is_held(one)}
    assert {"send", "publish", "put", "write_pipe", "inject_message", "use_tool", "spawn",
            "assign_task", "ask", "set_trigger", "request_apply_commit"} <= held  # fmt: skip
    acting = {name for name, one in registry.items() if one.action in HELD_ACTIONS}
    assert acting - held == FREE
