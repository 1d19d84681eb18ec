"""hive plan: what is asked of the daemon, and what the operator sees."""

from __future__ import annotations

import json
from collections.abc import Callable

from cli.run import Hive

from hive_core.errors import Conflict, HiveError, NotFound
from hive_core.varlink import Message

STEP: Message = {
    "step": 1, "title": "look \x1b[2J", "detail": "at line 3", "tools": ["read_file"],
    "status": "pending", "note": "",
}  # fmt: skip
PLAN: Message = {
    "plan": "0123456789ab", "task": "ba9876543210", "agent": "bob", "state": "submitted",
    "note": "careful\nplease", "created": 1.0, "decided_by": "", "decided": None, "reason": "",
    "steps": [STEP],
}  # fmt: skip


def refusing(error: HiveError) -> Callable[[Message], Message]:
    def answer(_: Message) -> Message:
        raise error

    return answer


def test_a_plan_is_shown_by_its_id_or_by_its_task(hive: Hive) -> None:
    def by_id(parameters: Message) -> Message:
        if parameters["plan"] != PLAN["plan"]:
            raise NotFound("no plan")
        return PLAN

    def by_task(parameters: Message) -> Message:
        if parameters["task"] != PLAN["task"]:
            raise NotFound("no task")
        return {"plans": [PLAN, {**PLAN, "plan": "old"}]}

    hive.peer.answers["GetPlan"] = by_id
    hive.peer.answers["ListPlans"] = by_task
    for id_ in (PLAN["plan"], PLAN["task"]):
        done = hive("plan", "show", str(id_))
        assert done.status == 0
        assert "submitted" in done.out
        assert "\x1b" not in done.out
        assert "at line 3" in done.out
        assert f"hive plan approve {PLAN['plan']}" in done.out
    assert json.loads(hive("plan", "show", str(PLAN["task"]), "-o", "json").out) == PLAN


def test_the_plan_of_a_task_needs_no_failing_call(hive: Hive) -> None:
    """A refusal would stand in the log."""
    hive.peer.answers["ListPlans"] = lambda _: {"plans": [PLAN]}
    assert hive("plan", "show", str(PLAN["task"])).status == 0
    assert not hive.peer.params_of("GetPlan")


def test_a_decision_names_the_plan_and_not_its_task(hive: Hive) -> None:
    hive.peer.answers["GetPlan"] = refusing(NotFound("no plan t1"))
    hive.peer.answers["ListPlans"] = lambda _: {"plans": [PLAN]}
    done = hive("plan", "approve", "t1")
    assert done.status == 2
    assert f"t1 is a task: its newest plan is {PLAN['plan']}" in done.err
    assert not hive.peer.params_of("ApprovePlan")


def test_an_unknown_id_is_neither_a_task_nor_a_plan(hive: Hive) -> None:
    hive.peer.answers["GetPlan"] = refusing(NotFound("no plan x"))
    hive.peer.answers["ListPlans"] = refusing(NotFound("no task x"))
    done = hive("plan", "show", "x")
    assert done.status == 4
    assert "no task or plan x" in done.err


def test_a_task_without_a_plan_is_reported(hive: Hive) -> None:
    hive.peer.answers["ListPlans"] = lambda _: {"plans": []}
    done = hive("plan", "show", "x")
    assert done.status == 4
    assert "no plan of task x" in done.err


def test_plans_of_a_task_are_listed(hive: Hive) -> None:
    hive.peer.answers["ListPlans"] = lambda _: {"plans": [PLAN]}
    assert "0123456789ab" in hive("plan", "list", "x").out
    assert hive("plan", "list", "x", "-o", "name").out == "0123456789ab\n"


def test_a_decision_sends_task_and_plan(hive: Hive) -> None:
    asked: list[Message] = []

    def decide(parameters: Message) -> Message:
        asked.append(parameters)
        return {"plan": "p", "task": "t", "agent": "bob", "state": "approved"}

    hive.peer.answers["ApprovePlan"] = hive.peer.answers["RejectPlan"] = decide
    assert "approved: plan p of bob" in hive("plan", "approve", "t", "p").err
    assert "rejected: plan p of bob" in hive("plan", "reject", "t", "p", "too risky").err
    assert [(call["task"], call["plan"], call.get("reason")) for call in asked] == [
        ("t", "p", None), ("t", "p", "too risky"),
    ]  # fmt: skip


def test_a_decided_plan_cannot_be_decided_again(hive: Hive) -> None:
    hive.peer.answers["ApprovePlan"] = refusing(Conflict("cannot approve plan p: it is void"))
    done = hive("plan", "approve", "t", "p")
    assert done.status == 1
    assert "it is void" in done.err
