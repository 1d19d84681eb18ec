"""Revocation after a move: which agents restart, when, and what is reported (attack 58, H6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.reconciler import ReconcilerHarness, hive
from fixtures.revocations import LOSERS, TREE, busy_until_told, invocations, jobs, play

from hive_core.errors import Internal, Unreachable
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.agents.revocation import RevocationState


def state(harness: ReconcilerHarness) -> list[RevocationState]:
    return [revocation.state for revocation in harness.ledger.revocations.open()]


def test_attack_58_a_loser_is_restarted_and_a_moved_agent_runs_on(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before, harness.links = invocations(harness), 3
        job = await harness.commit(harness.hive.with_parent("bob", "dan"), bob="moved")
        after = invocations(harness)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert all(after.values())
        assert (job.state, job.error) == ("done", "")
        assert (job.progress["links"], job.progress["revoked"]) == (3, harness.clock.now())
        assert jobs(harness) == ["ann"]  # with what lies below it
        (event,) = [e for e in harness.ledger.events.page(0, 1000) if e.kind == "revoked"]
        assert event.fields["restarted"] == ["ann", "eve"]
        assert (event.fields["lost"], event.fields["links"]) == (["ann"], 3)
        assert harness.ledger.revocations.open() == []

    play(tmp_path, story)


def test_attack_58_no_loser_starts_before_all_are_down_and_their_links_are_split(
    tmp_path: Path,
) -> None:
    """One that runs could hand the others what they have just lost."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.host.slow = True
        before = list(harness.host.starts)
        job = harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        await harness.settle()
        for name in ("eve", "ann"):
            assert harness.host.starts == before
            assert jobs(harness) == []
            harness.host.settle(harness.uuid(name))
            await harness.settle()
        assert jobs(harness) == ["ann"]
        assert {*harness.host.starts[len(before) :]} == {harness.uuid(name) for name in LOSERS}
        for name in LOSERS:
            harness.host.settle(harness.uuid(name))
        await harness.settle()
        assert harness.job(job.id).state == "done"

    play(tmp_path, story)


