"""Q26: a word for who works; the answer says what became of it, and a wait of theirs is over."""

from __future__ import annotations

import pytest
from fixtures.tasks import end, give, take
from fixtures.world import World

from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.machine import State


def test_the_only_worker_needs_no_name(world: World) -> None:
    task = give(world, "a", "a1")
    reply = world.call("a", "inject_message", body="faster")
    assert (reply["result"], reply["worker"], reply["task"]) == ("delivered", "a1", task)
    (letter,) = take(world, "a1")
    assert (letter["id"], letter["kind"], letter["body"]) == (reply["message"], "inject", "faster")


def test_among_several_one_has_to_be_named(world: World) -> None:
    give(world, "a", "a1")
    task = give(world, "a", "a2")
    with pytest.raises(InvalidArgument, match=r"several work for you \(a1, a2\)"):
        world.call("a", "inject_message", body="x")
    assert world.call("a", "inject_message", body="x", worker="a2")["task"] == task
    assert world.call("a", "inject_message", body="x", task=task)["worker"] == "a2"


def test_to_one_that_sleeps_or_comes_up_it_is_queued(world: World) -> None:
    give(world, "a", "a1")
    world.seen.states[world.uuid("a1")] = State.STARTING
    assert world.call("a", "inject_message", body="x")["result"] == "queued"
    assert len(take(world, "a1")) == 1


def test_without_a_worker_nothing_is_sent(world: World) -> None:
    reply = world.call("a", "inject_message", body="x")
    assert (reply["result"], reply["message"]) == ("not_active", "")
    assert world.call("a", "inject_message", body="x", worker="a1")["result"] == "not_active"
    assert take(world, "a1") == []


def test_of_a_task_that_has_ended_no_agent_is_told_anything(world: World) -> None:
    task = give(world, "a", "a1")
    end(world, task)
    reply = world.call("a", "inject_message", body="x", task=task)
    assert (reply["result"], reply["worker"], reply["message"]) == ("not_active", "a1", "")
    assert take(world, "a1") == []


def test_it_ends_a_wait_of_the_worker(world: World) -> None:
    give(world, "root", "a")
    below = give(world, "a", "a1")
    wait = world.call("a", "wait_for", tasks=[below])["wait_id"]
    world.call("root", "inject_message", body="x")
    assert [message["wait_id"] for message in take(world, "a")] == [wait]


def test_only_downwards(world: World) -> None:
    task = give(world, "root", "a")
    assert world.fault("a1", "inject_message", body="x", worker="a") == "NotAllowed"
    assert world.fault("b1", "inject_message", body="x", worker="a") == "NotFound"
    assert world.fault("b1", "inject_message", body="x", task=task) == "NotFound"
    with pytest.raises(NotAllowed):
        world.call("a", "inject_message", body="x", task=task)
    with pytest.raises(InvalidArgument):
        world.call("root", "inject_message", body="x", task=task, worker="b")
