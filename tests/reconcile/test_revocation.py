"""Access that a move takes away: who goes down, when, and what is told (attack 58, row H6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.reconciler import Road, hive
from fixtures.revocations import LOSERS, TREE, busy_until_told, invocations, jobs, play

from hive_core.errors import Internal, Unreachable
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.agents.revocation import RevocationState


def state(road: Road) -> list[RevocationState]:
    return [revocation.state for revocation in road.ledger.revocations.open()]


def test_attack_58_who_loses_is_restarted_and_who_moves_runs_on(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        before, road.links = invocations(road), 3
        job = await road.commit(road.hive.with_parent("bob", "dan"), bob="moved")
        after = invocations(road)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert all(after.values())
        assert (job.state, job.error) == ("done", "")
        assert (job.progress["links"], job.progress["revoked"]) == (3, road.clock.now())
        assert jobs(road) == ["ann"]  # with what lies below it
        (event,) = [e for e in road.ledger.events.page(0, 1000) if e.kind == "revoked"]
        assert event.fields["restarted"] == ["ann", "eve"]
        assert (event.fields["lost"], event.fields["links"]) == (["ann"], 3)
        assert road.ledger.revocations.open() == []

    play(tmp_path, story)


def test_attack_58_no_loser_starts_before_all_are_down_and_their_links_are_split(
    tmp_path: Path,
) -> None:
    """One that runs could hand the others what they have just lost."""

    async def story(road: Road) -> None:
        road.host.slow = True
        before = list(road.host.starts)
        job = road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        await road.settle()
        for name in ("eve", "ann"):
            assert road.host.starts == before
            assert jobs(road) == []
            road.host.settle(road.uuid(name))
            await road.settle()
        assert jobs(road) == ["ann"]
        assert {*road.host.starts[len(before) :]} == {road.uuid(name) for name in LOSERS}
        for name in LOSERS:
            road.host.settle(road.uuid(name))
        await road.settle()
        assert road.job(job.id).state == "done"

    play(tmp_path, story)


def test_the_job_ends_when_who_was_restarted_is_up_again_or_cannot_be(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.refuse("Mount", Internal("no room"))
        job = await road.commit(road.hive.with_parent("bob", "dan"), bob="moved")
        assert job.state == "running"
        assert job.progress["revoked"] == road.clock.now()  # that is over, whatever follows
        await road.want(DesiredState.STOPPED, "ann")
        road.host.refused.clear()
        await road.advance(60)
        assert road.job(job.id).state == "done"
        assert (road.state("ann"), road.state("eve")) == (State.STOPPED, State.RUNNING)

    play(tmp_path, story)


def test_attack_58_losers_stay_down_while_their_links_cannot_be_split(tmp_path: Path) -> None:
    """Fail closed; and the operator is told."""

    async def story(road: Road) -> None:
        road.jobs.refused = Internal("no room")
        job = await road.commit(road.hive.with_parent("bob", "dan"), bob="moved")
        assert job.state == "running"
        await road.advance(10)
        assert LOSERS.isdisjoint(name for name in TREE if road.uuid(name) in road.host.units)
        assert any("no room" in alarm for alarm in road.look.alarms())
        road.jobs.refused = None
        await road.advance(60)
        assert road.job(job.id).state == "done"
        assert all(invocations(road).values())
        assert road.look.alarms() == []

    play(tmp_path, story)


@pytest.mark.parametrize("action", ["MoveNode", "StopUnit", "StartUnit", "Mount", "RunJob"])
def test_attack_58_a_kill_of_either_daemon_at_each_step_loses_no_part_of_it(
    tmp_path: Path, action: str
) -> None:
    """The helper is away at one step, and hived dies there too; the next one goes on."""

    async def story(road: Road) -> None:
        before = invocations(road)
        away = Unreachable("cannot reach the root helper")
        if action == "RunJob":
            road.jobs.refused = away
        else:
            road.refuse(action, away)
        job = road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        await road.settle()
        road.host.refused.clear()
        road.jobs.refused = None
        road.restart()
        await road.advance(60)
        after = invocations(road)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert all(after.values())
        assert (road.job(job.id).state, jobs(road)[-1:]) == ("done", ["ann"])

    play(tmp_path, story)


def test_who_is_below_a_loser_by_now_is_restarted_too(tmp_path: Path) -> None:
    """It may have been handed what the loser held."""

    async def story(road: Road) -> None:
        road.how = {"latest": road.clock.now() + 100}
        busy = busy_until_told(road, "eve")
        job = road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        await road.settle()
        assert state(road) == [RevocationState.WAITING]
        spec = road.hive.spec("eve").model_copy(update={"uuid": hive({"x": None}).spec("x").uuid})
        road.begin(road.hive.with_agent("fay", "eve", spec))
        await road.settle()
        before = invocations(road)
        busy.clear()
        await road.advance(1)
        after = invocations(road)
        assert {name for name in before if before[name] != after[name]} == {*LOSERS, "fay"}
        assert road.job(job.id).state == "done"

    play(tmp_path, story)


def test_attack_58_who_left_a_loser_before_the_restart_is_restarted_too(tmp_path: Path) -> None:
    """It may take along what it was handed: out of the way of the restart, all day long."""

    async def story(road: Road) -> None:
        road.how = {"latest": road.clock.now() + 100}
        busy = busy_until_told(road, "ann")
        job = road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        await road.settle()
        spec = road.hive.spec("eve").model_copy(update={"uuid": hive({"x": None}).spec("x").uuid})
        road.begin(road.hive.with_agent("fay", "ann", spec))
        await road.settle()
        before = invocations(road)
        road.begin(road.hive.with_parent("fay", "root"))
        road.begin(road.hive.with_parent("eve", "root"))
        await road.settle()
        busy.clear()
        await road.advance(1)
        after = invocations(road)
        assert {name for name in before if before[name] != after[name]} == {*LOSERS, "fay"}
        assert {*jobs(road)} == {*LOSERS, "fay"}
        assert road.job(job.id).state == "done"

    play(tmp_path, story)


def test_attack_58_who_is_left_by_a_loser_that_is_destroyed_at_once_is_restarted(
    tmp_path: Path,
) -> None:
    """Both commits are there before anybody was told to restart."""

    async def story(road: Road) -> None:
        before = invocations(road)
        road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        road.begin(road.hive.without("ann"))
        await road.settle()
        after = invocations(road)
        assert {name for name in after if before[name] != after[name]} == {"eve"}
        assert jobs(road) == ["eve"]
        assert road.ledger.revocations.open() == []

    play(tmp_path, story)


def test_who_comes_to_be_below_a_loser_that_is_down_keeps_it_there_no_longer(
    tmp_path: Path,
) -> None:
    async def story(road: Road) -> None:
        before = invocations(road)
        road.jobs.refused = Internal("no room")
        job = road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        await road.settle()
        spec = road.hive.spec("eve").model_copy(update={"uuid": hive({"x": None}).spec("x").uuid})
        road.begin(road.hive.with_agent("fay", "root", spec))
        await road.settle()
        road.begin(road.hive.with_parent("fay", "ann"))
        await road.settle()
        road.jobs.refused = None
        await road.advance(60)
        assert road.job(job.id).state == "done"
        assert all(invocations(road).values())
        assert {name for name in before if before[name] != invocations(road)[name]} == LOSERS
        (event,) = [e for e in road.ledger.events.page(0, 1000) if e.kind == "revoked"]
        assert event.fields["restarted"] == ["ann", "eve", "fay"]

    play(tmp_path, story)


def test_attack_58_a_node_in_which_the_moved_agent_runs_again_is_left_alone(
    tmp_path: Path,
) -> None:
    """A copy in the place of what it writes to would lose what it writes."""

    async def story(road: Road) -> None:
        road.jobs.refused = Internal("no room")
        road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        await road.settle()
        road.begin(road.hive.with_parent("bob", "ann"), bob="moved")
        await road.settle()
        del road.jobs.ran[:]
        road.jobs.refused = None
        await road.advance(60)
        assert sorted(jobs(road)) == ["dan", "eve"]
        assert road.ledger.revocations.open() == []
        assert all(invocations(road).values())

    play(tmp_path, story)


def test_attack_58_who_lost_an_agent_that_is_destroyed_waits_until_it_is_archived(
    tmp_path: Path,
) -> None:
    """Its files are where they were until then, for whoever starts meanwhile to open."""

    async def story(road: Road) -> None:
        road.host.slow = True
        road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        road.begin(road.hive.without("bob", "cat"))
        await road.settle()
        for name in LOSERS:
            road.host.settle(road.uuid(name))
        await road.settle()
        assert jobs(road) == []
        road.host.slow = False
        for uuid in [*road.host.units]:
            road.host.settle(uuid)
        await road.advance(60)
        assert road.ledger.revocations.open() == []
        assert jobs(road) == ["ann"]

    play(tmp_path, story)


def test_a_move_by_hand_takes_access_away_like_any_other(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        before = invocations(road)
        road.hive = road.hive.with_parent("ann", None)
        road.road.on_topics(frozenset({"tree"}))
        await road.settle()
        after = invocations(road)
        assert {name for name in TREE if before[name] != after[name]} == {"root", "dan"}
        assert road.ledger.jobs.open() == []
        assert len(road.events("revoked")) == 1

    play(tmp_path, story)


def test_moved_there_and_back_nobody_who_is_above_it_again_is_restarted(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        before = invocations(road)
        road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        road.begin(road.hive.with_parent("bob", "ann"), bob="moved")
        await road.settle()
        after = invocations(road)
        assert {name for name in TREE if before[name] != after[name]} == {"dan"}
        assert road.ledger.jobs.open() == []

    play(tmp_path, story)


def test_children_that_a_destroyed_agent_leaves_run_on(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        before = invocations(road)
        job = await road.commit(road.hive.without("ann"))
        assert job.error == ""
        after = invocations(road)
        assert {name for name in after if before[name] != after[name]} == set()
        assert road.ledger.revocations.open() == []

    play(tmp_path, story)
