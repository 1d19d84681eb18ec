"""Processor time written down by the change path: at each end, and now and then (row K25)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from fixtures.reconciler import ReconcilerHarness, hive

from hive_core.ledger.budgets.usage_rollup import DestroyedAgent
from hive_core.model.agents.machine import Cpu, DesiredState, Machine
from hive_core.model.work.budget import CPU
from hive_core.operations import load
from hive_core.reconcile.timers.cpu_meter import CpuMeter, record_cpu

load()
TREE = {"root": None, "ann": "root", "bob": "ann"}
SECOND = 1_000_000
Story = Callable[[ReconcilerHarness], Awaitable[None]]


def story(folder: Path, tell: Story) -> None:
    async def run() -> None:
        harness = ReconcilerHarness(folder, hive(TREE))
        await harness.settle()
        await tell(harness)
        await harness.close()

    asyncio.run(run())


def cpu_used(harness: ReconcilerHarness, uuid: str) -> int:
    """In milliseconds."""
    sums = harness.ledger.budgets.usage.sums("", 0, [uuid])
    return sum(amount for (_, kind, _), amount in sums.items() if kind == CPU)


def meter(harness: ReconcilerHarness) -> CpuMeter:
    def read(machine: Machine) -> Cpu | None:
        return harness.host.used.get(machine.uuid)

    return CpuMeter(harness.reconciler.ports, harness.reconciler.broker, harness.observed, read)


async def destroy(harness: ReconcilerHarness, name: str) -> None:
    """As the operation does: destroyed agents stay in the accounts."""
    gone = DestroyedAgent(harness.uuid(name), name, harness.uuid("ann"))
    with harness.ledger.transaction():
        harness.ledger.budgets.rollups.add(gone, harness.clock.now())
    await harness.commit(harness.hive.without(name), **{name: "absent"})


def test_what_a_machine_had_used_is_written_down_with_its_end(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        harness.host.used[bob] = Cpu("1", SECOND)
        await harness.want(DesiredState.STOPPED, "bob")
        assert cpu_used(harness, bob) == 1000
        harness.restart()
        await harness.settle()
        assert cpu_used(harness, bob) == 1000

    story(tmp_path, tell)


def test_an_end_that_no_daemon_saw_counts_when_one_looks(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        harness.host.used[bob] = Cpu("1", SECOND)
        harness.host.forget_watchers()
        harness.host.crash(bob)
        assert cpu_used(harness, bob) == 0
        harness.restart()
        await harness.settle()
        assert cpu_used(harness, bob) == 1000

    story(tmp_path, tell)


def test_what_was_written_down_meanwhile_is_not_counted_again(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        for so_far in (SECOND, SECOND, 2 * SECOND):
            harness.host.used[bob] = Cpu("1", so_far)
            await meter(harness).record_all()
            assert cpu_used(harness, bob) == so_far // 1000
        await harness.want(DesiredState.STOPPED, "bob")
        assert cpu_used(harness, bob) == 2000

    story(tmp_path, tell)


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        harness.host.used[harness.uuid("bob")] = Cpu("1", SECOND)
        await meter(harness).record_all()
        before = harness.ledger.connection.value("SELECT total_changes()")
        await meter(harness).record_all()
        assert harness.ledger.connection.value("SELECT total_changes()") == before

    story(tmp_path, tell)


def test_a_host_that_goes_down_takes_only_what_was_not_written(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        harness.host.used[bob] = Cpu("1", SECOND)
        await meter(harness).record_all()
        harness.host.used[bob] = Cpu("1", 2 * SECOND)
        harness.host.reboot()
        harness.restart()
        await harness.settle()
        assert cpu_used(harness, bob) == 1000

    story(tmp_path, tell)


def test_an_agent_destroyed_while_it_runs_keeps_what_it_used_until_its_end(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        harness.host.used[bob] = Cpu("1", SECOND)
        await destroy(harness, "bob")
        assert cpu_used(harness, bob) == 1000
        assert bob not in harness.host.units

    story(tmp_path, tell)


def test_the_end_before_the_last_counts_once_for_a_destroyed_agent(tmp_path: Path) -> None:
    """Its record lies there until the end of the machine that runs."""

    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        harness.host.used[bob] = Cpu("1", 100 * SECOND)
        await harness.want(DesiredState.STOPPED, "bob")
        await harness.want(DesiredState.RUNNING, "bob")
        harness.host.used[bob] = Cpu("2", 50 * SECOND)
        await meter(harness).record_all()
        harness.host.used[bob] = Cpu("2", 60 * SECOND)
        await destroy(harness, "bob")
        assert cpu_used(harness, bob) == 160_000

    story(tmp_path, tell)


def test_an_end_that_is_told_when_the_next_machine_is_measured_counts_once(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        for group, so_far in (("1", 60), ("2", 5), ("1", 100), ("1", 60), ("2", 80)):
            readings = {bob: Cpu(group, so_far * SECOND)}
            record_cpu(harness.reconciler.ports, harness.reconciler.broker, readings)
        assert cpu_used(harness, bob) == 180_000

    story(tmp_path, tell)


def test_an_unknown_agent_is_in_no_account(tmp_path: Path) -> None:
    async def tell(harness: ReconcilerHarness) -> None:
        bob = harness.uuid("bob")
        harness.host.used[bob] = Cpu("1", SECOND)
        await harness.commit(harness.hive.without("bob"), bob="absent")
        assert cpu_used(harness, bob) == 0

    story(tmp_path, tell)
