"""start, stop, restart, kill, update: what is wanted, of whom, and by whose leave."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import World, fields, rows

from hive_core.model.agents.machine import DesiredRun, DesiredState, State

VERBS = ("start", "stop", "restart", "kill", "update")


def run(world: World, name: str) -> DesiredRun:
    row = world.ledger.runs.get(world.uuid(name))
    assert row is not None
    return row


MAY = {
    ("operator", "a"): "", ("root", "a"): "", ("a", "a1"): "", ("root", "a11"): "",
    ("a", "a11"): "", ("operator", "root"): "",
    ("a", "a"): "NotAllowed", ("a1", "a"): "NotAllowed", ("a11", "root"): "NotAllowed",
    ("a1", "a2"): "NotAllowed", ("a", "b"): "NotAllowed", ("root", "root"): "NotAllowed",
    ("a", "b1"): "NotFound", ("a1", "b"): "NotFound", ("a", "nobody"): "NotFound",
    ("a", "operator"): "NotAllowed", ("a", "../a1"): "NotFound",
}  # fmt: skip


@for_each("verb, caller, target", [(verb, *case) for verb in VERBS for case in MAY])
def test_a_strict_ancestor_or_the_operator(
    world: World, verb: str, caller: str, target: str
) -> None:
    """Rows H7 and K11; attack 41: hidden and unknown look the same."""
    before = world.ledger.runs.all()
    assert world.fault(caller, verb, agent=target) == MAY[caller, target]
    if MAY[caller, target]:
        assert world.ledger.runs.all() == before


def test_an_agent_without_the_word_kill_still_ends_its_children(world: World) -> None:
    """Row H7."""
    world.call("a", "spawn", name="boss", capabilities=["spawn"])
    world.call("boss", "spawn", name="child", capabilities=[])
    assert world.fault("boss", "kill", agent="child") == ""


def test_stop_is_graceful_and_kill_is_at_once(world: World) -> None:
    """Row K11: a grace period of 5 s by default, at most 30."""
    world.call("a", "stop", agent="a1")
    assert (run(world, "a1").wanted, run(world, "a1").grace) == (DesiredState.STOPPED, 5.0)
    world.call("a", "stop", agent="a2", grace=30)
    assert run(world, "a2").grace == 30.0


def test_a_kill_says_why(world: World) -> None:
    world.call("root", "kill", agent="a2", reason="it loops")
    assert (run(world, "a2").grace, run(world, "a2").reason) == (0.0, "it loops")


@pytest.mark.parametrize("grace", [-1, 30.1])
def test_grace_is_bounded(world: World, grace: float) -> None:
    assert world.fault("a", "stop", agent="a1", grace=grace) == "InvalidArgument"


def test_none_of_them_changes_the_tree(world: World) -> None:
    """Row K9: stop and kill leave the agent where it is, and git untouched."""
    before = (world.hive.commit, world.hive.topology.parents)
    for verb in VERBS:
        world.call("operator", verb, agent="a", recursive=True)
    assert (world.hive.commit, world.hive.topology.parents) == before


@pytest.mark.parametrize("verb", ["stop", "kill", "restart", "update"])
def test_recursive_lists_the_agents_that_it_ended_leaves_first(world: World, verb: str) -> None:
    """Row K11."""
    reply = world.call("root", verb, agent="a", recursive=True)
    assert reply["agents"] == ["a11", "a1", "a2", "a"]
    job = world.call("root", "get_job", id=reply["job"])
    assert job["agents"] == reply["agents"]
    assert {run(world, name).wanted for name in ("b", "b1", "root")} == {DesiredState.RUNNING}


def test_what_is_down_already_is_not_hit_again(world: World) -> None:
    world.call("a", "stop", agent="a1")
    reply = world.call("root", "stop", agent="a", recursive=True)
    assert reply["agents"] == ["a11", "a2", "a"]


def test_a_kill_overtakes_a_stop_in_its_grace(world: World) -> None:
    world.call("a", "stop", agent="a1", grace=30)
    world.seen.states[world.uuid("a1")] = State.STOPPING
    assert world.call("a", "kill", agent="a1")["agents"] == ["a1"]
    assert run(world, "a1").grace == 0.0


def test_a_start_of_what_runs_does_nothing_and_its_job_has_ended(world: World) -> None:
    nonce = run(world, "a1").nonce
    reply = world.call("a", "start", agent="a1", wait=10)
    assert reply["agents"] == []
    assert run(world, "a1").nonce == nonce
    assert world.call("a", "get_job", id=reply["job"])["state"] == "done"


@pytest.mark.parametrize("state", [State.FAILED, State.PARKED])
def test_a_start_gives_a_failed_agent_a_new_chance(world: World, state: State) -> None:
    """Row K10: a start by hand leaves back-off and parking."""
    nonce = run(world, "a1").nonce
    world.seen.states[world.uuid("a1")] = state
    assert world.call("a", "start", agent="a1")["agents"] == ["a1"]
    assert run(world, "a1").nonce == nonce + 1


def test_a_restart_is_a_fresh_start_also_of_what_is_stopped(world: World) -> None:
    nonce = run(world, "a1").nonce
    world.call("a", "restart", agent="a1")
    assert run(world, "a1").nonce == nonce + 1
    world.call("a", "stop", agent="a1")
    world.call("a", "restart", agent="a1")
    assert (run(world, "a1").wanted, run(world, "a1").nonce) == (DesiredState.RUNNING, nonce + 2)


def test_an_update_leaves_stopped_what_is_stopped(world: World) -> None:
    """Row H26."""
    world.call("a", "stop", agent="a1")
    reply = world.call("root", "update", agent="a", recursive=True)
    assert reply["agents"] == ["a11", "a2", "a"]
    assert run(world, "a1").wanted is DesiredState.STOPPED


def test_the_change_road_is_woken_for_each_agent(world: World) -> None:
    topics = set[str]()
    world.broker.listeners.append(topics.update)
    world.call("root", "stop", agent="a", recursive=True)
    assert {f"run:{world.uuid(name)}" for name in ("a", "a1", "a2", "a11")} <= topics


def test_a_stop_that_waits_is_answered_after_its_job(world: World) -> None:
    asked = world.ask("a", "stop", agent="a1", wait=5)
    assert not asked.replies
    world.finish(world.ledger.jobs.open()[-1].id)
    assert asked.result()["agents"] == ["a1"]


def test_a_stop_that_waits_too_long_is_answered_with_its_job(world: World) -> None:
    asked = world.ask("a", "stop", agent="a1", wait=5)
    world.advance(5.1)
    job = world.call("a", "get_job", id=asked.result()["job"])
    assert job["state"] == "running"


def test_the_record_has_the_affected_agents_and_the_rule(world: World) -> None:
    """Row H27; attack 35: both the caller and its object are written down."""
    world.call("root", "stop", agent="a", recursive=True)
    event = world.events()[-1]
    assert (event["caller"], event["target"], event["rule"]) == ("root", "a", "ancestor")
    assert fields(event)["agents"] == ["a11", "a1", "a2", "a"]


def test_a_refusal_is_recorded_with_its_reason(world: World) -> None:
    """Row H27."""
    world.fault("a1", "stop", agent="a2")
    event = world.events()[-1]
    assert (event["kind"], event["allowed"], event["caller"], event["target"]) == (
        "refusal", False, "a1", "a2",
    )  # fmt: skip
    assert event["reason"] == "not your descendant"


def test_right_is_judged_when_it_is_used_not_when_it_was_held(world: World) -> None:
    """Attack 38: after a move the old ancestor may nothing."""
    assert world.fault("a", "stop", agent="a1") == ""
    world.call("operator", "move", agent="a1", parent="b")
    assert world.fault("a", "stop", agent="a11") == "NotFound"
    assert world.fault("b", "stop", agent="a11") == ""


def test_rows_of_the_job_listing_are_the_callers_own(world: World) -> None:
    world.call("a", "stop", agent="a1")
    world.call("b", "stop", agent="b1")
    jobs = rows(world.call("a", "list_jobs")["jobs"])
    assert [(job["operation"], job["agents"]) for job in jobs] == [("stop", ["a1"])]
