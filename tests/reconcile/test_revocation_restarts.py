"""When the agents that lose access restart, and which of them do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fixtures.reconciler import Road
from fixtures.revocations import LOSERS, TREE, busy_until_told, invocations, jobs, play

from hive_core.model.agents.machine import DesiredState, FailureHistory, State


def test_when_idle_waits_until_they_are_and_no_longer_than_said(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        busy_until_told(road, "eve")
        before, now = invocations(road), road.clock.now()
        road.how = {"latest": now + 20}
        job = road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        await road.settle()
        await road.advance(19)
        assert invocations(road) == before
        assert road.job(job.id).state == "running"
        await road.advance(2)
        after = invocations(road)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert road.job(job.id).state == "done"

    play(tmp_path, story)


def test_when_idle_does_not_wait_for_who_has_nothing_to_do(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        before = invocations(road)
        road.how = {"latest": road.clock.now() + 20}
        job = await road.commit(road.hive.with_parent("bob", "dan"), bob="moved")
        after = invocations(road)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert job.state == "done"

    play(tmp_path, story)


def test_without_restarts_it_is_told_who_may_still_hold_what_until_they_ended(
    tmp_path: Path,
) -> None:
    async def story(road: Road) -> None:
        before = invocations(road)
        road.how = {"restart": False}
        job = road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        nonces = {road.uuid(name): 1 for name in LOSERS}
        with road.ledger.transaction():
            road.ledger.revocations.set_nonces(road.ledger.revocations.open()[0].id, nonces)
        await road.settle()
        assert invocations(road) == before
        assert (road.job(job.id).state, jobs(road)) == ("done", ["ann"])
        assert "revoked" not in road.job(job.id).progress
        assert road.look.alarms() == [
            "may still hold files of bob, and were not restarted: ann, eve"
        ]
        await road.want(DesiredState.RUNNING, "ann", fresh=True)
        assert road.look.alarms() == ["may still hold files of bob, and were not restarted: eve"]
        road.restart()
        await road.settle()
        await road.want(DesiredState.RUNNING, "eve", fresh=True)
        assert road.look.alarms() == []
        assert jobs(road) == ["ann", "ann"]  # what was linked in between
        assert road.ledger.revocations.open() == []
        assert all(invocations(road).values())

    play(tmp_path, story)


def test_who_was_left_running_and_is_destroyed_is_not_told_of_any_more(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.how = {"restart": False}
        road.begin(road.hive.with_parent("bob", "dan"), bob="moved")
        with road.ledger.transaction():
            revocation = road.ledger.revocations.open()[0].id
            road.ledger.revocations.set_nonces(revocation, {road.uuid("eve"): 1})
        await road.settle()
        assert len(road.look.alarms()) == 1
        await road.commit(road.hive.without("eve"))
        assert road.look.alarms() == []
        assert road.ledger.revocations.open() == []

    play(tmp_path, story)


def test_such_a_restart_is_no_failure_and_forgives_none(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        uuid = road.uuid("ann")
        run = road.ledger.runs.get(uuid)
        assert run is not None
        failed = FailureHistory(
            (1.0, 2.0), 3.0, exit_seen="x", nonce=run.nonce, why="y", returns=True
        )
        with road.ledger.transaction():
            road.ledger.starts.put(uuid, failed)
        road.road.on_topics(frozenset({f"run:{uuid}"}))
        await road.settle()
        await road.commit(road.hive.with_parent("bob", "dan"), bob="moved")
        starts = road.ledger.starts.get(uuid)
        assert starts == replace(failed, nonce=run.nonce + 1)
        assert road.state("ann") is State.RUNNING
        assert road.events("crash") == []

    play(tmp_path, story)


def test_a_loser_that_is_parked_stays_parked(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        uuid = road.uuid("eve")
        road.host.crash(uuid)
        await road.settle()
        assert road.state("eve") is State.FAILED
        run = road.ledger.runs.get(uuid)
        job = await road.commit(road.hive.with_parent("bob", "dan"), bob="moved")
        assert (job.state, road.state("eve")) == ("done", State.FAILED)
        assert road.ledger.runs.get(uuid) == run

    play(tmp_path, story)
