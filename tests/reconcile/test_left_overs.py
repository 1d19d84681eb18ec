"""Row H30: orphaned files are removed at the operator's request, and not before."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from fixtures.reconciler import ReconcilerHarness, hive

from hive_core.plan import actions as a

NOBODY, ANOTHER, THIRD = (str(uuid4()) for _ in range(3))


def litter(harness: ReconcilerHarness) -> None:
    """A container, socket directory, root, range, node and archive without an owner."""
    store, bob = harness.host.storage, harness.unit("bob")
    harness.host.apply_now(a.MakeSocketDirectory(NOBODY))
    for folders in (store.mounts, store.roots):
        folders.add(NOBODY)
    lost = replace(bob, uuid=NOBODY, unit="hive-agent@lost.service")
    harness.host.units[NOBODY] = lost
    store.parents[NOBODY[:8]] = None
    store.archives.add(ANOTHER)
    with harness.ledger.transaction():
        harness.ledger.ranges.allocate(THIRD, harness.settings.uid_start)


def test_orphans_are_removed_by_gc_alone(tmp_path: Path) -> None:
    async def story() -> None:
        harness = ReconcilerHarness(tmp_path, hive({"root": None, "bob": "root"}))
        await harness.settle()
        litter(harness)
        harness.restart()
        await harness.settle()
        assert NOBODY in harness.host.units
        assert THIRD in harness.ledger.ranges.all()
        harness.reconciler.on_topics(frozenset({"gc"}))
        await harness.settle()
        store = harness.host.storage
        assert NOBODY not in {*harness.host.units, *store.mounts, *store.socket_directories}
        work = [ran.uuid for ran in harness.jobs.ran if ran.work is a.JobKind.PURGE_ROOT]
        assert work == [NOBODY]
        assert harness.ledger.ranges.all().keys() == {harness.uuid("root"), harness.uuid("bob")}
        assert {harness.uuid("root"), harness.uuid("bob")} == harness.host.units.keys()
        assert NOBODY[:8] in store.parents  # what agents wrote is the operator's to judge
        assert ANOTHER in store.archives
        await harness.close()

    asyncio.run(story())
