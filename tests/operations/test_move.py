"""move: another parent, at once for every decision."""

from __future__ import annotations

import pytest
from fixtures.world import World, fields, rows, world

from hive_core.model.agents.machine import State
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.operations.agents.revocation import OPEN_MOST

MAY = {
    ("operator", "a1", "b"): "", ("root", "a1", "b"): "", ("root", "a1", "root"): "",
    ("a", "a11", "a2"): "", ("a", "a11", "a"): "", ("operator", "a1", ""): "",
    ("operator", "root", "root"): "NotAllowed", ("operator", "a", "a11"): "NotAllowed",
    ("root", "a", "a"): "NotAllowed", ("root", "a", ""): "NotAllowed",
    ("a", "a1", "b"): "NotAllowed", ("a", "a", "b"): "NotAllowed",
    ("a1", "a2", "a1"): "NotAllowed", ("a", "b", "a"): "NotAllowed",
    ("a", "b1", "a"): "NotFound", ("a", "a1", "b1"): "NotFound", ("a", "a1", "nobody"): "NotFound",
}  # fmt: skip


@pytest.mark.parametrize(("caller", "agent", "parent"), MAY)
def test_the_operator_or_a_common_ancestor_may(
    world: World, caller: str, agent: str, parent: str
) -> None:
    """Row H6; attack 39: never under itself or below; making a root is the operator's."""
    before = world.hive
    assert world.fault(caller, "move", agent=agent, parent=parent) == MAY[caller, agent, parent]
    if MAY[caller, agent, parent]:
        assert world.hive is before
    else:
        assert world.hive.topology.parent(agent) == (parent or None)


def test_descendants_move_along(world: World) -> None:
    """Row H6."""
    world.call("operator", "move", agent="a1", parent="b")
    assert world.hive.topology.lineage("a11") == ("a1", "b", "root")
    assert world.repo.read(world.repo.head()).topology == world.hive.topology


def test_the_moved_agent_and_its_new_parent_are_told(world: World) -> None:
    world.call("operator", "move", agent="a1", parent="b")
    (result,) = world.mail("a1")
    assert (result["kind"], result["relation"]) == ("moved", "daemon")
    assert "b" in str(result["body"])
    assert [row["kind"] for row in world.mail("b")] == ["moved"]
    assert world.mail("a11") == []


def test_a_move_restarts_former_ancestors_and_what_stays_below_them(world: World) -> None:
    """Attack 58: open handles of the moved files cannot be found, so a restart closes them."""
    reply = world.call("operator", "move", agent="a1", parent="b", dry_run=True)
    assert (reply["live"], reply["crossing"], reply["left"]) == (False, [], [])
    assert (reply["restarts"], reply["gaining"]) == (["a", "a2"], ["b"])
    again = world.call("operator", "move", agent="a1", parent="b")
    assert again["restarts"] == reply["restarts"]
    (revocation,) = world.ledger.revocations.open()
    assert (revocation.agent, revocation.job) == (world.uuid("a1"), again["job"])
    assert (revocation.lost, revocation.latest) == ((world.uuid("a"),), None)
    # Whoever of them is elsewhere by the time of the restart takes along what it was handed.
    assert revocation.nonces == {world.uuid("a"): 0, world.uuid("a2"): 0}


def test_a_move_that_takes_nothing_away_is_live(world: World) -> None:
    reply = world.call("operator", "move", agent="a1", parent="a2")
    assert (reply["live"], reply["restarts"], reply["gaining"]) == (True, [], ["a2"])
    assert world.ledger.revocations.open() == []


def test_a_loser_may_finish_first(world: World) -> None:
    world.call("root", "move", agent="a1", parent="b", when_idle=30)
    (revocation,) = world.ledger.revocations.open()
    assert revocation.latest == world.clock.now() + 30
    assert fields(world.events()[-1])["when_idle"] == 30


def test_revocations_of_one_agent_that_are_not_finished_are_bounded(world: World) -> None:
    """Each pass works through all of them, and moves to and fro made one more each time."""
    for number in range(OPEN_MOST):
        world.clock.advance(10)
        world.call("operator", "move", agent="a1", parent="ba"[number % 2], no_restart=True)
    world.clock.advance(10)
    before = world.hive
    assert world.fault("operator", "move", agent="a1", parent="b") == "LimitReached"
    assert world.hive is before
    world.call("operator", "move", agent="a2", parent="b")
    first = world.ledger.revocations.open()[0].id
    with world.ledger.transaction():
        for event in ("leave", "close", "end"):
            world.ledger.revocations.advance(first, event, world.clock.now())
    world.call("operator", "move", agent="a1", parent="b")


