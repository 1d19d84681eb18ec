"""Another budget pays: agents short of the old one continue, or are short of the new one (K22)."""

from __future__ import annotations

import pytest
from fixtures.tasks import finish, give, phase, state
from fixtures.world import World, rows
from operations.test_reported_bounds import context, set_bound, use
from operations.test_reported_bounds import row as bound_row
from operations.test_run_time import end, start, wanted_state
from operations.test_spending import budget, budget_notices

from hive_core.errors import LimitReached
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.budget import Budget, BudgetKind


def askers(world: World, agent: str) -> list[str]:
    """Agents that asked the agent a question."""
    questions = rows(world.call(agent, "list_questions")["questions"])
    return [str(question["asker"]) for question in questions]


def queue_task(world: World, agent: str) -> str:
    """One more than it does at once; its own and that of those above it are used up."""
    first, *_, waits = (give(world, "root", agent, deadline=0.0) for _ in range(6))
    payer = next(
        item for item in (agent, *world.hive.topology.lineage(agent))
        if world.ledger.budgets.get(world.uuid(item), BudgetKind.TOKENS)
    )  # fmt: skip
    result = world.ledger.budgets.get(world.uuid(payer), BudgetKind.TOKENS)
    assert result is not None
    world.call(agent, "report_usage", tokens_in=result.free)
    finish(world, agent, first)
    assert state(world, waits) == "queued"
    return waits


def stop_at(world: World, agent: str, kind: BudgetKind = BudgetKind.TOKENS) -> float | None:
    missed = world.ledger.budgets.shortage(Budget(world.uuid(agent), kind))
    assert missed is not None
    return missed.stop_at


def test_the_queue_of_an_adopted_child_begins_where_its_new_parent_can_pay(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 10)
    waits = queue_task(world, "a1")
    world.call("operator", "destroy", agent="a")
    assert phase(world, waits) == "offered"


def test_it_begins_where_no_agent_pays(world: World) -> None:
    budget(world, "a", 10)
    waits = queue_task(world, "a11")
    world.call("operator", "destroy", agent="a")
    assert phase(world, waits) == "offered"


def test_a_budget_that_was_emptied_by_giving_bounds_no_agent_after_its_own(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 10)
    world.call("a", "allocate_budget", agent="a2", kind="tokens", amount=10)
    with pytest.raises(LimitReached, match="used up"):
        give(world, "root", "a1")
    world.call("a2", "report_usage", tokens_in=10)
    world.call("operator", "destroy", agent="a")
    assert world.fault("root", "assign_task", agent="a1", description="x") == ""


def test_an_agent_adopted_by_one_without_funds_is_told_and_its_payer_is_asked(
    world: World,
) -> None:
    budget(world, "root", 10)
    budget(world, "a", 10)
    waits = queue_task(world, "a1")
    assert askers(world, "operator") == ["a"]
    world.call("operator", "destroy", agent="a")
    assert state(world, waits) == "queued"
    assert askers(world, "operator") == ["root"]
    assert "the token budget of root is used up" in budget_notices(world, "a1")[-1]
    budget(world, "root", 10)
    assert phase(world, waits) == "offered"


def test_time_to_stop_runs_again_for_an_agent_that_comes_to_an_empty_budget(world: World) -> None:
    budget(world, "root", 30)
    budget(world, "a", 10)
    budget(world, "b", 10)
    task = give(world, "root", "a1", deadline=0.0)
    world.call("b", "report_usage", tokens_in=10)
    world.advance(70)
    assert stop_at(world, "b") is None
    world.call("operator", "move", agent="a1", parent="b")
    assert "the token budget of b pays for you now and is used up" in budget_notices(world, "a1")
    world.advance(70)
    assert state(world, task) == "stopping"


def test_budgets_are_read_once_however_many_agents_are_adopted(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 10)
    world.grow(*(f"a/w{number}" for number in range(20)))
    waits, seen = queue_task(world, "w19"), list[str]()
    world.ledger.connection._raw.set_trace_callback(seen.append)
    world.call("operator", "destroy", agent="a")
    world.ledger.connection._raw.set_trace_callback(None)
    everybody = [item for item in seen if "FROM purses WHERE kind" in item]
    assert len(everybody) < 5
    assert phase(world, waits) == "offered"


def another_pays(world: World, how: str) -> None:
    """For the time of `a1`, for which `a` paid."""
    if how == "close":
        world.call("operator", "allocate_budget", agent="a", kind="time", close=True)
    elif how == "destroy":
        world.call("operator", "destroy", agent="a")
    else:
        world.call("operator", "move", agent="a1", parent="b")


@pytest.mark.parametrize("how", ["close", "destroy", "move"])
def test_machines_that_were_stopped_for_time_are_started_where_there_is_some(
    world: World, how: str
) -> None:
    budget(world, "root", 1000, kind="time")
    budget(world, "a", 10, kind="time")
    start(world, "a", "a1")
    world.advance(70)
    world.advance(70)
    end(world, "a", "a1")
    assert wanted_state(world, "a1") is DesiredState.STOPPED
    another_pays(world, how)
    assert wanted_state(world, "a1") is DesiredState.RUNNING
    if how == "move":
        assert wanted_state(world, "a") is DesiredState.STOPPED


