"""Desired against observed: applying a plan and planning again ends in nothing left to do."""

from __future__ import annotations

from dataclasses import replace

from fixtures.plans import World, hive, spec
from fixtures.plans import uuid as numbered

from hive_core.model.agents.agent import SubtreeLimits
from hive_core.model.agents.machine import DesiredState, Exit, FailureHistory, State
from hive_core.plan import actions as a
from hive_core.plan.agent_steps import copied_root
from hive_core.plan.daemon_actions import Forget, Listen, ShowIdentity, ShowView
from hive_core.plan.diff import USUAL, early_plan, plan
from hive_core.plan.state import facts, state_of

TREE = {"root": None, "ann": "root", "bob": "ann", "cat": "ann", "dan": "root"}


def kinds(world: World, name: str) -> list[str]:
    steps = world.plan().agents.get(world.uuid(name), ())
    return [type(step.action).__name__ for step in steps]


def state(world: World, name: str) -> State:
    machine = world.host.snapshot().machines[world.uuid(name)]
    run = world.runs[world.uuid(name)]
    return state_of(facts(run, machine, world.starts.get(world.uuid(name))))


def running() -> World:
    world = World(hive(TREE))
    world.converge()
    return world


def test_a_new_hive_is_made_parents_first_and_runs() -> None:
    world = World(hive(TREE))
    nodes = [step.name for step in world.plan().tree]
    assert nodes.index("root") < nodes.index("ann") < nodes.index("bob")
    assert kinds(world, "root") == [
        "MakeSocketDirectory", "Listen", "ShowIdentity", "ShowView", "Mount", "StartUnit",
    ]  # fmt: skip
    world.converge()
    assert {name: state(world, name) for name in TREE} == dict.fromkeys(TREE, State.RUNNING)


def test_a_hive_that_is_as_it_should_be_needs_no_step() -> None:
    world = running()
    result = world.plan()
    assert (result.steps, result.waits, result.queued, result.reports) == ((), {}, (), ())


def test_a_move_is_done_and_shown_by_what_was_known_before_anybody_looks() -> None:
    world = running()
    known = world.host.snapshot().machines
    world.change(world.hive.with_parent("bob", "dan"))
    result = early_plan(world.desired, known, world.places.by_uuid)
    assert [step.text for step in result.tree] == ["bob: MoveNode (its parent changed)"]
    shown = [(step.name, type(step.action).__name__) for step in result.steps[1:]]
    assert set(shown) == {
        ("root", "ShowView"), ("bob", "ShowIdentity"),
        ("ann", "ShowView"), ("ann", "ShowIdentity"),
        ("dan", "ShowView"), ("dan", "ShowIdentity"),
    }  # fmt: skip
    assert shown[-1] == ("root", "ShowView")
    for step in result.steps:
        world.host.apply_now(step.action)
    assert world.plan().steps == ()


def test_no_more_machines_start_at_once_than_the_setting_says() -> None:
    world = World(hive({f"a{n}": None for n in range(20)}))
    world.host.slow = True
    for step in world.plan().steps:
        world.host.apply_now(step.action)
    assert len(world.host.starts) == 8
    assert len(world.plan().queued) == 12
    world.host.settle(world.host.starts[0])
    for step in world.plan().steps:
        world.host.apply_now(step.action)
    assert len(world.host.starts) == 9


def test_a_stop_of_a_subtree_goes_leaves_first_with_siblings_together() -> None:
    world = running()
    world.host.slow = True
    for name in ("ann", "bob", "cat"):
        world.want(name, DesiredState.STOPPED)
    assert {step.name for step in world.plan().steps} == {"bob", "cat"}
    for step in world.plan().steps:
        world.host.apply_now(step.action)
    assert world.plan().steps == ()
    world.host.settle(world.uuid("bob"))
    assert kinds(world, "ann") == []
    world.host.settle(world.uuid("cat"))
    assert kinds(world, "ann") == ["StopUnit"]


def test_a_parent_may_stop_while_its_children_are_wanted() -> None:
    world = running()
    world.want("ann", DesiredState.STOPPED)
    assert kinds(world, "ann") == ["StopUnit"]


