"""A job has not ended while something of what it promised is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fixtures.reconciler import Road, hive

from hive_core.errors import Unreachable

TREE = {"root": None, "ann": "root", "bob": "ann", "dan": "root"}


@pytest.mark.parametrize("missing", ["ShowView", "ShowIdentity"])
def test_a_move_has_not_ended_while_somebody_is_shown_the_old_tree(
    tmp_path: Path, missing: str
) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive(TREE))
        await road.settle()
        road.refuse(missing, Unreachable("gone"))
        job = await road.commit(road.hive.with_parent("bob", "dan"), bob="moved")
        assert job.state == "running"
        road.host.refused.clear()
        await road.advance(1)
        assert road.job(job.id).state == "done"
        await road.close()

    asyncio.run(story())


@pytest.mark.parametrize("missing", ["Unmount", "CloseDoor", "ArchiveNode"])
def test_a_destroyed_agent_is_not_absent_while_something_of_it_is_there(
    tmp_path: Path, missing: str
) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive(TREE))
        await road.settle()
        uuid = road.uuid("dan")
        road.refuse(missing, Unreachable("gone"))
        with road.ledger.transaction():
            goals = {uuid: "absent"}
            job = road.ledger.jobs.create("destroy", "operator", goals, road.clock.now())
        await road.commit(road.hive.without("dan"))
        assert road.job(job.id).state == "running"
        road.host.refused.clear()
        await road.advance(1)
        assert road.job(job.id).state == "done"
        await road.close()

    asyncio.run(story())
