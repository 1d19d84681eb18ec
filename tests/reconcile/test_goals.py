"""A job has not ended while something of what it promised is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fixtures.reconciler import ReconcilerHarness, hive

from hive_core.errors import Unreachable

TREE = {"root": None, "ann": "root", "bob": "ann", "dan": "root"}


@pytest.mark.parametrize("missing", ["ShowView", "ShowIdentity"])
def test_a_move_has_not_ended_while_an_agent_is_shown_the_old_tree(
    tmp_path: Path, missing: str
) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive(TREE))
        await harness.settle()
        harness.refuse(missing, Unreachable("gone"))
        job = await harness.commit(harness.hive.with_parent("bob", "dan"), bob="moved")
        assert job.state == "running"
        harness.host.refused.clear()
        await harness.advance(1)
        assert harness.job(job.id).state == "done"
        await harness.close()

    asyncio.run(story())


@pytest.mark.parametrize("missing", ["Unmount", "RemoveSocketDirectory", "ArchiveNode"])
def test_a_destroyed_agent_is_not_absent_while_something_of_it_is_there(
    tmp_path: Path, missing: str
) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive(TREE))
        await harness.settle()
        uuid = harness.uuid("dan")
        harness.refuse(missing, Unreachable("gone"))
        with harness.ledger.transaction():
            goals = {uuid: "absent"}
            job = harness.ledger.jobs.create("destroy", "operator", goals, harness.clock.now())
        await harness.commit(harness.hive.without("dan"))
        assert harness.job(job.id).state == "running"
        harness.host.refused.clear()
        await harness.advance(1)
        assert harness.job(job.id).state == "done"
        await harness.close()

    asyncio.run(story())
