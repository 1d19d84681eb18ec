"""Plans of hives that drift: they end, and planning the changed agents is enough."""

from __future__ import annotations

from time import process_time

import pytest
from fixtures.plans import World, hive, hives, move
from hypothesis import given, settings
from hypothesis import strategies as st
from long import at_most, times

from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.plan import actions as a
from hive_core.plan.daemon_actions import StopListening
from hive_core.plan.desired import ReconcilePlan
from hive_core.plan.diff import plan

DRIFTS = ("crash", "vanish", "stop_by_hand", "unmount", "silence", "slam", "renew", "stop")


def drift(world: World, kind: str, uuid: str) -> None:
    """One thing that goes wrong by hand or by chance."""
    if kind in ("crash", "vanish", "stop_by_hand") and uuid in world.host.units:
        getattr(world.host, kind)(uuid)
    elif kind == "unmount":
        world.host.storage.record(a.Unmount(uuid))
    elif kind == "silence":
        world.host.storage.record(StopListening(uuid))
    elif kind == "slam":
        world.host.storage.record(a.RemoveSocketDirectory(uuid))
    elif kind in ("renew", "stop") and (name := world.hive.name(uuid)):
        world.want(name, DesiredState.RUNNING if kind == "renew" else DesiredState.STOPPED)


@settings(max_examples=times(40, 1500), deadline=None)
@given(st.data())
def test_applying_ends_in_nothing_to_do_whatever_drifts(data: st.DataObject) -> None:
    world = World(data.draw(hives()))
    world.converge()
    for turn in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            world.change(data.draw(move(world.hive, turn)))
        chosen = data.draw(st.lists(st.sampled_from(sorted(world.places.by_uuid) or [""])))
        for uuid in chosen:
            drift(world, data.draw(st.sampled_from(DRIFTS)), uuid)
        world.converge()
        observed = world.host.snapshot()
        for uuid, place in world.places.by_uuid.items():
            machine = observed.machines[uuid]
            assert machine.node == place.lineage
            wanted = world.runs[uuid].wanted is DesiredState.RUNNING
            assert (machine.active == "active") == wanted
        assert not observed.orphans


@settings(max_examples=times(15, 500), deadline=None)
@given(st.data())
def test_planning_the_dirty_ones_finds_what_planning_all_finds(data: st.DataObject) -> None:
    world = World(data.draw(hives()))
    world.converge()
    before = world.places
    world.change(data.draw(move(world.hive)))
    everything = world.plan()
    dirty = [
        uuid for uuid in world.places.by_uuid.keys() | before.by_uuid.keys()
        if world.places.by_uuid.get(uuid) != before.by_uuid.get(uuid)
    ]  # fmt: skip
    # Order and who sets a shared slice may differ; who gets what done may not.
    assert _work(world.plan(dirty)) == _work(everything)


def _work(result: ReconcilePlan) -> set[tuple[str, str]]:
    work = {(step.name, type(step.action).__name__) for step in result.steps}
    return {(name, kind) for name, kind in work if kind != "SetSlice"}


@pytest.mark.sized
@pytest.mark.parametrize("count", [times(1000, 10_000)])
def test_thousands_of_agents_are_planned_in_no_time(count: int) -> None:
    parents = {f"a{n}": f"a{(n - 1) // 10}" if n else None for n in range(count)}
    world = World(hive(parents), Settings(limits=HostLimits(starts_at_once=256)))
    world.converge()
    desired, observed, moment = world.desired, world.host.snapshot(), world.moment
    took = []
    for _ in range(5):
        start = process_time()
        assert plan(desired, observed, moment).steps == ()
        took.append(process_time() - start)
    assert min(took) < at_most(0.15 * count / 10_000, slack=0.1)