def test_grace_is_over_when_it_is_over() -> None:
    world = running()
    world.host.slow = True
    world.want("dan", DesiredState.STOPPED, grace=3.0)
    world.host.apply_now(world.plan().steps[0].action)
    waits = world.plan().waits
    assert waits == {world.uuid("dan"): world.clock.monotonic() + 3.0}
    world.clock.advance(3.0)
    assert kinds(world, "dan") == ["KillUnit"]


def test_no_grace_is_a_kill() -> None:
    world = running()
    world.want("dan", DesiredState.STOPPED, grace=0)
    assert kinds(world, "dan") == ["KillUnit"]


def test_a_machine_with_a_foreign_user_namespace_is_killed_at_once() -> None:
    """Attack 1."""
    world = running()
    world.host.change(world.uuid("bob"), fault="its user namespace is not its range")
    assert kinds(world, "bob") == ["KillUnit"]


def test_what_is_up_and_never_becomes_what_it_should_be_is_killed() -> None:
    world = World(hive({"root": None}))
    world.host.slow = True
    for step in world.plan().steps:
        world.host.apply_now(step.action)
    uuid = world.uuid("root")
    world.host.change(uuid, active="active", verified=True)
    assert uuid in world.plan().waits
    world.clock.advance(world.settings.grace.start)
    assert kinds(world, "root") == ["KillUnit"]  # a stop is no failure, and it was none of ours


def test_a_fresh_nonce_stops_what_runs_and_starts_it_anew() -> None:
    world = running()
    before = world.host.units[world.uuid("bob")].invocation
    world.want("bob", DesiredState.RUNNING)
    assert kinds(world, "bob") == ["StopUnit"]
    world.converge()
    after = world.host.units[world.uuid("bob")]
    assert (after.nonce, after.invocation != before) == (2, True)


def test_a_removed_mount_is_restored_without_a_restart() -> None:
    world = running()
    world.host.apply_now(a.Unmount(world.uuid("bob")))
    assert state(world, "bob") is State.DEGRADED
    assert kinds(world, "bob") == ["Mount"]
    starts = len(world.host.starts)
    world.converge()
    assert (state(world, "bob"), len(world.host.starts)) == (State.RUNNING, starts)


def test_a_changed_property_and_a_changed_spec_are_reported_and_left_alone() -> None:
    world = World(hive(TREE, {"dan": spec(4, limits={"tasks_max": 100})}))
    world.converge()
    world.host.change(world.uuid("dan"), properties={**USUAL, "tasks_max": 7, "memory_max": 9})
    result = world.plan()
    assert [report.text for report in result.reports] == [
        "property dan: memory_max is 9, not None",
        "property dan: tasks_max is 7, not 100",
    ]
    assert result.steps == ()
    world.change(world.hive.with_spec("dan", spec(4, limits={"tasks_max": 200})))
    assert [report.kind for report in world.plan().reports] == ["spec"]


def test_a_stray_node_and_a_stray_machine_are_reported_and_left_alone() -> None:
    world = running()
    world.host.apply_now(a.MakeNode(("deadbeef",)))
    unit = replace(world.host.units[world.uuid("dan")], unit="hive-agent@x.service")
    world.host.units[numbered(90)] = replace(unit, uuid=numbered(90))
    world.host.storage.roots.add(numbered(91))
    result = world.plan()
    assert {report.text for report in result.reports} == {
        "node deadbeef", f"unit hive-agent@x.service: of {numbered(90)}", f"root {numbered(91)}",
    }  # fmt: skip
    assert result.steps == ()


def test_a_parked_agent_stays_down_and_a_failed_one_waits() -> None:
    world = World(hive(TREE, {"dan": spec(4, role="daemon")}))
    world.converge()
    uuid = world.uuid("dan")
    world.host.crash(uuid)
    pause = world.clock.now() + 2
    world.starts[uuid] = FailureHistory((world.clock.now(),), pause, nonce=1, returns=True)
    world.converge()
    assert state(world, "dan") is State.FAILED
    assert world.plan().waits[uuid] == world.clock.monotonic() + 2
    world.starts[uuid] = replace(world.starts[uuid], parked=True)
    world.clock.advance(2)
    assert world.plan().steps == ()
    world.starts[uuid] = replace(world.starts[uuid], parked=False)
    world.converge()
    assert state(world, "dan") is State.RUNNING


