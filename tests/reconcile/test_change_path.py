"""The change path end to end on a host in memory: start, crash, stop, move, destroy, drift."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from fixtures.reconciler import TREE, ReconcilerHarness, hive, play
from long import times

from hive_core.errors import Conflict, HiveError, Internal, StorageFull, Unreachable
from hive_core.model.agents.machine import DesiredState, Observed, State
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.plan import actions as a
from hive_core.plan.agent_steps import copied_root
from hive_core.plan.daemon_actions import DaemonAction
from hive_core.plan.results import Result


def test_agents_of_a_commit_get_rows_and_run(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        assert harness.states() == dict.fromkeys(TREE, State.RUNNING)
        assert len(set(harness.ledger.ranges.all().values())) == len(TREE)
        assert {f"state:{harness.uuid(name)}" for name in TREE} <= set(harness.topics)

    play(tmp_path, story)


def test_a_restart_of_the_daemon_starts_no_agent_twice(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        starts = list(harness.host.starts)
        harness.restart()
        await harness.settle()
        assert harness.host.starts == starts
        assert harness.states() == dict.fromkeys(TREE, State.RUNNING)
        assert harness.host.storage.listening == set(harness.hive.names)

    play(tmp_path, story)


def test_a_reboot_of_the_host_starts_what_was_wanted(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        await harness.want(DesiredState.STOPPED, "cat")
        harness.host.reboot()
        harness.restart()
        await harness.settle()
        assert harness.state("cat") is State.STOPPED
        assert harness.state("bob") is State.RUNNING
        assert harness.mail("ann") == []

    play(tmp_path, story)


def test_no_more_than_so_many_start_at_once(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.host.slow = True
        harness.host.reboot()
        harness.restart()
        await harness.settle()
        while waiting := [uuid for uuid, unit in harness.host.units.items()
                          if unit.active == "activating"]:  # fmt: skip
            assert len(waiting) <= 3
            harness.host.settle(waiting[0])
            await harness.settle()
        assert set(harness.states().values()) == {State.RUNNING}

    many = {f"a{n}": None for n in range(12)}
    play(tmp_path, story, hive(many), limits={"starts_at_once": 3})


def test_an_agent_that_is_to_start_during_a_look_keeps_its_slot(tmp_path: Path) -> None:
    """The observation is from before; a slot that is given twice is one too many."""

    async def story(harness: ReconcilerHarness) -> None:
        harness.host.slow = True
        harness.host.reboot()
        harness.restart()
        gate, apply = asyncio.Event(), harness.host.apply

        async def late(action: a.Action | DaemonAction) -> Result:
            if isinstance(action, a.StartUnit):
                await gate.wait()
            return await apply(action)

        async def long(_: object = None) -> Observed:
            observed = harness.host.snapshot()
            gate.set()
            await asyncio.gather(*harness.reconciler.runner.busy.values())
            return observed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(harness.host, "apply", late)
            await harness.reconciler.converge()
            assert len(harness.reconciler.runner.busy) == 3
            patch.setattr(harness.host, "observe", long)
            harness.reconciler.requeue("")
            await harness.reconciler.converge()
        await harness.settle()
        units = harness.host.units.values()
        assert len([unit for unit in units if unit.active == "activating"]) == 3

    many = {f"a{n}": None for n in range(12)}
    play(tmp_path, story, hive(many), limits={"starts_at_once": 3})


def test_a_recursive_stop_goes_leaves_first(tmp_path: Path) -> None:
    """Row K11."""

    async def story(harness: ReconcilerHarness) -> None:
        job = await harness.want(DesiredState.STOPPED, "root", "ann", "bob", "cat", "dan")
        ends = [action.name for action in harness.host.applied if isinstance(action, a.StopUnit)]
        assert set(ends[:3]) == {"bob", "cat", "dan"}
        assert ends[3:] == ["ann", "root"]
        assert job.state == "done"

    play(tmp_path, story)


def test_a_stop_that_is_ignored_becomes_a_kill_after_its_grace(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.host.slow = True
        job = await harness.want(DesiredState.STOPPED, "bob", grace=2.0)
        assert harness.state("bob") is State.STOPPING
        await harness.advance(1.9)
        assert harness.state("bob") is State.STOPPING
        await harness.advance(0.2)
        assert harness.state("bob") is State.STOPPED
        assert harness.job(job.id).state == "done"
        assert harness.events("crash") == []

    play(tmp_path, story)


def test_jobs_end_with_what_hinders_them(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.host.slow = True
        begun = await harness.want(DesiredState.RUNNING, "bob", fresh=True)
        await harness.want(DesiredState.STOPPED, "bob")
        assert harness.job(begun.id).error == "Conflict: bob was stopped meanwhile"
        harness.host.slow = False
        harness.host.settle(harness.uuid("bob"))
        await harness.settle()
        harness.host.slow = True
        job = await harness.want(DesiredState.RUNNING, "bob")
        harness.host.crash(harness.uuid("bob"), "3")
        await harness.settle()
        assert harness.job(job.id).error == "NotRunning: bob ended with 3"
        assert f"job:{job.id}" in harness.topics

    play(tmp_path, story)


@pytest.mark.parametrize("kind", [Internal, StorageFull])
def test_what_cannot_be_done_is_tried_again_and_told(tmp_path: Path, kind: type[HiveError]) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.refuse("Mount", kind("no room for it"))
        job = await harness.want(DesiredState.RUNNING, "bob", fresh=True)
        (alarm,) = harness.observed.alarms()
        assert "no room" in alarm
        assert harness.observed.named_alarms() == [(alarm, "bob")]
        for _ in range(4):
            await harness.advance(1)
        assert harness.job(job.id).error.startswith(f"{kind.__name__}: cannot reconcile agent bob")
        harness.host.refused.clear()
        await harness.advance(60)
        assert harness.state("bob") is State.RUNNING
        assert harness.observed.alarms() == []

    play(tmp_path, story)


def test_a_route_of_hive_notify_that_cannot_be_used_is_an_alarm(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        with harness.ledger.transaction():
            report = {"faults": {"phone": "no token"}, "daemon": 0.0}
            harness.ledger.marks.put("route_report", json.dumps(report))
        ((text, agent),) = harness.observed.named_alarms()
        assert text.startswith("hive-notify says that it cannot send by route phone: no token;")
        assert agent == ""

    route = {"type": "ntfy", "url": "https://ntfy.example", "topic": "t"}
    play(tmp_path, story, notify={"routes": {"phone": route}})


def test_a_helper_that_is_away_for_a_while_fails_no_job(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.refuse("Mount", Unreachable("cannot reach the root helper"))
        job = await harness.want(DesiredState.RUNNING, "bob", fresh=True)
        for _ in range(8):
            await harness.advance(1)
        assert any("root helper" in alarm for alarm in harness.observed.alarms())
        assert harness.job(job.id).ended is None
        harness.host.refused.clear()
        await harness.advance(60)
        assert (harness.job(job.id).ended is not None, harness.job(job.id).error) == (True, "")
        assert harness.observed.alarms() == []

    play(tmp_path, story)


def test_a_step_that_changes_nothing_is_not_repeated_in_a_hurry(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("bob")
        harness.host.change(uuid, slice="other.slice")
        harness.host.stubborn.add(uuid)
        await harness.settle()
        assert (
            len([action for action in harness.host.applied if isinstance(action, a.StopUnit)]) <= 2
        )

    play(tmp_path, story)


def test_destroy_archives_and_in_due_time_deletes(tmp_path: Path) -> None:
    """Rows H22, H30."""

    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("ann")
        old = harness.hive
        harness.hive = old.without("ann")
        hive_, harness.hive = harness.hive, old
        job = await harness.commit(hive_, ann="absent")
        assert job.state == "done"
        assert uuid in harness.host.storage.archives
        assert harness.states() == dict.fromkeys(("root", "bob", "cat", "dan"), State.RUNNING)
        assert uuid in harness.ledger.ranges.all()
        await harness.advance(harness.settings.retention.archive)
        assert uuid not in harness.host.storage.archives
        assert [action.work for action in harness.jobs.ran] == [a.JobKind.PURGE_ARCHIVE]
        assert (harness.ledger.archives.all(), uuid in harness.ledger.ranges.all()) == ([], False)
        assert harness.ledger.runs.get(uuid) is None

    play(tmp_path, story)


def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.host.crash(harness.uuid("bob"))
        harness.journal.fault = StorageFull("disk full")
        await harness.settle()
        assert len(harness.mail("ann")) == 1

    play(tmp_path, story)


def test_a_wish_that_changes_while_it_is_carried_out_is_heard(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        await harness.want(DesiredState.STOPPED, "bob")
        with harness.ledger.transaction():
            harness.ledger.runs.want(harness.uuid("bob"), DesiredState.RUNNING, harness.clock.now())
        harness.reconciler.on_topics(frozenset({f"run:{harness.uuid('bob')}"}))
        await harness.reconciler.converge()
        with harness.ledger.transaction():
            harness.ledger.runs.want(harness.uuid("bob"), DesiredState.STOPPED, harness.clock.now())
        harness.reconciler.on_topics(frozenset({f"run:{harness.uuid('bob')}"}))
        await harness.settle()
        assert harness.state("bob") is State.STOPPED

    play(tmp_path, story)


def test_prepared_trees_are_copied_by_a_job(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        assert [action.work for action in harness.jobs.ran] == [a.JobKind.COPY_TREE]
        assert harness.state("dan") is State.RUNNING

    images = {"debian": "/srv/debian"}
    play(tmp_path, story, hive(TREE, dan={"image": "debian"}), images=images)


def test_a_refused_start_does_not_stop_others(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        first = await harness.want(DesiredState.RUNNING, "bob", fresh=True)
        assert first.state == "done"
        assert harness.state("dan") is State.STARTING
        for _ in range(6):
            await harness.advance(5)
        uuid = harness.uuid("dan")
        harness.host.storage.roots.add(copied_root(uuid))
        harness.jobs.refused = None
        after = harness.hive.without("dan")
        with harness.ledger.transaction():  # `destroy` names it while it is still there
            goals = {uuid: "absent"}
            job = harness.ledger.jobs.create("destroy", "operator", goals, harness.clock.now())
        await harness.commit(after)
        assert harness.job(job.id).error == ""
        assert harness.job(job.id).state == "done"
        assert harness.host.storage.roots == set()

    async def begin(folder: Path) -> None:
        harness = ReconcilerHarness(folder, hive(TREE, dan={"image": "debian"}),
                    Settings.model_validate({"images": {"debian": "/srv/debian"}}))  # fmt: skip
        harness.jobs.refused = Conflict("no such tree")
        await harness.settle()
        await story(harness)
        await harness.close()

    asyncio.run(begin(tmp_path))


@pytest.mark.sized
@pytest.mark.parametrize("count", [times(300, 1000)])
def test_hundreds_of_agents_are_adopted_and_settle(tmp_path: Path, count: int) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        harness.restart()
        await harness.settle()
        assert set(harness.states().values()) == {State.RUNNING}

    parents = {f"a{n}": f"a{(n - 1) // 10}" if n else None for n in range(count)}
    play(tmp_path, story, hive(parents), limits=HostLimits(starts_at_once=64).model_dump())


def test_a_request_counts_for_its_caller_before_the_next_look(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness) -> None:
        uuid = harness.uuid("bob")
        with harness.ledger.transaction():
            harness.ledger.runs.want(uuid, DesiredState.RUNNING, harness.clock.now(), fresh=True)
        harness.reconciler.on_topics(frozenset({f"run:{uuid}"}))
        assert harness.observed.state(uuid) is State.STOPPING
        await harness.settle()
        assert harness.observed.state(uuid) is State.RUNNING
        assert not harness.observed.unseen

    play(tmp_path, story)
