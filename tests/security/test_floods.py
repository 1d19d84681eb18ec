"""Attacks 4, 8, 37, 50 and 52: one agent that uses up what all share, by calls that it may make."""

from __future__ import annotations

import pytest
from fixtures.world import World, rows, world

from hive_core.errors import LimitReached
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.model.wire.record import OPERATOR


def _until_refused(made: World, most: int, caller: str, operation: str, **params: object) -> int:
    """How many calls are served before one is refused for their number."""
    for number in range(most):
        try:
            made.call(caller, operation, **params)
        except LimitReached:
            return number
    raise AssertionError(f"{most} calls were served")


def test_attack_52_recorded_calls_without_effect_do_not_fill_the_disk() -> None:
    with world(
        Settings(limits=HostLimits(change_burst=50, change_rate=1)), "root/a", "a/a1"
    ) as made:
        assert _until_refused(made, 60, "a", "ack", ids=["f" * 13]) == 50
        assert made.fault("a", "stop", agent="a1") == "LimitReached"
        # It costs nobody else anything, and reading is free.
        assert made.fault("a1", "wake", body="x") == ""
        assert made.fault(OPERATOR, "stop", agent="a1") == ""
        assert made.fault("a", "recv") == ""
        made.clock.advance(2)
        assert made.fault("a", "stop", agent="a1") == ""


def test_attack_52_endless_commits_do_not_fill_the_disk_with_history() -> None:
    """An agent may move its own children to and fro; each time is a commit that stays."""
    settings = Settings(limits=HostLimits(commit_burst=10, commit_rate=1))
    with world(settings, "root/a", "a/a1", "a/a2", "a1/x", "root/b") as made:
        homes = ["a2", "a1"] * 10
        served = 0
        while made.fault("a", "move", agent="x", parent=homes[served]) == "":
            served += 1
        assert served == 10
        assert made.fault("a", "spawn", name="more") == "LimitReached"
        # What makes no commit goes on, and so does everybody else.
        assert made.fault("a", "stop", agent="a1") == ""
        assert made.fault("b", "spawn", name="c") == ""
        assert made.fault(OPERATOR, "move", agent="x", parent="a1") == ""
        made.clock.advance(1)
        assert made.fault("a", "spawn", name="more") == ""


def test_attack_52_refused_calls_are_recorded_up_to_a_rate(world: World) -> None:
    before = world.ledger.events.last
    for _ in range(300):
        assert world.fault("a", "stop", agent="nobody") == "NotFound"
    assert world.ledger.events.last - before <= world.settings.limits.refusals_kept
    world.clock.advance(60)
    world.fault("a", "stop", agent="nobody")
    assert "not_kept" in str(world.events()[-1]["fields"])


def test_attack_50_unfinished_jobs_do_not_pile_up_before_the_change_path() -> None:
    with world(Settings(limits=HostLimits(open_jobs=5)), "root/a", "a/a1") as made:
        assert _until_refused(made, 9, "a", "restart", agent="a1") == 5
        assert made.fault("a", "spawn", name="x") == "LimitReached"
        assert made.fault(OPERATOR, "restart", agent="a1") == ""
        made.finish(rows(made.call("a", "list_jobs")["jobs"])[0]["id"])
        assert made.fault("a", "restart", agent="a1") == ""


def test_attack_4_uid_ranges_are_not_used_up_by_creating_and_destroying() -> None:
    """An agent that is gone keeps its range while its archive is kept; a host has 16,000."""
    with world(Settings(limits=HostLimits(agents=6)), "root/a") as made:
        for number in range(4):
            made.call("a", "spawn", name=f"x{number}")
            made.call("a", "destroy", agent=f"x{number}")
        with pytest.raises(LimitReached):
            made.call("a", "spawn", name="more")
        assert made.fault(OPERATOR, "spawn", name="more") == ""


def test_attack_37_a_full_inbox_still_takes_daemon_messages() -> None:
    settings = Settings(limits=HostLimits(inbox_count=3, send_burst=1000))
    with world(settings, "root/a", "a/a1", "a/a2") as made:
        for _ in range(3):
            made.call("a1", "send", to="a", body="x")
        assert made.fault("a1", "send", to="a", body="x") == "InboxFull"
        made.call(OPERATOR, "move", agent="a", parent="")
        assert [message["kind"] for message in made.mail("a")].count("moved") == 1


