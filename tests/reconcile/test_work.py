"""Steps that change nothing, and limits that somebody changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fixtures.reconciler import Road, hive

from hive_core.model.agents.agent import SubtreeLimits
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.settings import Settings
from hive_core.plan import actions as a


def test_a_step_that_changes_nothing_is_done_ever_less_often(tmp_path: Path) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive({"root": None, "bob": "root"}))
        await road.settle()
        road.host.stubborn.add(road.uuid("bob"))
        job = await road.want(DesiredState.STOPPED, "bob")
        for _ in range(100):
            await road.advance(0.1)
        stops = [action for action in road.host.applied if isinstance(action, a.StopUnit)]
        assert 3 <= len(stops) <= 8
        road.host.stubborn.clear()
        await road.advance(30)
        assert road.job(job.id).state == "done"
        await road.close()

    asyncio.run(story())


def test_the_limits_of_all_agents_together_are_put_right(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings(all_limits=SubtreeLimits(tasks_max=5000))
        road = Road(tmp_path, hive({"root": None, "bob": "root"}), settings)
        await road.settle()
        road.host.slices["hive.slice"] = {"tasks_max": 9}
        road.road.requeue("")
        await road.settle()
        assert road.host.slices["hive.slice"] == {"tasks_max": 5000}
        await road.close()

    asyncio.run(story())


def test_what_nobody_told_of_is_found_within_a_minute(tmp_path: Path) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive({"root": None, "bob": "root"}))
        await road.settle()
        del road.host.units[road.uuid("bob")]
        await road.settle()
        assert road.uuid("bob") not in road.host.units
        await road.advance(61)
        assert road.uuid("bob") in road.host.units
        await road.close()

    asyncio.run(story())