def test_a_failed_agent_of_another_role_waits_for_its_parent() -> None:
    world = running()
    uuid = world.uuid("bob")
    world.host.crash(uuid)
    world.starts[uuid] = FailureHistory((world.clock.now(),), nonce=1)
    world.clock.advance(1000)
    world.converge()
    assert state(world, "bob") is State.FAILED
    world.want("bob", DesiredState.RUNNING)
    world.converge()
    assert state(world, "bob") is State.RUNNING


def test_a_move_is_one_rename_and_restarts_no_agent() -> None:
    """Row H6."""
    world = running()
    starts = len(world.host.starts)
    world.change(world.hive.with_parent("ann", "dan"))
    short = {name: world.uuid(name)[:8] for name in TREE}
    source, target = (short["root"], short["ann"]), (short["root"], short["dan"], short["ann"])
    assert [step.action for step in world.plan().tree] == [a.MoveNode(source, target)]
    assert {step.name for step in world.plan().steps} == {"ann", "root", "dan"}
    world.converge()
    assert len(world.host.starts) == starts
    assert world.host.storage.node(short["cat"]) == (*target, short["cat"])


def test_a_move_across_the_border_of_a_subtree_limit_restarts_what_crosses_it() -> None:
    limited = spec(4, subtree=SubtreeLimits(memory_max=1 << 30))
    world = World(hive(TREE, {"dan": limited}))
    world.converge()
    before = {name: world.host.units[world.uuid(name)].invocation for name in TREE}
    world.change(world.hive.with_parent("ann", "dan"))
    world.converge()
    after = {name: world.host.units[world.uuid(name)].invocation for name in TREE}
    assert {name for name in TREE if before[name] != after[name]} == {"ann", "bob", "cat"}
    assert world.host.units[world.uuid("bob")].slice == f"hive-{limited.short}.slice"


def test_attack_58_a_loser_goes_down_at_once_and_stays_down_while_it_is_held() -> None:
    """Leaves do not go first: each moment that one of them runs is a moment of access."""
    world = running()
    starts = len(world.host.starts)
    world.held = {world.uuid("ann"), world.uuid("bob")}
    for name in ("ann", "bob"):
        world.want(name, DesiredState.RUNNING)
    assert [step.text for step in world.plan().steps] == [
        "ann: StopUnit (a fresh start is wanted)", "bob: StopUnit (a fresh start is wanted)",
    ]  # fmt: skip
    world.converge()
    assert {name for name in TREE if world.uuid(name) in world.host.units} == {"root", "cat", "dan"}
    world.held = set()
    world.converge()
    assert len(world.host.starts) == starts + 2


def test_two_agents_that_change_places_are_moved_parents_first() -> None:
    world = running()
    flipped = {"root": None, "bob": "root", "ann": "bob", "cat": "ann", "dan": "root"}
    world.change(replace(hive(flipped, world.hive.specs)))
    world.converge()
    for place in world.places.by_uuid.values():
        assert world.host.storage.node(place.lineage[-1]) == place.lineage


def test_a_destroyed_agent_is_ended_archived_and_deleted_in_due_time() -> None:
    world = running()
    uuid, short = world.uuid("ann"), world.uuid("ann")[:8]
    world.change(world.hive.without("ann"))
    world.converge()
    store = world.host.storage
    assert uuid not in world.host.units
    assert (uuid in store.archives, uuid in store.mounts, uuid in store.socket_directories) == (
        True, False, False,
    )  # fmt: skip
    root = world.uuid("root")[:8]
    assert store.node(world.uuid("bob")[:8]) == (root, world.uuid("bob")[:8])
    assert store.node(short) == ()
    assert world.plan().waits == {uuid: world.clock.monotonic() + 86_400}
    world.clock.advance(86_400)
    last = [type(step.action) for step in world.plan().steps]
    assert last == [a.RunJob, a.DropArchive, Forget]
    world.converge()
    assert (uuid in store.archives, uuid in world.archives) == (False, False)