def test_the_job_ends_when_restarted_agents_are_up_again_or_cannot_be(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.refuse("Mount", Internal("no room"))
        job = await harness.commit(harness.hive.with_parent("bob", "dan"), bob="moved")
        assert job.state == "running"
        assert job.progress["revoked"] == harness.clock.now()  # that is over, whatever follows
        await harness.want(DesiredState.STOPPED, "ann")
        harness.host.refused.clear()
        await harness.advance(60)
        assert harness.job(job.id).state == "done"
        assert (harness.state("ann"), harness.state("eve")) == (State.STOPPED, State.RUNNING)

    play(tmp_path, story)


def test_attack_58_losers_stay_down_while_their_links_cannot_be_split(tmp_path: Path) -> None:
    """Fail closed, with an alarm for the operator."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.jobs.refused = Internal("no room")
        job = await harness.commit(harness.hive.with_parent("bob", "dan"), bob="moved")
        assert job.state == "running"
        await harness.advance(10)
        assert LOSERS.isdisjoint(name for name in TREE if harness.uuid(name) in harness.host.units)
        assert any("no room" in alarm for alarm in harness.observed.alarms())
        harness.jobs.refused = None
        await harness.advance(60)
        assert harness.job(job.id).state == "done"
        assert all(invocations(harness).values())
        assert harness.observed.alarms() == []

    play(tmp_path, story)


@pytest.mark.parametrize("action", ["MoveNode", "StopUnit", "StartUnit", "Mount", "RunJob"])
def test_attack_58_a_kill_of_either_daemon_at_each_step_loses_no_part_of_it(
    tmp_path: Path, action: str
) -> None:
    """The helper is away at one step, and hived dies there too; the next one goes on."""

    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        away = Unreachable("cannot reach the root helper")
        if action == "RunJob":
            harness.jobs.refused = away
        else:
            harness.refuse(action, away)
        job = harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        await harness.settle()
        harness.host.refused.clear()
        harness.jobs.refused = None
        harness.restart()
        await harness.advance(60)
        after = invocations(harness)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert all(after.values())
        assert (harness.job(job.id).state, jobs(harness)[-1:]) == ("done", ["ann"])

    play(tmp_path, story)


def test_an_agent_that_is_below_a_loser_by_now_is_restarted_too(tmp_path: Path) -> None:
    """It may have been handed what the loser held."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.how = {"latest": harness.clock.now() + 100}
        busy = busy_until_told(harness, "eve")
        job = harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        await harness.settle()
        assert state(harness) == [RevocationState.WAITING]
        spec = harness.hive.spec("eve").model_copy(
            update={"uuid": hive({"x": None}).spec("x").uuid}
        )
        harness.begin(harness.hive.with_agent("fay", "eve", spec))
        await harness.settle()
        before = invocations(harness)
        busy.clear()
        await harness.advance(1)
        after = invocations(harness)
        assert {name for name in before if before[name] != after[name]} == {*LOSERS, "fay"}
        assert harness.job(job.id).state == "done"

    play(tmp_path, story)


def test_attack_58_an_agent_that_left_a_loser_before_the_restart_is_restarted_too(
    tmp_path: Path,
) -> None:
    """It may take along what it was handed: out of the way of the restart, all day long."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.how = {"latest": harness.clock.now() + 100}
        busy = busy_until_told(harness, "ann")
        job = harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        await harness.settle()
        spec = harness.hive.spec("eve").model_copy(
            update={"uuid": hive({"x": None}).spec("x").uuid}
        )
        harness.begin(harness.hive.with_agent("fay", "ann", spec))
        await harness.settle()
        before = invocations(harness)
        harness.begin(harness.hive.with_parent("fay", "root"))
        harness.begin(harness.hive.with_parent("eve", "root"))
        await harness.settle()
        busy.clear()
        await harness.advance(1)
        after = invocations(harness)
        assert {name for name in before if before[name] != after[name]} == {*LOSERS, "fay"}
        assert {*jobs(harness)} == {*LOSERS, "fay"}
        assert harness.job(job.id).state == "done"

    play(tmp_path, story)


def test_attack_58_the_children_of_a_loser_that_is_destroyed_at_once_are_restarted(
    tmp_path: Path,
) -> None:
    """Both commits exist before any restart is requested."""

    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        harness.begin(harness.hive.without("ann"))
        await harness.settle()
        after = invocations(harness)
        assert {name for name in after if before[name] != after[name]} == {"eve"}
        assert jobs(harness) == ["eve"]
        assert harness.ledger.revocations.open() == []

    play(tmp_path, story)


def test_an_agent_that_comes_below_a_loser_that_is_down_keeps_it_down_no_longer(
    tmp_path: Path,
) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        harness.jobs.refused = Internal("no room")
        job = harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        await harness.settle()
        spec = harness.hive.spec("eve").model_copy(
            update={"uuid": hive({"x": None}).spec("x").uuid}
        )
        harness.begin(harness.hive.with_agent("fay", "root", spec))
        await harness.settle()
        harness.begin(harness.hive.with_parent("fay", "ann"))
        await harness.settle()
        harness.jobs.refused = None
        await harness.advance(60)
        assert harness.job(job.id).state == "done"
        assert all(invocations(harness).values())
        assert {name for name in before if before[name] != invocations(harness)[name]} == LOSERS
        (event,) = [e for e in harness.ledger.events.page(0, 1000) if e.kind == "revoked"]
        assert event.fields["restarted"] == ["ann", "eve", "fay"]

    play(tmp_path, story)


def test_attack_58_a_node_in_which_the_moved_agent_runs_again_is_left_alone(
    tmp_path: Path,
) -> None:
    """A copy in the place of its state directory would lose its later writes."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.jobs.refused = Internal("no room")
        harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        await harness.settle()
        harness.begin(harness.hive.with_parent("bob", "ann"), bob="moved")
        await harness.settle()
        del harness.jobs.ran[:]
        harness.jobs.refused = None
        await harness.advance(60)
        assert sorted(jobs(harness)) == ["dan", "eve"]
        assert harness.ledger.revocations.open() == []
        assert all(invocations(harness).values())

    play(tmp_path, story)


def test_attack_58_a_loser_of_a_destroyed_agent_waits_until_it_is_archived(
    tmp_path: Path,
) -> None:
    """Its files are where they were until then, for whoever starts meanwhile to open."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.host.slow = True
        harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        harness.begin(harness.hive.without("bob", "cat"))
        await harness.settle()
        for name in LOSERS:
            harness.host.settle(harness.uuid(name))
        await harness.settle()
        assert jobs(harness) == []
        harness.host.slow = False
        for uuid in [*harness.host.units]:
            harness.host.settle(uuid)
        await harness.advance(60)
        assert harness.ledger.revocations.open() == []
        assert jobs(harness) == ["ann"]

    play(tmp_path, story)


def test_a_move_by_hand_takes_access_away_like_any_other(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        harness.hive = harness.hive.with_parent("ann", None)
        harness.reconciler.on_topics(frozenset({"tree"}))
        await harness.settle()
        after = invocations(harness)
        assert {name for name in TREE if before[name] != after[name]} == {"root", "dan"}
        assert harness.ledger.jobs.open() == []
        assert len(harness.events("revoked")) == 1

    play(tmp_path, story)


def test_moved_there_and_back_restarts_no_agent_that_is_above_it_again(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        harness.begin(harness.hive.with_parent("bob", "ann"), bob="moved")
        await harness.settle()
        after = invocations(harness)
        assert {name for name in TREE if before[name] != after[name]} == {"dan"}
        assert harness.ledger.jobs.open() == []

    play(tmp_path, story)


def test_children_that_a_destroyed_agent_leaves_run_on(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        job = await harness.commit(harness.hive.without("ann"))
        assert job.error == ""
        after = invocations(harness)
        assert {name for name in after if before[name] != after[name]} == set()
        assert harness.ledger.revocations.open() == []

    play(tmp_path, story)
