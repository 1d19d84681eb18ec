"""list_approvals, get_approval, approve, deny: what the operator decides, and on what."""

from __future__ import annotations

import pytest
from fixtures.approvals import (
    ONE,
    THREE,
    TWO,
    Nothing,
    approval_fields,
    approve,
    ask,
    deploy,
    finish,
    judge,
    row,
    show,
    state,
    waits,
)
from fixtures.world import World, fields, rows
from fixtures.world import world as a_world

from hive_core.broker.call import Call, Change
from hive_core.errors import Conflict, Expired, InvalidArgument, NotAllowed
from hive_core.model.config.approval import Effect
from hive_core.model.config.settings import NixSettings, Settings
from hive_core.model.wire.record import OPERATOR


def test_the_first_digits_of_the_commit_approve(world: World) -> None:
    id_ = waits(world)
    done = approve(world, id_)
    assert done == {
        "id": id_, "state": "approved", "agent": "a1", "commit": ONE, "effect": "live",
        "job": row(world, id_).job,
    }  # fmt: skip
    assert approve(world, waits(world, commit=TWO), TWO)["state"] == "approved"


def test_attack_22_other_digits_than_the_first_eight_approve_nothing(world: World) -> None:
    id_ = waits(world)
    for digits in (
        ONE[:7], TWO[:8], ONE[1:9], ONE[:8] + "0", ONE + "0", ONE[:8].upper(), "", "zzzzzzzz"
    ):  # fmt: skip
        with pytest.raises(InvalidArgument):
            approve(world, id_, digits)
        assert state(world, id_) == "pending", digits


@pytest.mark.parametrize("caller", ["a", "a1", "root"])
def test_attack_24_no_agent_reaches_a_decision(world: World, caller: str) -> None:
    """Not even with every capability that there is."""
    id_ = waits(world)
    world.call(OPERATOR, "grant_capability", agent=caller, capability="budget")
    for operation, value in (
        ("approve", {"commit": ONE}), ("deny", {"why": "x"}),
    ):  # fmt: skip
        with pytest.raises(NotAllowed):
            world.ask_as(world.uuid(caller), operation, {"id": id_, **value}).result()
        event = world.events()[-1]
        assert (event["operation"], event["caller"], event["allowed"]) == (operation, caller, False)
    assert world.fault(caller, "rollback", agent="a1") == "NotAllowed"
    assert state(world, id_) == "pending"


def test_attack_21_an_approval_is_used_once(world: World) -> None:
    id_ = waits(world)
    approve(world, id_)
    with pytest.raises(Conflict, match="it is approved"):
        approve(world, id_)
    deploy(world, id_)
    for _ in range(2):
        with pytest.raises(Conflict, match="it is deployed"):
            approve(world, id_)


def test_attack_42_an_approval_that_is_repeated_gives_the_first_answer(world: World) -> None:
    id_ = waits(world)
    first = approve(world, id_, idempotency_key="k")
    deploy(world, id_)
    assert approve(world, id_, idempotency_key="k") == first


def test_what_is_not_checked_yet_is_not_approved(world: World) -> None:
    id_ = ask(world)
    with pytest.raises(Conflict, match="still being checked"):
        approve(world, id_)


def test_attack_21_after_a_day_it_is_too_late(world: World) -> None:
    id_ = waits(world)
    world.advance(86_399)
    other = waits(world, commit=TWO)
    world.advance(2)
    with pytest.raises(Expired):
        approve(world, id_)
    assert approve(world, other, TWO)["state"] == "approved"
    finish(world, id_, "expire")
    assert state(world, id_) == "expired"


def test_attack_21_what_was_compared_with_something_else_is_not_approved(world: World) -> None:
    """Another deploy in between ends it; an approval that slipped through is still refused."""
    first, second, third = (waits(world, commit=entry) for entry in (ONE, TWO, THREE))
    approve(world, first)
    approve(world, second, TWO)
    deploy(world, first)
    assert state(world, third) == "void"
    (letter,) = [entry for entry in world.mail("a") if third in str(entry["body"])]
    assert "another configuration" in str(letter["body"])
    late = judge(world, ask(world, commit="4d" * 20))
    with world.ledger.transaction():
        bound = row(world, late).binding
        world.ledger.connection.run(
            "UPDATE approvals SET binding = replace(binding, ?, ?) WHERE id = ?",
            (f'"base": "{bound.base}"', f'"base": "{TWO}"', late),
        )
    with pytest.raises(Conflict, match="has changed since the check"):
        approve(world, late, "4d" * 20)


def test_a_refusal_gives_the_reason_to_the_requester_and_the_parent(world: World) -> None:
    id_ = waits(world, "root", "a1")
    reply = world.call(OPERATOR, "deny", id=id_, why="no sh in prompts")
    assert reply == {"id": id_, "state": "denied"}
    for name in ("root", "a"):
        letter = world.mail(name)[-1]
        assert letter["kind"] == "config"
        assert "denied by the operator: no sh in prompts" in str(letter["body"])
        assert (id_ in str(letter["body"]), letter["relation"]) == (True, "daemon")
    assert world.mail("a1") == []
    with pytest.raises(Conflict):
        approve(world, id_)
    with pytest.raises(Conflict):
        world.call(OPERATOR, "deny", id=id_, why="again")


