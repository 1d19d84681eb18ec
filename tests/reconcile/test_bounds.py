"""Attack 9: an agent writes more than its limit without quotas, on a host in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.reconciler import ReconcilerHarness, hive

from hive_core.errors import StorageFull, Unreachable
from hive_core.model.agents.machine import DesiredState, State
from hive_core.plan.actions import JobKind, RunJob
from hive_core.plan.agent_steps import job_id
from hive_core.plan.disk_usage import DiskUse, least_headroom, parse_counts, size
from hive_core.plan.placement import DiskBounds
from hive_core.plan.results import Done, Result
from hive_core.reconcile import disk_limits
from hive_core.reconcile.disk_limits import LATEST, DiskLimiter

MIB = 1 << 20
TREE = {"root": None, "ann": "root", "bob": "ann"}
SPECS = {
    "ann": {"limits": {"disk": 100 * MIB}},
    "bob": {"limits": {"disk": 10 * MIB, "inodes": 500}},
}
Story = Callable[[ReconcilerHarness, "Disk"], Awaitable[None]]


class Disk:
    """What agents have written, and the job that counts it."""

    def __init__(self, harness: ReconcilerHarness) -> None:
        self.reconciler = harness
        self.used = dict.fromkeys(TREE, DiskUse())
        self.counted = 0
        ports = replace(harness.reconciler.ports, jobs=self)
        self.bounds = DiskLimiter(
            ports,
            harness.reconciler.broker,
            harness.observed,
            self.full,
            harness.reconciler.requeue,
        )

    def full(self) -> DiskUse:
        return DiskUse(*map(sum, zip(*self.used.values(), strict=True)))

    async def run(self, action: RunJob) -> Result:
        assert (action.work, action.uuid) == (JobKind.MEASURE, self.reconciler.uuid("root"))
        self.counted += 1
        shorts = {name: self.reconciler.uuid(name)[:8] for name in TREE} | {"root": "."}
        halves = [" ".join(f"{shorts[name]} {used[which]}" for name, used in self.used.items())
                  for which in (0, 1)]  # fmt: skip
        said = f"{halves[0]} files {halves[1]} end"
        job, now = (
            job_id(self.reconciler.uuid("root"), JobKind.MEASURE),
            self.reconciler.clock.now(),
        )
        self.reconciler.journal.write(job, said, time=now)
        return Done(changed=True)

    async def look(self) -> None:
        """All that a second causes."""
        self.reconciler.clock.advance(60)
        if self.bounds.is_due():
            await self.bounds.count_files()
        await self.reconciler.settle()


def play(folder: Path, story: Story) -> None:
    async def run() -> None:
        harness = ReconcilerHarness(folder, hive(TREE, **SPECS))
        await harness.settle()
        disk = Disk(harness)
        await disk.look()
        try:
            await story(harness, disk)
        finally:
            await harness.close()

    asyncio.run(run())


def test_an_agent_over_its_bound_is_killed_and_parked_and_its_parent_told_once(
    tmp_path: Path,
) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["bob"] = DiskUse(11 * MIB, 20)
        await disk.look()
        assert harness.state("bob") is State.PARKED
        assert harness.state("ann") is State.RUNNING
        (letter,) = harness.mail("ann")
        assert letter.kind == "disk_limit"
        assert letter.body == (
            "the files of bob take 11 MiB of 10 MiB and are 20 of 500: the agent is parked"
        )
        assert [
            text
            for text in harness.observed.alarms()
            if text.startswith("bob is parked: the files")
        ]
        assert harness.events("limit")
        for _ in range(10):
            await disk.look()
        assert len(harness.mail("ann")) == 1
        assert harness.state("bob") is State.PARKED

    play(tmp_path, story)


def test_too_many_files_are_as_bad_as_too_many_bytes(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["bob"] = DiskUse(0, 501)
        await disk.look()
        assert harness.state("bob") is State.PARKED

    play(tmp_path, story)


def test_an_agent_near_its_bound_is_warned_about_once(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["bob"] = DiskUse(9 * MIB + 1000, 20)
        for _ in range(20):
            await disk.look()
        assert [letter.kind for letter in harness.mail("ann")] == ["disk_warning"]
        assert harness.state("bob") is State.RUNNING

    play(tmp_path, story)


def test_an_agent_started_again_is_counted_again_and_parked_unless_it_swept_up(
    tmp_path: Path,
) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["bob"] = DiskUse(11 * MIB, 20)
        await disk.look()
        await harness.want(DesiredState.RUNNING, "bob", fresh=True)
        assert harness.state("bob") is State.RUNNING
        await disk.look()
        assert harness.state("bob") is State.PARKED
        disk.used["bob"] = DiskUse(1 * MIB, 20)
        await harness.want(DesiredState.RUNNING, "bob", fresh=True)
        await disk.look()
        assert harness.state("bob") is State.RUNNING

    play(tmp_path, story)


def test_no_agent_is_counted_while_none_can_be_over_its_bound(tmp_path: Path) -> None:
    """Only as much growth as the nearest one has left is worth a count, or a long time."""

    async def story(_: ReconcilerHarness, disk: Disk) -> None:
        before = disk.counted
        disk.used["ann"] = DiskUse(9 * MIB, 20)
        for _minute in range(int(LATEST) // 60 - 2):
            await disk.look()
        assert disk.counted == before
        disk.used["root"] = DiskUse(2 * MIB, 20)
        await disk.look()
        assert disk.counted == before + 1

    play(tmp_path, story)


def test_an_agent_that_writes_what_another_one_frees_is_found_in_the_end(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["ann"] = DiskUse(50 * MIB, 0)
        await disk.look()
        disk.used["ann"], disk.used["bob"] = DiskUse(), DiskUse(50 * MIB, 0)
        for _ in range(int(LATEST) // 60 + 1):
            await disk.look()
        assert harness.state("bob") is State.PARKED

    play(tmp_path, story)


def test_a_count_that_fails_is_an_alarm_and_is_tried_again(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["bob"] = DiskUse(11 * MIB, 20)
        harness.journal.fault = Unreachable("no journal")
        await disk.look()
        assert [
            text for text in harness.observed.alarms() if "cannot count the files of agents" in text
        ]
        assert harness.state("bob") is State.RUNNING
        harness.journal.fault = None
        for _ in range(int(LATEST) // 60 + 1):
            await disk.look()
        assert harness.state("bob") is State.PARKED
        assert not [text for text in harness.observed.alarms() if "cannot count" in text]

    play(tmp_path, story)


def test_what_was_written_before_a_count_that_failed_is_not_forgotten(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["bob"] = DiskUse(11 * MIB, 20)
        harness.journal.fault = Unreachable("no journal")
        await disk.look()
        harness.journal.fault = None
        await disk.look()
        assert harness.state("bob") is State.PARKED

    play(tmp_path, story)


def test_no_agent_is_counted_before_the_first_look_at_the_host(tmp_path: Path) -> None:
    """A count before it would find no files, and no agent would be counted again for minutes."""

    async def story(harness: ReconcilerHarness, _: Disk) -> None:
        harness.restart()
        disk = Disk(harness)
        disk.used["bob"] = DiskUse(11 * MIB, 20)
        assert not disk.bounds.is_due()
        await harness.settle()
        await disk.look()
        assert harness.state("bob") is State.PARKED

    play(tmp_path, story)


def test_the_agent_that_filled_the_disk_is_parked_with_what_was_held_back(tmp_path: Path) -> None:
    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        disk.used["bob"] = DiskUse(11 * MIB, 20)
        harness.journal.fault, held = StorageFull("the disk of the host is full"), [True]

        def spare() -> bool:
            harness.journal.fault = None
            return held.pop()

        disk.bounds.release_ballast = spare
        assert disk.bounds.is_due()
        await disk.bounds.count_files()
        harness.clock.advance(1)
        assert disk.bounds.is_due()  # at once
        await disk.bounds.count_files()
        await harness.settle()
        assert harness.state("bob") is State.PARKED
        assert not held

    play(tmp_path, story)


def test_half_a_count_is_none() -> None:
    for said in ("", "end", ". 1 . 2", ". 1 files . 2", ". files . 2 end", ". x files . 1 end"):
        try:
            parse_counts(said.split())
        except ValueError:
            continue
        raise AssertionError(said)
    assert parse_counts([". 1 . 2 0a 5 files . 1 0a 1 end"][0].split()) == {
        ".": DiskUse(3, 1), "0a": DiskUse(5, 1),
    }  # fmt: skip


def test_sizes_are_for_people() -> None:
    assert [size(1023), size(1 << 20), size(3 << 40)] == ["1023 B", "1 MiB", "3 TiB"]


def test_headroom_is_worked_out_again_only_when_a_limit_or_a_count_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for once a second, over all agents."""

    async def story(harness: ReconcilerHarness, disk: Disk) -> None:
        asked: list[None] = []

        def count(agents: Iterable[tuple[DiskBounds, DiskUse]]) -> DiskBounds:
            asked.append(None)
            return least_headroom(agents)

        monkeypatch.setattr(disk_limits, "least_headroom", count)
        for _ in range(3):
            assert not disk.bounds.is_due()
        assert len(asked) == 1
        disk.used["bob"] = DiskUse(11 * MIB, 20)
        await disk.look()
        assert len(asked) == 1
        harness.clock.advance(60)
        assert not disk.bounds.is_due()
        assert len(asked) == 2

    play(tmp_path, story)
