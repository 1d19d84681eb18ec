"""Attack 37 by tasks: whatever depends on one task does not delay other parties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from fixtures.tasks import finish, give, state, take
from fixtures.world import World, rows

from hive_core.operations.tasks.transitions import AT_ONCE

MANY = 3 * AT_ONCE


@contextmanager
def events_per_transaction(world: World) -> Iterator[list[int]]:
    """How many events each transaction wrote."""
    result: list[int] = []
    before = world.ledger.events.last

    def record_events(_: frozenset[str]) -> None:
        nonlocal before
        result.append(world.ledger.events.last - before)
        before = world.ledger.events.last

    world.broker.listeners.append(record_events)
    yield result


def hang(world: World, how: str) -> tuple[str, list[str]]:
    """Many tasks that wait for one, are parts of one, or wait each for the one before."""
    first = give(world, "root", "a")
    result = [first]
    for number in range(MANY):
        caller, agent = ("a", f"a{number % 2 + 1}") if how == "parts" else ("root", "a")
        before = [first] if how == "needs" else result[-1:]
        wish: dict[str, object] = {"part_of": first} if how == "parts" else {"needs": before}
        task = world.call(caller, "assign_task", agent=agent, description="x", **wish)
        result.append(str(task["task"]))
    return first, result[1:]


@pytest.mark.parametrize(
    ("how", "end"),
    [("needs", "failed"), ("chain", "failed"), ("parts", "cancel"), ("parts", "killed")],
)
def test_dependent_tasks_end_in_batches_to_the_last(world: World, how: str, end: str) -> None:
    first, tasks = hang(world, how)
    with events_per_transaction(world) as sizes:
        if end == "cancel":
            world.call("root", "cancel_task", task=first)
            world.call("a", "finish_task", task=first, status="stopped", summary="")
        else:
            finish(world, "a", first, "failed")
        if end == "killed":
            world.kill()
        world.advance(30)
    assert {state(world, task) for task in tasks} <= {"done", "cancelled"}
    if end != "killed":
        assert len(sizes) > MANY // AT_ONCE
        assert max(sizes) <= 2 * AT_ONCE


def test_many_tasks_waiting_for_one_begin_in_batches(world: World) -> None:
    first, tasks = hang(world, "needs")
    with events_per_transaction(world) as sizes:
        finish(world, "a", first)
        world.advance(1)
    assert "waiting" not in {state(world, task) for task in tasks}
    assert max(sizes) <= 2 * AT_ONCE


def test_the_result_of_a_cancel_says_that_more_follow(world: World) -> None:
    first, tasks = hang(world, "parts")
    done = world.call("root", "cancel_task", task=first)
    assert len(rows(done["hit"])) == AT_ONCE + 1
    assert done["more"]
    # Of those that were not hit yet none is begun meanwhile.
    world.advance(0)
    assert {state(world, task) for task in tasks} <= {"cancelled", "stopping"}
    task = give(world, "root", "b")
    assert world.call("root", "cancel_task", task=task)["more"] is False


@pytest.mark.parametrize("how", ["cancel", "late"])
def test_tasks_that_depend_on_many_stopped_ones_end_in_batches(world: World, how: str) -> None:
    whole = give(world, "root", "a", deadline=0.0)

    def more(agent: str, **wish: object) -> str:
        words = {"agent": agent, "description": "nobody has taken it", **wish}
        return str(world.call("a", "assign_task", **words)["task"])

    parts = [more(f"a{n % 2 + 1}", part_of=whole, deadline=60.0) for n in range(8)]
    waiting = [more("a1", part_of="-", needs=parts[n % 8 : n % 8 + 1]) for n in range(MANY)]
    with events_per_transaction(world) as sizes:
        if how == "cancel":
            world.call("root", "cancel_task", task=whole)
        else:
            for agent in ("a1", "a2"):
                take(world, agent)
                world.call("operator", "stop", agent=agent)
        world.advance(60)
        world.advance(30)
    assert {state(world, task) for task in waiting} == {"done"}
    assert max(sizes) <= 2 * AT_ONCE


def test_the_workers_of_a_batch_are_destroyed_in_batches(world: World) -> None:
    begun = world.call("b", "run_parallel_workers", tasks=["x"] * 9, concurrency=9)
    left: list[int] = []
    world.broker.listeners.append(lambda _: left.append(len(world.hive.specs)))
    before = len(world.hive.specs)
    world.advance(600)
    assert len(world.hive.specs) == before - 9
    assert max(had - has for had, has in pairwise([before, *left])) == 8
    (row,) = rows(world.call("b", "list_batches")["batches"])
    assert (row["batch"], row["state"], row["open"]) == (begun["batch"], "timeout", 0)
