"""Steps that fail, and steps that change nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reconcile.road import Road, hive

from hive_core.model.machine import Wanted
from hive_core.plan import actions as a


def test_a_step_that_changes_nothing_is_done_ever_less_often(tmp_path: Path) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive({"root": None, "bob": "root"}))
        await road.settle()
        road.host.stubborn.add(road.uuid("bob"))
        job = await road.want(Wanted.STOPPED, "bob")
        for _ in range(100):
            await road.advance(0.1)
        stops = [each for each in road.host.applied if isinstance(each, a.StopUnit)]
        assert 3 <= len(stops) <= 8
        road.host.stubborn.clear()
        await road.advance(30)
        assert road.job(job.id).state == "done"
        await road.close()

    asyncio.run(story())