@pytest.mark.parametrize(
    "steps", [(), ("check",), ("check", "approve"), ("check", "approve", "build")]
)
def test_until_it_is_deployed_it_can_be_denied(world: World, steps: tuple[str, ...]) -> None:
    id_ = ask(world)
    with world.ledger.transaction():
        for step in steps:
            world.ledger.approvals.move(id_, step, 1.0)
    assert world.call(OPERATOR, "deny", id=id_, why="no")["state"] == "denied"
    assert row(world, id_).decided_by == "uid:0"


def test_a_reason_for_a_refusal_is_not_left_out(world: World) -> None:
    id_ = waits(world)
    assert world.fault(OPERATOR, "deny", id=id_) == "InvalidParameter"
    assert world.fault(OPERATOR, "deny", id=id_, why="") == "InvalidArgument"


def test_a_failure_is_told_with_the_last_lines_of_the_log(world: World) -> None:
    id_ = waits(world)
    approve(world, id_)
    with world.ledger.transaction():
        for step in ("build", "deploy", "watch"):
            world.ledger.approvals.move(id_, step, 1.0)
    finish(world, id_, "fail", "no hello within 30 s", "Traceback\nKeyError: 'x'")
    body = str(world.mail("a")[-1]["body"])
    assert "has failed: no hello within 30 s" in body
    assert body.endswith("Traceback\nKeyError: 'x'")
    job = world.ledger.jobs.get(row(world, id_).job)
    assert job is not None
    assert job.error.startswith("Conflict: ")
    assert "KeyError" not in job.error


def test_the_log_of_an_agent_goes_to_no_agent_that_lost_it_meanwhile(world: World) -> None:
    """Row H10: the requester learns that it failed; only agents above it read its lines."""
    id_ = waits(world, "a", "a11")
    approve(world, id_)
    world.call(OPERATOR, "move", agent="a1", parent="b")
    with world.ledger.transaction():
        for step in ("build", "deploy", "watch"):
            world.ledger.approvals.move(id_, step, 1.0)
    finish(world, id_, "fail", "no hello", "KeyError: 'x'")
    result, parent = str(world.mail("a")[-1]["body"]), str(world.mail("a1")[-1]["body"])
    assert "no hello" in result
    assert "KeyError" not in result
    assert "KeyError" in parent


def test_every_decision_is_an_event_with_on_whose_behalf_and_what_of(world: World) -> None:
    """H27."""
    first, second = (
        waits(world, "root"),
        judge(world, ask(world, commit=TWO), effect=Effect.RESTART),
    )
    approve(world, first)
    world.call(OPERATOR, "deny", id=second, why="no")
    *_, one, two = [event for event in world.events() if event["operation"] in ("approve", "deny")]
    assert (one["kind"], one["caller"], one["allowed"]) == ("record", OPERATOR, True)
    assert [(event["target"], event["target_uuid"]) for event in (one, two)] == [
        ("a1", world.uuid("a1"))
    ] * 2
    result = fields(one)
    assert (result["approval"], result["commit"], result["effect"]) == (first, ONE, "live")
    assert (result["requester_name"], result["agent_name"]) == ("root", "a1")
    assert (result["agent"], result["decided_by"], result["uid"]) == (world.uuid("a1"), "uid:0", 0)
    assert (fields(two)["reason"], fields(two)["commit"]) == ("no", TWO)


def test_newer_inputs_are_approved_by_the_digits_of_their_lock() -> None:
    """H13: a lock has no commit, so it is called by its hash."""
    settings = Settings(nix=NixSettings(inputs={"nixpkgs": "github:a/b"}))
    with a_world(settings) as made:
        id_ = str(made.call("root", "request_update_meta_inputs", message="cves")["approval"])
        judge(made, id_)
        result = show(made, id_)
        assert (approval_fields(result)["kind"], approval_fields(result)["agent"]) == ("inputs", "")
        assert [entry["text"] for entry in rows(result["lines"])] == ["the end"]
        assert made.fault(OPERATOR, "approve", id=id_, commit=ONE[:8]) == "InvalidArgument"
        assert approve(made, id_, THREE[:8])["agent"] == ""
        with made.ledger.transaction():
            for event in ("build", "deploy", "watch"):
                made.ledger.approvals.move(id_, event, 1.0)
        finish(made, id_, "confirm")
        assert "the update of the inputs is deployed" in str(made.mail("root")[-1]["body"])


def test_attack_40_a_request_of_a_removed_agent_is_not_approved(world: World) -> None:
    """By a commit of hand, which ends nothing by itself."""
    id_ = waits(world)

    def remove(call: Call) -> Change[Nothing]:
        return Change(Nothing(), call.hive.without("a1"), "by hand")

    world.broker.perform("hand", remove)
    with pytest.raises(Conflict, match="its agent was destroyed"):
        approve(world, id_)
    assert approval_fields(show(world, id_))["agent"] == row(world, id_).agent