def test_only_the_operator_leaves_access_open_and_it_is_recorded(world: World) -> None:
    collected = {"agent": "a1", "parent": "b", "no_restart": True}
    assert world.fault("root", "move", **collected) == "NotAllowed"
    assert world.fault("operator", "move", **collected, when_idle=1) == "InvalidArgument"
    reply = world.call("operator", "move", **collected)
    assert (reply["live"], reply["restarts"], reply["left"]) == (True, [], ["a", "a2"])
    (revocation,) = world.ledger.revocations.open()
    assert not revocation.restart
    assert revocation.nonces.keys() == {world.uuid("a"), world.uuid("a2")}
    assert fields(world.events()[-1])["no_restart"] is True


def test_what_crosses_the_border_of_a_limited_subtree_is_restarted(world: World) -> None:
    world.call("operator", "spawn", name="team", parent="b", subtree={"memory_max": 1 << 30})
    reply = world.call("operator", "move", agent="a1", parent="team", dry_run=True)
    assert reply["crossing"] == ["a1", "a11"]
    reply = world.call("operator", "move", agent="b1", parent="a", dry_run=True)
    assert reply["crossing"] == []


def test_a_mere_count_of_agents_is_no_border(world: World) -> None:
    world.call("operator", "spawn", name="team", parent="b", subtree={"agents": 5})
    reply = world.call("operator", "move", agent="a1", parent="team", dry_run=True)
    assert reply["crossing"] == []


def test_what_does_not_run_is_not_restarted(world: World) -> None:
    world.call("operator", "spawn", name="team", parent="b", subtree={"memory_max": 1 << 30})
    world.seen.states[world.uuid("a1")] = State.STOPPED
    reply = world.call("operator", "move", agent="a1", parent="team", dry_run=True)
    assert reply["crossing"] == ["a11"]


def test_a_dry_run_changes_nothing(world: World) -> None:
    before, count = world.hive, len(world.events())
    reply = world.call("operator", "move", agent="a1", parent="b", dry_run=True)
    assert (reply["job"], world.hive, len(world.events())) == (None, before, count)
    assert world.mail("a1") == []


def test_a_dry_run_needs_the_right_to_the_call(world: World) -> None:
    assert world.fault("a", "move", agent="a1", parent="b", dry_run=True) == "NotAllowed"


def test_a_move_to_where_it_is_does_nothing(world: World) -> None:
    before = world.hive
    assert world.call("operator", "move", agent="a1", parent="a")["job"] is None
    assert world.hive is before


def test_a_move_that_waits_tells_when_access_was_gone(world: World) -> None:
    """The job ends when access is really gone."""
    asked = world.ask("operator", "move", agent="a1", parent="b", wait=10)
    (job,) = [entry for entry in world.ledger.jobs.open() if entry.operation == "move"]
    assert job.goals == {world.uuid("a1"): "moved"}
    world.finish(job.id, revoked=12.5)
    assert asked.result()["revoked"] == 12.5


def test_from_the_commit_on_decisions_use_the_new_tree(world: World) -> None:
    """Attack 38, in one batch too: the next call already sees it."""
    world.call("operator", "move", agent="a1", parent="b")
    assert world.fault("a", "get_logs", agent="a11") == "NotFound"
    assert world.fault("a", "spawn", name="x", parent="a1") == "NotFound"
    assert world.fault("a1", "send", to="a2", body="x") == "NotFound"
    assert world.fault("b", "spawn", name="x", parent="a1") == ""


def test_a_waiting_stream_of_a_losing_ancestor_is_refused_at_its_next_page(world: World) -> None:
    """A caller that loses a right mid-stream is refused at the next page."""
    asked = world.ask("a", "get_logs", agent="a11", more=True)
    world.call("operator", "move", agent="a1", parent="b")
    world.reads.journal.write(world.uuid("a11"), "secret")
    world.run()
    assert str(asked.replies[-1]["error"]).endswith("NotFound")
    assert "secret" not in str(asked.replies)


def test_an_agent_cannot_push_its_quota_through_a_move(world: World) -> None:
    """Rows H8 and K1: not into a place where it could not have created."""
    world.grow("root/plan:architect")
    assert world.fault("root", "move", agent="a1", parent="plan") == "NotAllowed"
    assert world.fault("operator", "move", agent="a1", parent="plan") == ""


def test_a_full_parent_accepts_no_child() -> None:
    with world(Settings(limits=HostLimits(children=2)), "root/a", "root/b", "a/x", "b/y") as small:
        small.grow("a/z")
        assert small.fault("root", "move", agent="y", parent="a") == "LimitReached"


def test_depth_is_bounded() -> None:
    """Attack 39."""
    with world(Settings(limits=HostLimits(depth=3)), "root/a", "a/x", "root/b", "b/y") as small:
        assert small.fault("operator", "move", agent="b", parent="a") == "InvalidArgument"


def test_the_record_names_both_parents(world: World) -> None:
    """Row H27."""
    world.call("operator", "move", agent="a1", parent="b")
    result = fields(world.events()[-1])
    assert (result["from"], result["to"]) == ("a", "b")
    assert rows(world.events())[-1]["target"] == "a1"
