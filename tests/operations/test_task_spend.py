"""Q43: the spend of a task is in its result, in the event of its end and in the letter about it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.model_calls import AGENTS, MODELS, TIERS, reserve
from fixtures.model_calls import finish as settle
from fixtures.world import Reply, World, fields, rows, world

from hive_core.model.config.settings import Settings

REPORT = {"status": "success", "summary": "did it"}


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), *AGENTS, models=MODELS) as made:
        yield made


def assign(world: World) -> str:
    task = str(world.call("a", "assign_task", agent="a1", description="x")["task"])
    world.call("a1", "begin_task", task=task)
    return task


def record(value: object) -> Reply:
    assert isinstance(value, dict)
    return value


def spend_of(world: World, task: str) -> tuple[object, object, object]:
    result = record(record(world.call("a", "get_task", task=task)["task"])["result"])
    return result["tokens"], result["cost"], result["source"]


def end_event(world: World, task: str) -> Reply:
    (event,) = [row for row in world.events() if row["kind"] == "task"
                and row["operation"] == "finish" and fields(row)["task"] == task]  # fmt: skip
    return fields(event)


def test_the_result_has_what_hive_model_measured_for_the_task(world: World) -> None:
    task = assign(world)
    for _ in range(2):
        settle(world, reserve(world, "a1", task=task))
    settle(world, reserve(world, "a1"))  # for no task
    done = world.call("a1", "finish_task", task=task, **REPORT)
    assert record(done["result"])["tokens"] == 240
    assert spend_of(world, task) == (240, 840, "measured")
    event = end_event(world, task)
    assert (event["tokens"], event["cost"], event["source"]) == (240, 840, "measured")
    world.advance(1)
    letters = [str(row["body"]) for row in world.mail("a") if row["kind"] == "tasks"]
    assert "done, success (240 tokens, 0.00084 USD, measured): did it" in letters[-1]


def test_what_the_agent_reports_is_added_and_marks_the_sum(world: World) -> None:
    task = assign(world)
    settle(world, reserve(world, "a1", task=task))
    world.call("a1", "report_usage", task=task, tokens_in=10)
    world.call("a1", "finish_task", task=task, tokens=5, **REPORT)
    assert spend_of(world, task) == (135, 420, "reported")


def test_a_task_without_spend_has_none(world: World) -> None:
    task = assign(world)
    world.call("a1", "finish_task", task=task, **REPORT)
    assert spend_of(world, task) == (None, None, "")
    assert "tokens" not in end_event(world, task)


def test_a_cancelled_task_has_its_spend(world: World) -> None:
    task = assign(world)
    settle(world, reserve(world, "a1", task=task))
    world.call("a", "cancel_task", task=task)
    world.call("a1", "finish_task", task=task, status="stopped", summary="stopped")
    assert spend_of(world, task) == (120, 420, "measured")


def balances(world: World, agent: str = "") -> dict[tuple[object, object], object]:
    params = {"agent": agent} if agent else {}
    table = rows(world.call("operator", "get_usage", **params)["budgets"])
    return {(row["agent"], row["kind"]): row["source"] for row in table}


def test_a_budget_says_whether_all_that_it_paid_was_measured(world: World) -> None:
    for agent, kind, amount in (
        ("root", "tokens", 300_000), ("a", "tokens", 100_000), ("root", "money", 100_000),
    ):  # fmt: skip
        world.call("operator", "allocate_budget", agent=agent, kind=kind, amount=amount)
    settle(world, reserve(world, "a1"))
    settle(world, reserve(world, "b"))
    assert set(balances(world).values()) == {"measured"}
    world.call("a1", "report_usage", tokens_in=10)
    assert balances(world) == {
        ("root", "tokens"): "measured", ("a", "tokens"): "reported", ("root", "money"): "measured",
    }  # fmt: skip
    world.call("b", "report_usage", cost=5)
    assert balances(world, "a1") == {("a", "tokens"): "reported", ("root", "money"): "reported"}
