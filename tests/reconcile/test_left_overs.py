"""Row H30: what is left of nobody is cleared away when the operator says so, and not before."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from fixtures.reconciler import Road, hive

from hive_core.plan import actions as a

NOBODY, ANOTHER, THIRD = (str(uuid4()) for _ in range(3))


def litter(road: Road) -> None:
    """A container, a door, a root, a range, a node and an archive that nobody knows."""
    store, bob = road.host.storage, road.unit("bob")
    road.host.apply_now(a.OpenDoor(NOBODY))
    for folders in (store.mounts, store.roots):
        folders.add(NOBODY)
    lost = replace(bob, uuid=NOBODY, unit="hive-agent@lost.service")
    road.host.units[NOBODY] = lost
    store.parents[NOBODY[:8]] = None
    store.archives.add(ANOTHER)
    with road.ledger.transaction():
        road.ledger.ranges.allocate(THIRD, road.settings.uid_start)


def test_what_is_left_of_nobody_goes_with_gc_alone(tmp_path: Path) -> None:
    async def story() -> None:
        road = Road(tmp_path, hive({"root": None, "bob": "root"}))
        await road.settle()
        litter(road)
        road.restart()
        await road.settle()
        assert NOBODY in road.host.units
        assert THIRD in road.ledger.ranges.all()
        road.road.on_topics(frozenset({"gc"}))
        await road.settle()
        store = road.host.storage
        assert NOBODY not in {*road.host.units, *store.mounts, *store.doors}
        work = [ran.uuid for ran in road.jobs.ran if ran.work is a.JobKind.PURGE_ROOT]
        assert work == [NOBODY]
        assert road.ledger.ranges.all().keys() == {road.uuid("root"), road.uuid("bob")}
        assert {road.uuid("root"), road.uuid("bob")} == road.host.units.keys()
        assert NOBODY[:8] in store.parents  # what agents wrote is the operator's to judge
        assert ANOTHER in store.archives
        await road.close()

    asyncio.run(story())
