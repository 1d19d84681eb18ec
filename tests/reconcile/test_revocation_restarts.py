"""When the agents that lose access restart, and which of them do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fixtures.reconciler import ReconcilerHarness
from fixtures.revocations import LOSERS, TREE, busy_until_told, invocations, jobs, play

from hive_core.model.agents.machine import DesiredState, FailureHistory, State


def test_when_idle_waits_until_they_are_and_no_longer_than_said(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        busy_until_told(harness, "eve")
        before, now = invocations(harness), harness.clock.now()
        harness.how = {"latest": now + 20}
        job = harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        await harness.settle()
        await harness.advance(19)
        assert invocations(harness) == before
        assert harness.job(job.id).state == "running"
        await harness.advance(2)
        after = invocations(harness)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert harness.job(job.id).state == "done"

    play(tmp_path, story)


def test_when_idle_does_not_wait_for_an_idle_agent(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        harness.how = {"latest": harness.clock.now() + 20}
        job = await harness.commit(harness.hive.with_parent("bob", "dan"), bob="moved")
        after = invocations(harness)
        assert {name for name in TREE if before[name] != after[name]} == LOSERS
        assert job.state == "done"

    play(tmp_path, story)


def test_without_restarts_possible_holders_are_reported_until_they_end(
    tmp_path: Path,
) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before = invocations(harness)
        harness.how = {"restart": False}
        job = harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        nonces = {harness.uuid(name): 1 for name in LOSERS}
        with harness.ledger.transaction():
            harness.ledger.revocations.set_nonces(harness.ledger.revocations.open()[0].id, nonces)
        await harness.settle()
        assert invocations(harness) == before
        assert (harness.job(job.id).state, jobs(harness)) == ("done", ["ann"])
        assert "revoked" not in harness.job(job.id).progress
        assert harness.observed.alarms() == [
            "may still hold files of bob, and were not restarted: ann, eve"
        ]
        await harness.want(DesiredState.RUNNING, "ann", fresh=True)
        assert harness.observed.named_alarms() == [
            ("may still hold files of bob, and were not restarted: eve", "bob")
        ]
        harness.restart()
        await harness.settle()
        await harness.want(DesiredState.RUNNING, "eve", fresh=True)
        assert harness.observed.alarms() == []
        assert jobs(harness) == ["ann", "ann"]  # what was linked in between
        assert harness.ledger.revocations.open() == []
        assert all(invocations(harness).values())

    play(tmp_path, story)


def test_an_agent_that_was_left_running_and_is_destroyed_is_reported_no_more(
    tmp_path: Path,
) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.how = {"restart": False}
        harness.begin(harness.hive.with_parent("bob", "dan"), bob="moved")
        with harness.ledger.transaction():
            revocation = harness.ledger.revocations.open()[0].id
            harness.ledger.revocations.set_nonces(revocation, {harness.uuid("eve"): 1})
        await harness.settle()
        assert len(harness.observed.alarms()) == 1
        await harness.commit(harness.hive.without("eve"))
        assert harness.observed.alarms() == []
        assert harness.ledger.revocations.open() == []

    play(tmp_path, story)


def test_such_a_restart_is_no_failure_and_forgives_none(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("ann")
        run = harness.ledger.runs.get(uuid)
        assert run is not None
        failed = FailureHistory(
            (1.0, 2.0), 3.0, exit_seen="x", nonce=run.nonce, why="y", returns=True
        )
        with harness.ledger.transaction():
            harness.ledger.starts.put(uuid, failed)
        harness.reconciler.on_topics(frozenset({f"run:{uuid}"}))
        await harness.settle()
        await harness.commit(harness.hive.with_parent("bob", "dan"), bob="moved")
        starts = harness.ledger.starts.get(uuid)
        assert starts == replace(failed, nonce=run.nonce + 1)
        assert harness.state("ann") is State.RUNNING
        assert harness.events("crash") == []

    play(tmp_path, story)


def test_a_loser_that_is_parked_stays_parked(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("eve")
        harness.host.crash(uuid)
        await harness.settle()
        assert harness.state("eve") is State.FAILED
        run = harness.ledger.runs.get(uuid)
        job = await harness.commit(harness.hive.with_parent("bob", "dan"), bob="moved")
        assert (job.state, harness.state("eve")) == ("done", State.FAILED)
        assert harness.ledger.runs.get(uuid) == run

    play(tmp_path, story)
