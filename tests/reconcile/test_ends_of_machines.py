"""What the reconciler makes of machines that end: crashes, restarts, parking, alarms."""

from __future__ import annotations

from pathlib import Path

from fixtures.reconciler import TREE, ReconcilerHarness, hive, play

from hive_core.model.agents.machine import DesiredState, Exit, State


def test_a_crash_is_told_to_the_parent_once_with_the_last_lines(tmp_path: Path) -> None:
    """Row H23."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.journal.write(harness.uuid("bob"), "about to fall")
        harness.host.crash(harness.uuid("bob"), "7")
        await harness.settle()
        letters = harness.mail("ann")
        assert [letter.kind for letter in letters] == ["container_crash"]
        assert "bob crashed: ended with 7" in letters[0].body
        assert "about to fall" in letters[0].body
        assert harness.state("bob") is State.FAILED
        assert f"inbox:{harness.uuid('ann')}" in harness.topics
        harness.restart()
        await harness.settle()
        assert len(harness.mail("ann")) == 1
        assert len(harness.events("crash")) == 1
        assert harness.state("bob") is State.FAILED

    play(tmp_path, story)


def test_an_intended_end_is_no_crash(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        job = await harness.want(DesiredState.STOPPED, "bob", grace=0)
        assert (job.state, harness.state("bob")) == ("done", State.STOPPED)
        await harness.want(DesiredState.RUNNING, "bob")
        job = await harness.want(DesiredState.RUNNING, "bob", fresh=True)
        assert (job.state, harness.state("bob")) == ("done", State.RUNNING)
        assert harness.mail("ann") == []
        assert harness.events("crash") == []

    play(tmp_path, story)


def test_an_end_with_zero_is_stopped(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.host.crash(harness.uuid("bob"), "0")
        await harness.settle()
        assert harness.state("bob") is State.STOPPED
        run = harness.ledger.runs.get(harness.uuid("bob"))
        assert run is not None
        assert run.reason == "ended: ended with 0"
        assert "container_crash" not in {letter.kind for letter in harness.mail("ann")}
        await harness.want(DesiredState.RUNNING, "bob")
        assert harness.state("bob") is State.RUNNING

    play(tmp_path, story)


def test_a_unit_stop_by_hand_is_started_again(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        before = harness.unit("bob").invocation
        harness.host.stop_by_hand(harness.uuid("bob"))
        await harness.settle()
        assert harness.state("bob") is State.RUNNING
        assert harness.unit("bob").invocation != before
        assert harness.mail("ann") == []

    play(tmp_path, story)


def test_a_daemon_that_fails_comes_back_later_and_later_and_is_parked(tmp_path: Path) -> None:
    """Row K10, attack 50."""

    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("dan")
        pauses = []
        for _ in range(4):
            harness.host.crash(uuid)
            await harness.settle()
            assert harness.state("dan") is State.FAILED
            starts = harness.ledger.starts.get(uuid)
            assert starts is not None
            pauses.append(starts.next_at - harness.clock.now())
            await harness.advance(pauses[-1])
            assert harness.state("dan") is State.RUNNING
        for number, pause in enumerate(pauses):
            assert 2**number <= pause <= 1.2 * 2**number + 1e-6
        harness.host.crash(uuid)
        await harness.settle()
        assert harness.state("dan") is State.PARKED
        assert "parked after 5 failures" in harness.mail("root")[-1].body
        assert harness.observed.alarms() == ["dan is parked: ended with 1"]
        await harness.advance(100_000)
        assert harness.state("dan") is State.PARKED
        job = await harness.want(DesiredState.RUNNING, "dan", fresh=True)
        assert (job.state, harness.state("dan")) == ("done", State.RUNNING)

    play(tmp_path, story, hive(TREE, dan={"role": "daemon"}))


def test_the_root_agent_always_comes_back(tmp_path: Path) -> None:
    """Row H16: whatever its role, after an end with 0 too, and it is never parked."""

    async def story(harness: ReconcilerHarness) -> None:
        for number in range(8):
            harness.host.crash(harness.uuid("root"), str(number % 2))
            await harness.settle()
            await harness.advance(400)
            assert harness.state("root") is State.RUNNING
        await harness.want(DesiredState.STOPPED, "root")
        await harness.advance(400)
        assert harness.state("root") is State.STOPPED

    play(tmp_path, story)


def test_failures_in_a_row_of_an_agent_without_a_parent_are_an_alarm(tmp_path: Path) -> None:
    """Without a parent, no agent gets mail about it: only the events showed it."""

    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("root")
        for number in range(1, 5):
            harness.host.crash(uuid, str(number))
            await harness.settle()
            text = f"root failed {number} times in a row, and has no parent to notify: ended with"
            expected = [f"{text} {number}"] if number > 1 else []
            assert harness.observed.alarms() == expected
            await harness.advance(20)
            assert harness.state("root") is State.RUNNING
        harness.restart()
        await harness.settle()
        assert len(harness.observed.alarms()) == 1
        await harness.advance(harness.settings.back_off.healthy)
        assert harness.observed.alarms() == []

    play(tmp_path, story)


def test_a_root_that_stays_down_is_an_alarm_until_it_is_started(tmp_path: Path) -> None:
    """For every agent without a parent; a parent looks after the others."""

    async def story(harness: ReconcilerHarness) -> None:
        for name in ("other", "bob"):
            harness.host.crash(harness.uuid(name))
        await harness.settle()
        assert harness.state("other") is harness.state("bob") is State.FAILED
        why = "other failed and stays down, and has no parent to start it: ended with 1"
        assert harness.observed.alarms() == [why]
        await harness.advance(100_000)
        assert harness.observed.alarms() == [why]
        await harness.want(DesiredState.RUNNING, "other", fresh=True)
        assert harness.observed.alarms() == []
        harness.host.crash(harness.uuid("other"))
        await harness.settle()
        await harness.want(DesiredState.STOPPED, "other")
        assert harness.observed.alarms() == []

    play(tmp_path, story, hive({**TREE, "other": None}))


def test_failures_long_ago_are_forgotten(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        for _ in range(8):
            harness.host.crash(harness.uuid("dan"))
            await harness.settle()
            await harness.advance(2)
            assert harness.state("dan") is State.RUNNING
            await harness.advance(700)

    play(tmp_path, story, hive(TREE, dan={"role": "daemon"}))


def test_guests_that_reboot_in_a_loop_are_parked(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("bob")
        for number in range(5):
            unit = harness.host.units[uuid]
            end = Exit(f"r{number}", "exit-code", "exited", "133", unit.nonce)
            harness.host.exits[uuid] = end
            harness.host.change(uuid, invocation=f"r{number + 1}")
            await harness.settle()
        assert harness.state("bob") is State.PARKED
        assert len(harness.mail("ann")) == 1

    play(tmp_path, story)