def _fill(made: World, sender: str, to: str, most: int = 40) -> int:
    """How many messages are taken before the box is full, or full for this sender."""
    for number in range(most):
        if (fault := made.fault(sender, "send", to=to, body="x")) != "":
            assert fault == "InboxFull"
            return number
    raise AssertionError(f"{most} messages were taken")


SHARED = Settings(limits=HostLimits(inbox_count=32, send_burst=1000))


def test_attack_37_one_sender_fills_at_most_a_third_of_an_inbox() -> None:
    """And each one after it gets a share of what is left."""
    with world(SHARED, "root/a", "a/a1", "a/a2", "a/a3") as made:
        assert [_fill(made, sender, "a3") for sender in ("a1", "a2", "root", "a")] == [11, 7, 5, 3]
        # What was read makes room again, in the box and in a sender's share of it.
        letters = rows(made.call("a3", "recv", max=14)["messages"])
        made.call("a3", "ack", ids=[letter["id"] for letter in letters])
        assert made.fault("a1", "send", to="a3", body="x") == ""
        assert made.fault(OPERATOR, "send", to="a3", body="x") == ""


def test_attack_37_many_senders_cannot_keep_out_the_operators_mail() -> None:
    """An agent that creates others has their letters counted as its own."""
    with world(SHARED, "root/a", "root/b", "b/b1") as made:
        made.call("a", "spawn", name="hand0")
        for number in range(1, 8):
            made.call(f"hand{number - 1}", "spawn", name=f"hand{number}")
        assert _fill(made, "hand0", OPERATOR) == 8
        assert [_fill(made, f"hand{number}", OPERATOR) for number in range(1, 8)] == [
            2, 1, 1, 1, 1, 1, 0,
        ]  # fmt: skip
        for other in ("a", "b", "b1", "root"):
            assert made.fault(other, "send", to=OPERATOR, body="help") == ""


def test_attack_62_an_agent_that_fills_the_operators_inbox_keeps_out_no_other_of_its_branch() -> (
    None
):
    """Half of it was for the first that came, and a branch had one half together."""
    with world(SHARED, "root/a", "a/a1", "a1/x", "a/a2", "a2/y", "root/b") as made:
        held = {sender: _fill(made, sender, OPERATOR) for sender in ("x", "a1", "a", "root", "b")}
        assert held["x"] == 8
        # Everyone else got in, and so does who comes last; and the operator's own mail.
        assert all(held.values())
        for last in ("y", "a2"):
            assert made.fault(last, "send", to=OPERATOR, body="help") == ""
        assert made.fault(OPERATOR, "send", to=OPERATOR, body="x") == ""


def test_attack_62_every_branch_gets_into_the_operators_inbox() -> None:
    branches = [f"c{number}" for number in range(9)]
    settings = Settings(limits=HostLimits(inbox_count=1000, send_burst=1000))
    with world(settings, *(f"root/{branch}" for branch in branches)) as made:
        held = [_fill(made, branch, OPERATOR, 1000) for branch in branches]
        assert held[0] == 250
        assert all(count >= 1 for count in held)
        assert sorted(held, reverse=True) == held


def test_attack_37_large_messages_count_by_their_bytes() -> None:
    with world(Settings(limits=HostLimits(inbox_bytes=64_000)), "root/a", "a/a1", "a/a2") as made:
        made.call("a1", "send", to="a", body="x" * 40_000)
        assert made.fault("a1", "send", to="a", body="x") == "InboxFull"
        assert made.fault("a2", "send", to="a", body="x" * 7_000) == ""


def test_attack_8_quotas_hold_for_a_storm_of_spawns(world: World) -> None:
    served = _until_refused_by_quota(world)
    assert served == 8  # a1 and a2 were there
    assert len(world.hive.topology.children("a")) == 10


def _until_refused_by_quota(world: World) -> int:
    for number in range(20):
        if world.fault("a", "spawn", name=f"s{number}") == "LimitReached":
            return number
    raise AssertionError("no quota")
