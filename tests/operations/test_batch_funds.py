"""K34, Q20: tasks of a batch with budgets of their own are given out as far as the money goes."""

from __future__ import annotations

import pytest
from fixtures.tasks import end, take
from fixtures.world import World, texts

from hive_core.errors import LimitReached


@pytest.fixture(autouse=True)
def _budgets(world: World) -> None:
    world.call("operator", "allocate_budget", agent="root", kind="tokens", amount=1000)
    world.call("root", "allocate_budget", agent="a", kind="tokens", amount=500)


def batch(world: World, *tokens: int) -> tuple[str, list[str]]:
    """A batch of `a` for two workers: its id, and its tasks as far as they were given."""
    tasks = [{"task": "x", "budget": {"tokens": token}} for token in tokens]
    begun = world.call("a", "run_parallel_workers", tasks=tasks, agents=["a1", "a2"])
    take(world, "a1")
    take(world, "a2")
    return str(begun["batch"]), texts(begun["tasks"])


def items(world: World, id_: str) -> list[str]:
    return [key.state.value for key in world.ledger.plans.batches.items(id_)]


def test_a_batch_goes_on_with_what_there_is_enough_for(world: World) -> None:
    id_, (first, second, *_) = batch(world, 250, 250, 200, 250)
    worker = str(world.hive.name(world.ledger.tasks.require(first).assignee))
    world.call(worker, "report_usage", tokens_in=200, task=first)
    end(world, first)
    world.advance(0)
    assert items(world, id_) == ["ended", "given", "queued", "queued"]
    end(world, second)
    world.advance(3)
    assert items(world, id_) == ["ended", "ended", "given", "queued"]
    world.call("root", "allocate_budget", agent="a", kind="tokens", amount=150)
    world.advance(3)
    assert items(world, id_) == ["ended", "ended", "given", "given"]


def test_a_batch_is_begun_when_there_is_enough_for_its_first_task(world: World) -> None:
    id_, (first, second) = batch(world, 300, 250)
    assert (items(world, id_), second) == (["given", "queued"], "")
    end(world, first)
    world.advance(3)
    assert items(world, id_) == ["ended", "given"]
    with pytest.raises(LimitReached):
        world.call("a", "run_parallel_workers", tasks=[{"task": "x", "budget": {"tokens": 300}}])


def test_what_was_spent_on_each_task_stands_in_the_batch(world: World) -> None:
    """On the way, with the task, and in its report."""
    id_, (first, second, *_) = batch(world, 100, 100)
    worker = str(world.hive.name(world.ledger.tasks.require(first).assignee))
    world.call(worker, "report_usage", tokens_in=20, tokens_out=5, cost=7, task=first)
    world.call(worker, "finish_task", task=first, status="success", summary="x", tokens=3)
    reports = world.call("a", "get_batch", batch=id_)["reports"]
    assert isinstance(reports, list)
    assert [(report["tokens"], report["cost"]) for report in reports] == [(28, 7), (None, None)]
    assert second