def test_the_copied_image_of_a_destroyed_agent_is_removed_by_its_own_steps_alone() -> None:
    """Its copying may end after it was destroyed. `hive gc` would purge the same folder beside it:
    where the agent is restored meanwhile, beside the next copy of its image.
    """
    world = running()
    uuid, copy = world.uuid("dan"), copied_root(world.uuid("dan"))
    world.change(world.hive.without("dan"))
    world.converge()
    world.host.storage.roots.add(copy)
    desired = replace(world.desired, unclaimed={copy})
    result = plan(desired, world.host.snapshot(), world.moment)
    work = {of: [type(step.action) for step in steps] for of, steps in result.agents.items()}
    assert work == {uuid: [a.RunJob, a.DropRoot]}
    assert result.reports == ()


def test_the_exit_record_of_a_unit_that_came_up_late_is_removed() -> None:
    world = running()
    uuid = world.uuid("dan")
    world.change(world.hive.without("dan"))
    world.converge()
    world.host.exits[uuid] = Exit("late", "success", "exited", "0", nonce=1)
    assert [type(step.action) for step in world.plan().steps] == [a.RemoveSocketDirectory]
    world.converge()
    assert uuid not in world.host.exits


def test_a_restored_agent_gets_its_node_back() -> None:
    world = running()
    uuid, back = world.uuid("dan"), world.hive.specs["dan"]
    world.change(world.hive.without("dan"))
    world.converge()
    del world.archives[uuid]
    world.change(world.hive.with_agent("dan", "ann", back))
    assert [type(step.action) for step in world.plan().tree] == [a.RestoreNode]
    world.converge()
    assert state(world, "dan") is State.RUNNING


def test_a_name_that_is_used_again_waits_for_the_older_unit() -> None:
    """Attack 40: the new agent inherits nothing, not even the running unit."""
    world = running()
    world.host.slow = True
    world.change(world.hive.without("dan"))
    world.change(world.hive.with_agent("dan", "root", spec(77)))
    assert "StartUnit" not in kinds(world, "dan")
    world.host.slow = False
    world.converge()
    assert state(world, "dan") is State.RUNNING


def test_an_unchanged_tree_is_copied_once() -> None:
    world = World(hive({"root": None}, {"root": spec(0, image="debian")}))
    assert kinds(world, "root")[-4:] == ["RunJob", "AdoptRoot", "Mount", "StartUnit"]
    world.converge()
    world.want("root", DesiredState.RUNNING)
    world.converge()
    assert sum(isinstance(action, a.AdoptRoot) for action in world.host.applied) == 1


def test_identity_and_view_follow_the_topology() -> None:
    """Rows H5, H18."""
    world = running()
    world.change(world.hive.with_parent("bob", "dan"))
    acts = {(step.name, type(step.action)): step.action for step in world.plan().steps}
    identity = acts["dan", ShowIdentity]
    assert isinstance(identity, ShowIdentity)
    assert identity.document["children"] == ["bob"]
    view = acts["dan", ShowView]
    assert isinstance(view, ShowView)
    assert dict(view.links) == {"dan": "/tree", "bob": f"/tree/kids/{world.uuid('bob')[:8]}"}
    assert ("ann", ShowIdentity) in acts
    assert ("cat", ShowIdentity) not in acts


def test_after_a_reboot_of_the_host_everything_wanted_starts_again() -> None:
    world = running()
    world.want("bob", DesiredState.STOPPED)
    world.converge()
    world.host.reboot()
    world.converge()
    assert state(world, "bob") is State.STOPPED
    assert state(world, "cat") is State.RUNNING


def test_listening_needs_a_range() -> None:
    world = World(hive({"root": None}))
    bare = replace(world.desired, bases={})
    result = plan(bare, world.host.snapshot(), world.moment)
    assert [type(step.action) for step in result.steps] == [a.MakeNode]
    assert not any(isinstance(step.action, Listen) for step in result.steps)