@pytest.mark.parametrize("how", ["close", "destroy", "move"])
def test_machines_that_were_stopped_for_time_wait_for_the_empty_purse_that_pays_now(
    world: World, how: str
) -> None:
    payer = "b" if how == "move" else "root"
    budget(world, "root", 15, kind="time")
    budget(world, "a", 10, kind="time")
    if how == "move":
        budget(world, "b", 5, kind="time")
    start(world, "a", "a1", "root", "b")
    for _ in range(3):
        world.advance(70)
    end(world, "a", "a1", "root", "b")
    another_pays(world, how)
    assert wanted_state(world, "a1") is DesiredState.STOPPED
    assert f"the time budget of {payer} pays for you now and is used up" in budget_notices(
        world, "a1"
    )
    world.advance(300)
    budget(world, "root", 5000, kind="time")
    if payer == "b":
        assert wanted_state(world, "a1") is DesiredState.STOPPED
        budget(world, "b", 2000, kind="time")
    assert wanted_state(world, "a1") is DesiredState.RUNNING


def test_machines_wait_also_where_what_pays_now_was_emptied_by_giving(world: World) -> None:
    budget(world, "root", 10, kind="time")
    budget(world, "a", 10, kind="time")
    start(world, "a")
    world.advance(70)
    world.advance(70)
    end(world, "a")
    assert askers(world, "operator") == ["a"]
    world.call("operator", "allocate_budget", agent="a", kind="time", close=True)
    assert askers(world, "operator") == ["root"]
    budget(world, "root", 1000, kind="time")
    assert wanted_state(world, "a") is DesiredState.RUNNING


def test_a_subtree_left_behind_without_a_budget_begins_work_where_an_agent_pays(
    world: World,
) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 10)
    waits = queue_task(world, "a1")
    world.call("operator", "move", agent="a1", parent="b")
    assert phase(world, waits) == "offered"


# Bounds: judged at the move.


def test_a_context_is_held_against_the_bound_of_the_new_place_at_the_move(world: World) -> None:
    set_bound(world, "b", 50, "context")
    context(world, "a1", 60)
    set_bound(world, "a", 100, "context")
    assert world.fault("root", "assign_task", agent="a1", description="x") == ""
    world.call("operator", "move", agent="a1", parent="b")
    assert askers(world, "b") + askers(world, "operator") == ["a1"]
    assert "the bound of tokens of context of a1 is reached" in budget_notices(world, "a1")[-1]
    assert world.fault("root", "assign_task", agent="a1", description="x") == "LimitReached"


def test_a_context_that_is_kept_in_the_new_place_lets_the_queue_go_on(world: World) -> None:
    set_bound(world, "a", 100, "context")
    first, *_, waits = (give(world, "root", "a1", deadline=0.0) for _ in range(6))
    context(world, "a1", 100)
    finish(world, "a1", first)
    assert state(world, waits) == "queued"
    world.call("operator", "move", agent="a1", parent="b")
    assert phase(world, waits) == "offered"
    assert askers(world, "operator") == []


def test_a_report_counts_once_and_where_it_was_made_however_often_its_agent_is_moved(
    world: World,
) -> None:
    set_bound(world, "a", 100)
    set_bound(world, "b", 100)
    use(world, "a1", 60)
    for parent in ("b", "a", "b"):
        world.call("operator", "move", agent="a1", parent=parent)
    assert [bound_row(world, item)[1:4] for item in "ab"] == [(40, 60, 0), (100, 0, 0)]
    use(world, "a1", 10)
    world.call("operator", "move", agent="a1", parent="a")
    assert [bound_row(world, item)[1:4] for item in "ab"] == [(40, 60, 0), (90, 10, 0)]


def test_an_agent_moved_from_under_a_reached_bound_works_and_leaves_it_reached(
    world: World,
) -> None:
    set_bound(world, "a", 50)
    set_bound(world, "b", 50)
    use(world, "a1", 60)
    world.call("operator", "move", agent="a1", parent="b")
    faults = [
        world.fault("root", "assign_task", agent=agent, description="x") for agent in ("a1", "a")
    ]
    assert faults == ["", "LimitReached"]


def test_an_agent_near_the_bound_of_its_new_place_is_warned_at_the_move(world: World) -> None:
    set_bound(world, "b", 100, "context")
    set_bound(world, "a", 1000, "context")
    context(world, "a1", 90)
    world.call("operator", "move", agent="a1", parent="b")
    assert "is nearly reached" in budget_notices(world, "a1")[-1]


def test_the_bounds_of_a_destroyed_agent_hold_no_descendant(world: World) -> None:
    set_bound(world, "a", 100, "context")
    first, *_, waits = (give(world, "root", "a1", deadline=0.0) for _ in range(6))
    context(world, "a1", 100)
    finish(world, "a1", first)
    world.call("operator", "destroy", agent="a")
    assert phase(world, waits) == "offered"
    assert askers(world, "operator") == []
