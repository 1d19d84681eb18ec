"""The change road end to end on a host in memory: start, crash, stop, move, destroy, drift."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fixtures.reconciler import TREE, Road, hive, play

from hive_core.errors import Conflict, HiveError, Internal, StorageFull, Unreachable
from hive_core.model.agents.machine import DesiredState, Observed, State
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.plan import actions as a
from hive_core.plan.agent_steps import copied_root
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.results import Result


def test_agents_of_a_commit_get_rows_and_run(tmp_path: Path) -> None:
    async def story(road: Road) -> None:
        assert road.states() == dict.fromkeys(TREE, State.RUNNING)
        assert len(set(road.ledger.ranges.all().values())) == len(TREE)
        assert {f"state:{road.uuid(name)}" for name in TREE} <= set(road.topics)

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
