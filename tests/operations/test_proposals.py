"""request_apply_commit, request_update_meta_inputs, init_config: what agents ask for."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.approvals import ONE, THREE, TWO, ask, deploy, finish, judge, row, state, waits
from fixtures.world import World, fields, world

from hive_core.errors import Conflict, InvalidArgument, LimitReached, NotAllowed
from hive_core.ledger.approvals.storage import DAY
from hive_core.model.config.approval import ApprovalKind, ApprovalState
from hive_core.model.config.settings import ApprovalSettings, NixSettings, Settings
from hive_core.model.wire.record import OPERATOR


def commit(number: int) -> str:
    return f"{number:040x}"


@pytest.mark.parametrize("caller", ["a", "root", "operator", "a1"])
def test_an_ancestor_asks_and_the_agent_itself_with_the_capability(
    world: World, caller: str
) -> None:
    """H9, H17."""
    result = row(world, ask(world, caller))
    assert (result.agent, result.requester) == (world.uuid("a1"), world.uuid(caller))
    assert (result.kind, result.state) == (ApprovalKind.CONFIG, ApprovalState.RECEIVED)
    assert (result.binding.commit, result.binding.base) == (ONE, world.hive.spec("a1").config or "")
    assert result.expires == world.clock.now() + DAY


def test_without_the_capability_an_agent_asks_for_its_children_only(world: World) -> None:
    """H9."""
    world.call(OPERATOR, "revoke_capability", agent="a1", capability="config.propose")
    with pytest.raises(NotAllowed) as caught:
        ask(world, "a1")
    assert "config.propose" in str(caught.value)
    assert ask(world, "a1", "a11")


@pytest.mark.parametrize(
    ("caller", "error"), [("a11", "NotAllowed"), ("a2", "NotAllowed"), ("b", "NotFound")]
)
def test_no_other_agent_may_request_it(world: World, caller: str, error: str) -> None:
    """H9, attack 41."""
    collected = {"agent": "a1", "commit": ONE, "message": "x"}
    assert world.fault(caller, "request_apply_commit", **collected) == error
    assert world.ledger.approvals.page(None, 10) == []


@for_each(
    "odd",
    ["main", "HEAD", ONE[:39], f"{ONE}0", ONE.upper(), "--all", "x" * 40],
)
def test_attack_17_a_commit_is_all_of_its_digits_and_nothing_else(world: World, odd: str) -> None:
    with pytest.raises(InvalidArgument, match="40 digits"):
        ask(world, commit=odd)


def test_the_source_is_the_agent_or_the_caller(world: World) -> None:
    assert row(world, ask(world)).source == world.uuid("a1")
    assert row(world, ask(world, source="a", commit=TWO)).source == world.uuid("a")
    for other in ("root", "a2", "b1", "nobody"):
        with pytest.raises(InvalidArgument, match="must be a1 or the caller"):
            ask(world, source=other, commit=THREE)
    assert row(world, ask(world, OPERATOR, source="b1", commit=THREE)).source == world.uuid("b1")


def test_the_parent_is_told_when_it_did_not_ask_itself(world: World) -> None:
    """H9."""
    one = ask(world, "a1")
    (letter,) = world.mail("a")
    assert letter["kind"] == "config"
    assert all(entry in str(letter["body"]) for entry in ("a1 asked", one, ONE))
    ask(world, "a", commit=TWO)
    assert len(world.mail("a")) == 1


def test_what_runs_or_was_asked_for_is_not_asked_for_again(world: World) -> None:
    id_ = waits(world)
    with pytest.raises(Conflict, match=id_):
        ask(world, "root")
    world.call(OPERATOR, "approve", id=id_, commit=ONE[:8])
    deploy(world, id_)
    with pytest.raises(Conflict, match="already"):
        ask(world)


def test_attack_42_a_request_that_is_repeated_is_one_request(world: World) -> None:
    one = ask(world, idempotency_key="k")
    assert ask(world, idempotency_key="k") == one
    assert len(world.ledger.approvals.open()) == 1


@pytest.mark.parametrize("event", ["refuse", "deny"])
def test_a_waiting_caller_is_answered_at_the_end_with_the_reason(world: World, event: str) -> None:
    waiting = world.ask("a", "request_apply_commit", agent="a1", commit=ONE, message="x", wait=50)
    assert waiting.pending
    (result,) = world.ledger.approvals.open()
    finish(world, result.id, event, "too many files")
    with pytest.raises((Conflict, NotAllowed), match="too many files"):
        waiting.result()


def test_a_waiting_caller_is_answered_when_the_agent_is_healthy(world: World) -> None:
    waiting = world.ask("a", "request_apply_commit", agent="a1", commit=ONE, message="x", wait=50)
    (result,) = world.ledger.approvals.open()
    judge(world, result.id)
    world.call(OPERATOR, "approve", id=result.id, commit=ONE)
    assert waiting.pending
    deploy(world, result.id)
    assert waiting.result() == {"approval": result.id, "job": result.job}


def test_a_request_is_recorded_with_what_was_asked_for(world: World) -> None:
    """H27."""
    id_ = ask(world)
    event = world.events()[-1]
    assert (event["operation"], event["caller"], event["target"]) == (
        "request_apply_commit", "a", "a1",
    )  # fmt: skip
    assert (fields(event)["approval"], fields(event)["commit"]) == (id_, ONE)


BRANCHES = ("root/a", "a/a1", "a1/a11", "root/b", "b/b1", "root/c")


def test_attack_23_a_branch_has_five_undecided_ones_and_the_others_have_theirs() -> None:
    with world(None, *BRANCHES) as made:
        ids = [ask(made, who, "a11", commit=commit(n)) for n, who in enumerate(("a", "a1") * 2)]
        ids.append(ask(made, "a11", "a11", commit=commit(9)))
        for who in ("a", "a1", "a11"):
            with pytest.raises(
                LimitReached, match=r"undecided requests \(5\) of a and its descendants"
            ):
                ask(made, who, "a11", commit=commit(99))
        assert ask(made, "b1", "b1")
        assert ask(made, "root", "a11", commit=commit(100))
        assert ask(made, OPERATOR, "a11", commit=commit(101))
        made.call(OPERATOR, "deny", id=ids[0], why="no")
        assert ask(made, "a", "a11", commit=commit(102))


def test_attack_23_making_others_that_ask_or_ending_them_gains_nothing() -> None:
    with world(Settings(approvals=ApprovalSettings(a_day=7)), *BRANCHES) as made:
        for number in range(7):
            made.call("a", "spawn", name=f"x{number}")
            ask(made, f"x{number}", f"x{number}", commit=commit(number))
            made.call("a", "destroy", agent=f"x{number}")
        made.call("a", "spawn", name="y")
        with pytest.raises(LimitReached, match=r"limit of requests a day \(7\)"):
            ask(made, "y", "y")


def test_attack_23_a_day_has_twenty_of_a_branch() -> None:
    with world(None, *BRANCHES) as made:
        for number in range(20):
            finish(made, ask(made, "a", "a1", commit=commit(number)), "refuse")
        with pytest.raises(LimitReached, match="requests a day"):
            ask(made)
        assert ask(made, "b", "b1")
        made.advance(DAY + 1)
        assert ask(made)


@pytest.mark.parametrize("years", [10, -10])
def test_attack_46_a_clock_that_is_set_neither_frees_nor_binds_anybody(years: int) -> None:
    """Row R16: with the ledger moved along, five are five and expire after the same time."""
    with world(None, *BRANCHES) as made:
        ids = [waits(made, commit=commit(number)) for number in range(5)]
        by = years * 365 * DAY
        with made.ledger.transaction():
            made.ledger.shifts.move(by, made.clock.now() + by, 1.0)
        made.clock.set(by)
        made.clock.follow()
        with pytest.raises(LimitReached):
            ask(made)
        made.advance(DAY - 10)
        assert not made.ledger.approvals.past_deadline(made.clock.now())
        made.advance(20)
        assert [entry.id for entry in made.ledger.approvals.past_deadline(made.clock.now())] == ids


INPUTS = Settings(nix=NixSettings(inputs={"nixpkgs": "github:a/b", "tools": "github:c/d"}))


def test_inputs_are_requested_by_callers_with_the_right() -> None:
    """H13: all by `meta.update`, one by the capability of that one."""
    with world(INPUTS, "root/a", "root/b") as made:
        made.call(OPERATOR, "grant_capability", agent="a", capability="meta.update:tools")
        update = "request_update_meta_inputs"
        assert made.fault("b", update, inputs=["tools"]) == "NotAllowed"
        assert made.fault("a", update) == "NotAllowed"
        assert made.fault("a", update, inputs=["tools", "nixpkgs"]) == "NotAllowed"
        for caller, inputs in (("a", ["tools", "tools"]), ("root", []), (OPERATOR, ["nixpkgs"])):
            id_ = str(made.call(caller, update, inputs=inputs)["approval"])
            result = row(made, id_)
            assert (result.kind, result.agent) == (ApprovalKind.INPUTS, "")
            assert result.review == {"inputs": sorted(set(inputs))}


def test_an_input_is_one_of_the_settings() -> None:
    with world(INPUTS) as made:
        for odd in ("other", "a b", "--impure", ""):
            fault = made.fault("root", "request_update_meta_inputs", inputs=[odd])
            assert fault == "InvalidArgument"


def test_a_template_is_asked_for_by_itself_and_those_above(world: World) -> None:
    """H8, H17: what runs stays as it is."""
    before = world.hive
    for caller in ("a1", "a", OPERATOR):
        job = world.call(caller, "init_config", agent="a1")["job"]
        result = world.ledger.jobs.get(str(job))
        assert result is not None
        assert dict(result.goals) == {world.uuid("a1"): "seed"}
    assert world.call("a2", "init_config")["agent"] == "a2"
    assert world.fault("a2", "init_config", agent="a1") == "NotAllowed"
    assert world.hive is before


def test_attack_40_a_successor_of_a_name_inherits_no_request(world: World) -> None:
    id_ = waits(world, "a1", "a1")
    job = row(world, id_).job
    world.call(OPERATOR, "destroy", agent="a1")
    assert state(world, id_) == "void"
    world.call("a", "spawn", name="a1")
    assert world.call("a1", "list_approvals", all=True)["approvals"] == []
    assert world.fault("a1", "get_approval", id=id_) == "NotFound"
    assert world.fault(OPERATOR, "approve", id=id_, commit=ONE) == "Conflict"
    ended = world.ledger.jobs.get(job)
    assert ended is not None
    assert "destroyed" in ended.error


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ((), "refused"), (("check",), "void"), (("check", "approve"), "void"),
        (("check", "approve", "build"), "void"),
        (("check", "approve", "build", "deploy"), "failed"),
        (("check", "approve", "build", "deploy", "watch"), "failed"),
    ],
)  # fmt: skip
def test_whatever_is_under_way_ends_with_its_agent(
    world: World, steps: tuple[str, ...], end: str
) -> None:
    """H30, attack 40."""
    id_ = ask(world)
    with world.ledger.transaction():
        for step in steps:
            world.ledger.approvals.move(id_, step, world.clock.now())
    world.call("root", "destroy", agent="a", recursive=True)
    assert state(world, id_) == end
    assert world.ledger.approvals.open() == []
