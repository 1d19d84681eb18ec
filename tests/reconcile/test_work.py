"""Steps that change nothing, and limits that somebody changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fixtures.reconciler import ReconcilerHarness, hive

from hive_core.model.agents.agent import SubtreeLimits
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.settings import Settings
from hive_core.plan import actions as a


def test_a_step_that_changes_nothing_is_done_ever_less_often(tmp_path: Path) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}))
        await harness.settle()
        harness.host.stubborn.add(harness.uuid("bob"))
        job = await harness.want(DesiredState.STOPPED, "bob")
        for _ in range(100):
            await harness.advance(0.1)
        stops = [action for action in harness.host.applied if isinstance(action, a.StopUnit)]
        assert 3 <= len(stops) <= 8
        harness.host.stubborn.clear()
        await harness.advance(30)
        assert harness.job(job.id).state == "done"
        await harness.close()

    asyncio.run(story())


def test_the_limits_of_all_agents_together_are_put_right(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings(all_limits=SubtreeLimits(tasks_max=5000))
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}), settings)
        await harness.settle()
        harness.host.slices["hive.slice"] = {"tasks_max": 9}
        harness.reconciler.requeue("")
        await harness.settle()
        assert harness.host.slices["hive.slice"] == {"tasks_max": 5000}
        await harness.close()

    asyncio.run(story())


def test_an_unannounced_change_is_found_within_a_minute(tmp_path: Path) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}))
        await harness.settle()
        del harness.host.units[harness.uuid("bob")]
        await harness.settle()
        assert harness.uuid("bob") not in harness.host.units
        await harness.advance(61)
        assert harness.uuid("bob") in harness.host.units
        await harness.close()

    asyncio.run(story())
