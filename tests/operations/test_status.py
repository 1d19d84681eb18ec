"""status, locate, wait_agents, converge, gc: for the operator's eyes."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import Exchange, World, rows

from hive_core.errors import NotFound
from hive_core.model.agents.machine import Machine, Orphan, State
from hive_core.plan.actions import StopUnit
from hive_core.plan.desired import ReconcilePlan, ReconcileStep


@for_each(
    "operation, params",
    [
        ("status", {}), ("locate", {"agent": "a1"}), ("converge", {}), ("gc", {}),
        ("wait_agents", {"agents": ["a1"], "states": ["running"]}),
    ],
)  # fmt: skip
def test_they_are_the_operators(world: World, operation: str, params: dict[str, object]) -> None:
    assert world.fault("root", operation, **params) == "NotAllowed"


def test_status_has_the_shape_of_the_contract(world: World) -> None:
    """Rows H2 and H5: the state in force and the refused commit are both visible."""
    world.seen.states[world.uuid("a1")] = State.PARKED
    world.seen.parked.append(("f" * 40, "a cycle"))
    world.seen.warnings.append("the disk is full")
    reply = world.call("operator", "status")
    assert reply["commit"] == world.hive.commit
    assert reply["refused"] == [{"commit": "f" * 40, "reason": "a cycle"}]
    assert reply["agents"] == {"parked": 1, "running": 6}
    hived = reply["hived"]
    assert isinstance(hived, dict)
    assert set(hived) == {"version", "since"}
    assert reply["alarms"] == ["the disk is full"]


def test_status_stays_short_whatever_went_wrong(world: World) -> None:
    """Ten thousand parked commits filled a message."""
    world.seen.parked.extend((f"{number:040x}", "a cycle") for number in range(10_000))
    world.seen.warnings.extend(f"a{number} is parked" for number in range(102))
    reply = world.call("operator", "status")
    assert isinstance(reply["refused"], list)
    assert isinstance(reply["alarms"], list)
    assert len(reply["refused"]) == 100
    assert reply["alarms"][99:] == ["a99 is parked", "9900 more parked commits", "2 more alarms"]


def test_locate_says_where_an_agent_runs(world: World) -> None:
    uuid = world.uuid("a1")
    world.seen.machines[uuid] = Machine(uuid, main_pid=41, leader=42)
    reply = world.call("operator", "locate", agent="a1")
    assert (reply["unit"], reply["main_pid"], reply["leader"]) == (
        "hive-agent@a1.service", 41, 42,
    )  # fmt: skip
    assert reply["uid_base"] == world.ledger.ranges.base(uuid)


def test_locate_of_what_does_not_run_names_no_process(world: World) -> None:
    uuid = world.uuid("a1")
    world.seen.machines[uuid] = Machine(uuid)
    assert world.call("operator", "locate", agent="a1")["leader"] == 0
    assert world.fault("operator", "locate", agent="nobody") == "NotFound"


def test_locate_right_after_a_start_waits_for_the_first_look(world: World) -> None:
    uuid = world.uuid("a1")
    asked = world.ask_as("operator", "locate", {"agent": "a1"})
    late = world.ask_as("operator", "locate", {"agent": "a2"})
    assert asked.pending
    world.seen.machines[uuid] = Machine(uuid, main_pid=41, leader=42)
    world.broker.touch({f"state:{uuid}"})
    world.run()
    assert asked.result()["leader"] == 42
    world.advance(5.1)
    assert late.result()["leader"] == 0


def test_locate_waits_for_an_agent_that_is_restarted_and_for_no_other(world: World) -> None:
    """Who entered an agent that had just lost `meta.read` was told that it does not run."""
    uuid, other = world.uuid("a1"), world.uuid("a2")
    for value, state in ((uuid, State.STOPPING), (other, State.FAILED)):
        world.seen.machines[value], world.seen.states[value] = Machine(value), state
    failed = world.ask_as("operator", "locate", {"agent": "a2", "wait": 10})
    assert failed.result()["leader"] == 0
    assert not world.ask_as("operator", "locate", {"agent": "a1"}).pending
    asked = world.ask_as("operator", "locate", {"agent": "a1", "wait": 10})
    assert asked.pending
    world.seen.states[uuid] = State.STARTING
    world.broker.touch({f"state:{uuid}"})
    world.run()
    assert asked.pending
    world.seen.states[uuid] = State.RUNNING
    world.seen.machines[uuid] = Machine(uuid, main_pid=41, leader=42)
    world.broker.touch({f"state:{uuid}"})
    world.run()
    assert asked.result()["leader"] == 42


def waiting(world: World, *agents: str, state: str = "running") -> Exchange:
    collected: dict[str, object] = {"agents": list(agents), "states": [state], "wait": 10}
    return world.ask_as("operator", "wait_agents", collected)


def test_waiting_for_agents_ends_when_all_are_there(world: World) -> None:
    for name in ("a1", "a2"):
        world.seen.states[world.uuid(name)] = State.STARTING
    asked = waiting(world, "a1", "a2")
    for name in ("a1", "a2"):
        assert not asked.replies
        del world.seen.states[world.uuid(name)]
        world.broker.touch({f"state:{world.uuid(name)}"})
        world.run()
    result = asked.result()
    assert result["done"] is True
    assert rows(result["agents"])[0] == {"name": "a1", "state": "running"}


def test_waiting_for_agents_ends_in_time(world: World) -> None:
    asked = waiting(world, "a1", state="stopped")
    world.advance(10.1)
    assert asked.result()["done"] is False


def test_an_agent_that_is_gone_is_absent(world: World) -> None:
    asked = waiting(world, "a1", state="absent")
    world.call("operator", "destroy", agent="a1")
    assert asked.result()["done"] is True


def test_a_misspelt_name_is_not_waited_for(world: World) -> None:
    with pytest.raises(NotFound):
        waiting(world, "nobody").result()


def plan_one_step(world: World) -> None:
    uuid = world.uuid("a1")
    step = ReconcileStep(uuid, "a1", StopUnit(uuid, "a1"), "stopped")
    reports = (Orphan("unit", "hive-agent@x.service"), Orphan("property", "a2", "TasksMax is 7"))
    world.seen.planned = ReconcilePlan(agents={uuid: (step,)}, reports=reports)


def test_a_dry_run_prints_the_next_pass(world: World) -> None:
    plan_one_step(world)
    reply = world.call("operator", "converge", dry_run=True)
    assert reply["steps"] == [{"agent": "a1", "action": "StopUnit", "reason": "stopped"}]
    assert reply["drift"] == ["unit hive-agent@x.service", "property a2: TasksMax is 7"]


@pytest.mark.parametrize("operation", ["converge", "gc"])
def test_without_dry_run_the_change_road_is_woken(world: World, operation: str) -> None:
    topics = set[str]()
    world.broker.listeners.append(topics.update)
    world.call("operator", operation, dry_run=True)
    assert "converge" not in topics
    world.call("operator", operation)
    assert "converge" in topics


def test_gc_lists_what_no_agent_accounts_for(world: World) -> None:
    """Row H30."""
    plan_one_step(world)
    uuid = world.uuid("b1")
    world.call("operator", "destroy", agent="b1")
    assert [row["kind"] for row in rows(world.call("operator", "gc", dry_run=True)["items"])] == [
        "unit"
    ]
    world.advance(86_401)
    result = rows(world.call("operator", "gc", dry_run=True)["items"])
    assert [(row["kind"], row["name"]) for row in result] == [
        ("archive", uuid), ("unit", "hive-agent@x.service"),
    ]  # fmt: skip
    with world.ledger.transaction():
        world.ledger.archives.drop(uuid)
    result = rows(world.call("operator", "gc", dry_run=True)["items"])
    assert ("range", uuid) in [(row["kind"], row["name"]) for row in result]


def test_gc_forgets_the_secrets_of_agents_that_will_not_come_back(world: World) -> None:
    """Row H30 for H28: listed first; kept for as long as the agent can be restored."""
    uuid = world.uuid("b1")
    for name in ("a1", "b1"):
        world.call("operator", "set_secret", agent=name, key="token", value="x")
    world.call("operator", "destroy", agent="b1")
    assert rows(world.call("operator", "gc")["items"]) == []
    world.call("operator", "restore", id=uuid)
    assert world.vault.keys(uuid) == ("token",)
    world.call("operator", "destroy", agent="b1")
    with world.ledger.transaction():
        world.ledger.archives.drop(uuid)
    listed = rows(world.call("operator", "gc", dry_run=True)["items"])
    assert ("secrets", uuid) in [(row["kind"], row["name"]) for row in listed]
    assert world.vault.holders() == sorted([uuid, world.uuid("a1")])
    world.call("operator", "gc")
    assert world.vault.holders() == [world.uuid("a1")]
