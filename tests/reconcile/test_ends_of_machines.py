"""What the reconciler makes of machines that end: crashes, restarts, parking, alarms."""

from __future__ import annotations

from pathlib import Path

from fixtures.reconciler import TREE, Road, hive, play

from hive_core.model.agents.machine import DesiredState, Exit, State


def test_a_crash_is_told_to_the_parent_once_with_the_last_lines(tmp_path: Path) -> None:
    """Row H23."""

    async def story(road: Road) -> None:
        road.journal.write(road.uuid("bob"), "about to fall")
        road.host.crash(road.uuid("bob"), "7")
        await road.settle()
        letters = road.mail("ann")
        assert [letter.kind for letter in letters] == ["container_crash"]
        assert "bob crashed: ended with 7" in letters[0].body
        assert "about to fall" in letters[0].body
        assert road.state("bob") is State.FAILED
        assert f"inbox:{road.uuid('ann')}" in road.topics
        road.restart()
        await road.settle()
        assert len(road.mail("ann")) == 1
        assert len(road.events("crash")) == 1
        assert road.state("bob") is State.FAILED

    play(tmp_path, story)


def test_an_intended_end_is_no_crash(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        job = await road.want(DesiredState.STOPPED, "bob", grace=0)
        assert (job.state, road.state("bob")) == ("done", State.STOPPED)
        await road.want(DesiredState.RUNNING, "bob")
        job = await road.want(DesiredState.RUNNING, "bob", fresh=True)
        assert (job.state, road.state("bob")) == ("done", State.RUNNING)
        assert road.mail("ann") == []
        assert road.events("crash") == []

    play(tmp_path, story)


def test_an_end_with_zero_is_stopped(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.host.crash(road.uuid("bob"), "0")
        await road.settle()
        assert road.state("bob") is State.STOPPED
        run = road.ledger.runs.get(road.uuid("bob"))
        assert run is not None
        assert run.reason == "ended: ended with 0"
        assert "container_crash" not in {letter.kind for letter in road.mail("ann")}
        await road.want(DesiredState.RUNNING, "bob")
        assert road.state("bob") is State.RUNNING

    play(tmp_path, story)


def test_a_unit_stop_by_hand_is_started_again(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        before = road.unit("bob").invocation
        road.host.stop_by_hand(road.uuid("bob"))
        await road.settle()
        assert road.state("bob") is State.RUNNING
        assert road.unit("bob").invocation != before
        assert road.mail("ann") == []

    play(tmp_path, story)


def test_a_daemon_that_fails_comes_back_later_and_later_and_is_parked(tmp_path: Path) -> None:
    """Row K10, attack 50."""

    async def story(road: Road) -> None:
        uuid = road.uuid("dan")
        pauses = []
        for _ in range(4):
            road.host.crash(uuid)
            await road.settle()
            assert road.state("dan") is State.FAILED
            starts = road.ledger.starts.get(uuid)
            assert starts is not None
            pauses.append(starts.next_at - road.clock.now())
            await road.advance(pauses[-1])
            assert road.state("dan") is State.RUNNING
        for number, pause in enumerate(pauses):
            assert 2**number <= pause <= 1.2 * 2**number + 1e-6
        road.host.crash(uuid)
        await road.settle()
        assert road.state("dan") is State.PARKED
        assert "parked after 5 failures" in road.mail("root")[-1].body
        assert road.look.alarms() == ["dan is parked: ended with 1"]
        await road.advance(100_000)
        assert road.state("dan") is State.PARKED
        job = await road.want(DesiredState.RUNNING, "dan", fresh=True)
        assert (job.state, road.state("dan")) == ("done", State.RUNNING)

    play(tmp_path, story, hive(TREE, dan={"role": "daemon"}))


def test_the_root_agent_always_comes_back(tmp_path: Path) -> None:
    """Row H16: whatever its role, after an end with 0 too, and it is never parked."""

    async def story(road: Road) -> None:
        for number in range(8):
            road.host.crash(road.uuid("root"), str(number % 2))
            await road.settle()
            await road.advance(400)
            assert road.state("root") is State.RUNNING
        await road.want(DesiredState.STOPPED, "root")
        await road.advance(400)
        assert road.state("root") is State.STOPPED

    play(tmp_path, story)


def test_failures_in_a_row_of_an_agent_without_a_parent_are_an_alarm(tmp_path: Path) -> None:
    """Nobody is told by mail: it was seen in the events alone."""

    async def story(road: Road) -> None:
        uuid = road.uuid("root")
        for number in range(1, 5):
            road.host.crash(uuid, str(number))
            await road.settle()
            text = f"root failed {number} times in a row, and has no parent to notify: ended with"
            expected = [f"{text} {number}"] if number > 1 else []
            assert road.look.alarms() == expected
            await road.advance(20)
            assert road.state("root") is State.RUNNING
        road.restart()
        await road.settle()
        assert len(road.look.alarms()) == 1
        await road.advance(road.settings.back_off.healthy)
        assert road.look.alarms() == []

    play(tmp_path, story)


def test_a_root_that_stays_down_is_an_alarm_until_it_is_started(tmp_path: Path) -> None:
    """For every agent without a parent; who has one is the parent's to look after."""

    async def story(road: Road) -> None:
        for name in ("other", "bob"):
            road.host.crash(road.uuid(name))
        await road.settle()
        assert road.state("other") is road.state("bob") is State.FAILED
        why = "other failed and stays down, and has no parent to start it: ended with 1"
        assert road.look.alarms() == [why]
        await road.advance(100_000)
        assert road.look.alarms() == [why]
        await road.want(DesiredState.RUNNING, "other", fresh=True)
        assert road.look.alarms() == []
        road.host.crash(road.uuid("other"))
        await road.settle()
        await road.want(DesiredState.STOPPED, "other")
        assert road.look.alarms() == []

    play(tmp_path, story, hive({**TREE, "other": None}))


def test_failures_long_ago_are_forgotten(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        for _ in range(8):
            road.host.crash(road.uuid("dan"))
            await road.settle()
            await road.advance(2)
            assert road.state("dan") is State.RUNNING
            await road.advance(700)

    play(tmp_path, story, hive(TREE, dan={"role": "daemon"}))


def test_guests_that_reboot_in_a_loop_are_parked(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        uuid = road.uuid("bob")
        for number in range(5):
            unit = road.host.units[uuid]
            end = Exit(f"r{number}", "exit-code", "exited", "133", unit.nonce)
            road.host.exits[uuid] = end
            road.host.change(uuid, invocation=f"r{number + 1}")
            await road.settle()
        assert road.state("bob") is State.PARKED
        assert len(road.mail("ann")) == 1

    play(tmp_path, story)
