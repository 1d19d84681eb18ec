"""The change road end to end on a host in memory: start, crash, stop, move, destroy, drift."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fixtures.reconciler import Road, hive

from hive_core.errors import Conflict, HiveError, Internal, StorageFull, Unreachable
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState, Exit, Observed, State
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.plan import actions as a
from hive_core.plan.agent_steps import copied_root
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.results import Result

TREE = {"root": None, "ann": "root", "bob": "ann", "cat": "ann", "dan": "root"}
Story = Callable[[Road], Awaitable[None]]


def play(folder: Path, story: Story, first: Hive | None = None, **settings: object) -> None:
    """Run a story on a hive that has settled, and look for faults at the end."""

    async def run() -> None:
        road = Road(folder, first or hive(TREE), Settings.model_validate(settings))
        await road.settle()
        try:
            await story(road)
        finally:
            await road.close()
        assert not road.faults

    asyncio.run(run())


def test_agents_of_a_commit_get_rows_and_run(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        assert road.states() == dict.fromkeys(TREE, State.RUNNING)
        assert len(set(road.ledger.ranges.all().values())) == len(TREE)
        assert {f"state:{road.uuid(name)}" for name in TREE} <= set(road.topics)

    play(tmp_path, story)


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


def test_a_restart_of_the_daemon_starts_nobody_twice(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        starts = list(road.host.starts)
        road.restart()
        await road.settle()
        assert road.host.starts == starts
        assert road.states() == dict.fromkeys(TREE, State.RUNNING)
        assert road.host.storage.listening == set(road.hive.names)

    play(tmp_path, story)


def test_a_reboot_of_the_host_starts_what_was_wanted(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        await road.want(DesiredState.STOPPED, "cat")
        road.host.reboot()
        road.restart()
        await road.settle()
        assert road.state("cat") is State.STOPPED
        assert road.state("bob") is State.RUNNING
        assert road.mail("ann") == []

    play(tmp_path, story)


def test_no_more_than_so_many_start_at_once(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.host.slow = True
        road.host.reboot()
        road.restart()
        await road.settle()
        while waiting := [uuid for uuid, unit in road.host.units.items()
                          if unit.active == "activating"]:  # fmt: skip
            assert len(waiting) <= 3
            road.host.settle(waiting[0])
            await road.settle()
        assert set(road.states().values()) == {State.RUNNING}

    many = {f"a{n}": None for n in range(12)}
    play(tmp_path, story, hive(many), limits={"starts_at_once": 3})


def test_who_is_told_to_start_during_a_look_keeps_its_seat(tmp_path: Path) -> None:
    """What was seen of it is from before, and a seat given away twice is one too many."""

    async def story(road: Road) -> None:
        road.host.slow = True
        road.host.reboot()
        road.restart()
        gate, apply = asyncio.Event(), road.host.apply

        async def late(action: a.Action | DaemonAction) -> Result:
            if isinstance(action, a.StartUnit):
                await gate.wait()
            return await apply(action)

        async def long(_: object = None) -> Observed:
            observed = road.host.snapshot()
            gate.set()
            await asyncio.gather(*road.road.runner.busy.values())
            return observed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(road.host, "apply", late)
            await road.road.converge()
            assert len(road.road.runner.busy) == 3
            patch.setattr(road.host, "observe", long)
            road.road.requeue("")
            await road.road.converge()
        await road.settle()
        units = road.host.units.values()
        assert len([unit for unit in units if unit.active == "activating"]) == 3

    many = {f"a{n}": None for n in range(12)}
    play(tmp_path, story, hive(many), limits={"starts_at_once": 3})


def test_a_recursive_stop_goes_leaves_first(tmp_path: Path) -> None:
    """Row K11."""

    async def story(road: Road) -> None:
        job = await road.want(DesiredState.STOPPED, "root", "ann", "bob", "cat", "dan")
        ends = [action.name for action in road.host.applied if isinstance(action, a.StopUnit)]
        assert set(ends[:3]) == {"bob", "cat", "dan"}
        assert ends[3:] == ["ann", "root"]
        assert job.state == "done"

    play(tmp_path, story)


def test_a_stop_that_is_ignored_becomes_a_kill_after_its_grace(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.host.slow = True
        job = await road.want(DesiredState.STOPPED, "bob", grace=2.0)
        assert road.state("bob") is State.STOPPING
        await road.advance(1.9)
        assert road.state("bob") is State.STOPPING
        await road.advance(0.2)
        assert road.state("bob") is State.STOPPED
        assert road.job(job.id).state == "done"
        assert road.events("crash") == []

    play(tmp_path, story)


def test_jobs_end_with_what_hinders_them(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.host.slow = True
        begun = await road.want(DesiredState.RUNNING, "bob", fresh=True)
        await road.want(DesiredState.STOPPED, "bob")
        assert road.job(begun.id).error == "Conflict: bob was stopped meanwhile"
        road.host.slow = False
        road.host.settle(road.uuid("bob"))
        await road.settle()
        road.host.slow = True
        job = await road.want(DesiredState.RUNNING, "bob")
        road.host.crash(road.uuid("bob"), "3")
        await road.settle()
        assert road.job(job.id).error == "NotRunning: bob ended with 3"
        assert f"job:{job.id}" in road.topics

    play(tmp_path, story)


@pytest.mark.parametrize("kind", [Internal, StorageFull])
def test_what_cannot_be_done_is_tried_again_and_told(tmp_path: Path, kind: type[HiveError]) -> None:
    async def story(road: Road) -> None:
        road.refuse("Mount", kind("no room for it"))
        job = await road.want(DesiredState.RUNNING, "bob", fresh=True)
        assert any("no room" in alarm for alarm in road.look.alarms())
        for _ in range(4):
            await road.advance(1)
        assert road.job(job.id).error.startswith(f"{kind.__name__}: cannot reconcile agent bob")
        road.host.refused.clear()
        await road.advance(60)
        assert road.state("bob") is State.RUNNING
        assert road.look.alarms() == []

    play(tmp_path, story)


def test_a_helper_that_is_away_for_a_while_fails_no_job(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.refuse("Mount", Unreachable("cannot reach the root helper"))
        job = await road.want(DesiredState.RUNNING, "bob", fresh=True)
        for _ in range(8):
            await road.advance(1)
        assert any("root helper" in alarm for alarm in road.look.alarms())
        assert road.job(job.id).ended is None
        road.host.refused.clear()
        await road.advance(60)
        assert (road.job(job.id).ended is not None, road.job(job.id).error) == (True, "")
        assert road.look.alarms() == []

    play(tmp_path, story)


def test_a_step_that_changes_nothing_is_not_repeated_in_a_hurry(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        uuid = road.uuid("bob")
        road.host.change(uuid, slice="other.slice")
        road.host.stubborn.add(uuid)
        await road.settle()
        assert len([action for action in road.host.applied if isinstance(action, a.StopUnit)]) <= 2

    play(tmp_path, story)


def test_destroy_archives_and_in_due_time_deletes(tmp_path: Path) -> None:
    """Rows H22, H30."""

    async def story(road: Road) -> None:
        uuid = road.uuid("ann")
        old = road.hive
        road.hive = old.without("ann")
        hive_, road.hive = road.hive, old
        job = await road.commit(hive_, ann="absent")
        assert job.state == "done"
        assert uuid in road.host.storage.archives
        assert road.states() == dict.fromkeys(("root", "bob", "cat", "dan"), State.RUNNING)
        assert uuid in road.ledger.ranges.all()
        await road.advance(road.settings.retention.archive)
        assert uuid not in road.host.storage.archives
        assert [action.work for action in road.jobs.ran] == [a.JobKind.PURGE_ARCHIVE]
        assert (road.ledger.archives.all(), uuid in road.ledger.ranges.all()) == ([], False)
        assert road.ledger.runs.get(uuid) is None

    play(tmp_path, story)


def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        road.host.crash(road.uuid("bob"))
        road.journal.fault = StorageFull("disk full")
        await road.settle()
        assert len(road.mail("ann")) == 1

    play(tmp_path, story)


def test_a_wish_that_changes_while_it_is_carried_out_is_heard(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        await road.want(DesiredState.STOPPED, "bob")
        with road.ledger.transaction():
            road.ledger.runs.want(road.uuid("bob"), DesiredState.RUNNING, road.clock.now())
        road.road.on_topics(frozenset({f"run:{road.uuid('bob')}"}))
        await road.road.converge()
        with road.ledger.transaction():
            road.ledger.runs.want(road.uuid("bob"), DesiredState.STOPPED, road.clock.now())
        road.road.on_topics(frozenset({f"run:{road.uuid('bob')}"}))
        await road.settle()
        assert road.state("bob") is State.STOPPED

    play(tmp_path, story)


def test_prepared_trees_are_copied_by_a_job(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        assert [action.work for action in road.jobs.ran] == [a.JobKind.COPY_TREE]
        assert road.state("dan") is State.RUNNING

    images = {"debian": "/srv/debian"}
    play(tmp_path, story, hive(TREE, dan={"image": "debian"}), images=images)


def test_a_refused_start_does_not_stop_others(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        first = await road.want(DesiredState.RUNNING, "bob", fresh=True)
        assert first.state == "done"
        assert road.state("dan") is State.STARTING
        for _ in range(6):
            await road.advance(5)
        uuid = road.uuid("dan")
        road.host.storage.roots.add(copied_root(uuid))
        road.jobs.refused = None
        after = road.hive.without("dan")
        with road.ledger.transaction():  # `destroy` names it while it is still there
            goals = {uuid: "absent"}
            job = road.ledger.jobs.create("destroy", "operator", goals, road.clock.now())
        await road.commit(after)
        assert road.job(job.id).error == ""
        assert road.job(job.id).state == "done"
        assert road.host.storage.roots == set()

    async def begin(folder: Path) -> None:
        road = Road(folder, hive(TREE, dan={"image": "debian"}),
                    Settings.model_validate({"images": {"debian": "/srv/debian"}}))  # fmt: skip
        road.jobs.refused = Conflict("no such tree")
        await road.settle()
        await story(road)
        await road.close()

    asyncio.run(begin(tmp_path))


@pytest.mark.parametrize("count", [1000])
def test_a_thousand_agents_are_adopted_and_settle(tmp_path: Path, count: int) -> None:
    async def story(road: Road) -> None:
        road.restart()
        await road.settle()
        assert set(road.states().values()) == {State.RUNNING}

    parents = {f"a{n}": f"a{(n - 1) // 10}" if n else None for n in range(count)}
    play(tmp_path, story, hive(parents), limits=HostLimits(starts_at_once=64).model_dump())


def test_a_wish_counts_for_who_asks_before_anybody_looked_again(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        uuid = road.uuid("bob")
        with road.ledger.transaction():
            road.ledger.runs.want(uuid, DesiredState.RUNNING, road.clock.now(), fresh=True)
        road.road.on_topics(frozenset({f"run:{uuid}"}))
        assert road.look.state(uuid) is State.STOPPING
        await road.settle()
        assert road.look.state(uuid) is State.RUNNING
        assert not road.look.unseen

    play(tmp_path, story)
