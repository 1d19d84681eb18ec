"""Time of machines: measured from start to end, paid from budgets of time (rows K22, K23, K25)."""

from __future__ import annotations

import pytest
from fixtures.world import World, rows, world
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, AgentStarted, emit
from hive_core.broker.operation import Result
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.budget import BudgetKind


def start(world: World, *agents: str) -> None:
    """Their machines run from now on."""

    def act(call: Call) -> Record[Result]:
        subject = (AgentStarted(call.hive.spec(agent).id, agent, 1) for agent in agents)
        for item in subject:
            emit(call, item)
        return Record(Result())

    world.broker.perform("start", act)
    world.run()


def end(world: World, *agents: str) -> None:
    def act(call: Call) -> Record[Result]:
        subject = (
            AgentEnded(
                call.hive.spec(agent).id, agent, 0, "", clean=True, asked=True, wanted="stopped"
            )
            for agent in agents
        )
        for item in subject:
            emit(call, item)
        return Record(Result())

    world.broker.perform("end", act)
    world.run()


def budget(world: World, agent: str, seconds: int) -> None:
    world.call("operator", "allocate_budget", agent=agent, kind="time", amount=seconds)


def amount_left(world: World, agent: str) -> tuple[object, object, object]:
    budgets = rows(world.call("operator", "get_usage", agent=agent)["budgets"])
    (row,) = (row for row in budgets if row["kind"] == "time")
    return row["left"], row["spent"], row["owed"]


def ran(world: World, **words: object) -> dict[object, object]:
    sums = rows(world.call("operator", "get_usage", **words)["sums"])
    assert {row["source"] for row in sums if row["kind"] == "time"} <= {"measured"}
    return {row["key"]: row["amount"] for row in sums if row["kind"] == "time"}


def wanted_state(world: World, agent: str) -> object:
    run = world.ledger.runs.get(world.uuid(agent))
    assert run is not None
    return run.wanted


def test_time_is_measured_while_a_machine_runs_and_after(world: World) -> None:
    start(world, "a", "b")
    world.advance(10)
    end(world, "a")
    world.advance(5)
    assert ran(world) == {"a": 10, "b": 15}
    assert ran(world, agent="a") == {"a": 10}
    assert ran(world, by="subtree") == {"a": 10, "b": 15, "root": 25}


def test_all_agents_that_draw_on_a_budget_use_it_up_together(world: World) -> None:
    budget(world, "a", 100)
    start(world, "a", "a1")
    world.advance(20)
    start(world, "a11")
    world.advance(10)
    assert amount_left(world, "a") == (30, 70, 0)
    end(world, "a", "a1", "a11")
    world.advance(1000)
    assert amount_left(world, "a") == (30, 70, 0)


def test_an_own_purse_pays_from_when_it_is_there(world: World) -> None:
    budget(world, "a", 100)
    start(world, "a", "a1")
    world.advance(10)
    world.call("a", "allocate_budget", agent="a1", kind="time", amount=30)
    world.advance(10)
    assert amount_left(world, "a") == (40, 30, 0)
    assert amount_left(world, "a1") == (20, 10, 0)


def test_machines_are_stopped_at_the_end_of_their_time_and_started_when_there_is_more(
    world: World,
) -> None:
    budget(world, "a", 100)
    start(world, "a", "a1")
    world.advance(50)
    texts = [str(letter["body"]) for letter in world.mail("a")]
    assert any("time budget of a is used up" in text for text in texts)
    assert wanted_state(world, "a1") is DesiredState.RUNNING
    world.advance(60)
    assert {wanted_state(world, name) for name in ("a", "a1")} == {DesiredState.STOPPED}
    assert wanted_state(world, "b") is DesiredState.RUNNING
    end(world, "a", "a1")
    assert amount_left(world, "a") == (0, 100, 120)
    budget(world, "a", 200)
    assert {wanted_state(world, name) for name in ("a", "a1")} == {DesiredState.RUNNING}
    assert amount_left(world, "a") == (80, 220, 0)


def test_an_agent_that_was_stopped_meanwhile_stays_stopped(world: World) -> None:
    budget(world, "a", 10)
    start(world, "a", "a1")
    world.advance(5)
    world.advance(60)
    end(world, "a", "a1")
    world.call("operator", "start", agent="a1")
    world.call("operator", "stop", agent="a1")
    budget(world, "a", 1000)
    assert wanted_state(world, "a") is DesiredState.RUNNING
    assert wanted_state(world, "a1") is DesiredState.STOPPED


def test_time_goes_on_while_no_daemon_runs(world: World) -> None:
    budget(world, "a", 100)
    start(world, "a")
    world.restart(off=30)
    assert amount_left(world, "a") == (70, 30, 0)
    world.restart(off=80)
    assert amount_left(world, "a") == (0, 100, 10)
    world.advance(0)
    texts = [str(letter["body"]) for letter in world.mail("a")]
    assert any("time budget of a is used up" in text for text in texts)


def test_a_clock_that_is_set_uses_no_time(world: World) -> None:
    budget(world, "a", 100)
    start(world, "a")
    world.advance(10)
    world.set_clock(10 * 365 * 86_400)
    world.advance(10)
    assert amount_left(world, "a") == (80, 20, 0)
    assert sum(int(str(item)) for item in ran(world).values()) == 20


def test_what_a_destroyed_agent_ran_is_kept_under_its_name(world: World) -> None:
    budget(world, "root", 100)
    start(world, "b1")
    world.advance(7)
    uuid = world.uuid("b1")
    world.call("operator", "destroy", agent="b1")
    world.advance(50)
    assert amount_left(world, "root") == (93, 7, 0)
    assert ran(world) == {f"b1 ({uuid[:8]}, gone)": 7}
    assert ran(world, agent="b", by="subtree") == {f"b1 ({uuid[:8]}, gone)": 7, "b": 7}


def test_adopted_agents_draw_on_their_new_parent(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 100)
    start(world, "a", "a1", "a2")
    world.advance(10)
    world.call("operator", "destroy", agent="a")
    world.advance(10)
    assert amount_left(world, "root") == (950, 20, 0)


STEPS = st.lists(
    st.tuples(st.sampled_from(("a", "a1", "a11", "b", "b1")), st.integers(0, 40)), max_size=25
)


@pytest.mark.sized
@settings(max_examples=times(12, 60), deadline=None)
@given(STEPS, st.integers(1, 400), st.integers(1, 100))
def test_what_machines_ran_is_what_purses_paid_and_owe(
    steps: list[tuple[str, int]], most: int, part: int
) -> None:
    with world(None, "root/a", "a/a1", "a1/a11", "root/b", "b/b1") as made:
        budget(made, "root", most + part)
        made.call("root", "allocate_budget", agent="a", kind="time", amount=part)
        up = set[str]()
        for agent, pause in steps:
            (end if agent in up else start)(made, agent)
            up ^= {agent}
            made.advance(pause)
        total = sum(int(str(item)) for item in ran(made).values())
        paid = [amount_left(made, name) for name in ("root", "a")]
        assert total == sum(int(str(row[1])) + int(str(row[2])) for row in paid)
        there = sum(int(str(row[0])) + int(str(row[1])) for row in paid)
        assert there == most + part
        budgets = made.ledger.budgets.of_kind(BudgetKind.TIME)
        assert {budget.agent: budget.runners for budget in budgets} == {
            made.uuid("root"): len(up & {"b", "b1"}), made.uuid("a"): len(up - {"b", "b1"}),
        }  # fmt: skip
