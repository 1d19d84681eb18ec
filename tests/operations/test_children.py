"""wait_child, and how exits of children are kept and reported (rows K7, K9, K10)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.machines import end_machine, run_of, start_machines
from fixtures.world import Exchange, Reply, World, world

from hive_core.errors import NotFound
from hive_core.model.agents.machine import Exit, Machine, State


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """A lead with three kinds of children, all running."""
    edges = ("root/lead:lead", "lead/worker:worker", "lead/once:task", "root/other:lead")
    with world(None, *edges) as made:
        start_machines(made, "root", "lead", "worker", "once", "other")
        yield made


def child(asked: Exchange) -> Reply:
    result = asked.result()["child"]
    assert isinstance(result, dict)
    return result


def test_the_end_of_a_child_answers_the_caller_that_waits_for_it(world: World) -> None:
    """K7: event-driven, with the real exit code, the reason and the last lines."""
    asked = world.ask("lead", "wait_child", agent="once")
    assert asked.pending
    end_machine(world, "once", 42, output="no such file")
    result = child(asked)
    assert (result["name"], result["code"], result["clean"]) == ("once", 42, False)
    assert (result["reason"], result["output"]) == ("ended with 42", "no such file")
    assert result["reaped"]


def test_any_child_is_waited_for_when_none_is_named(world: World) -> None:
    """K7: those that ended before the call come first, the oldest of them at once."""
    end_machine(world, "worker", 3)
    end_machine(world, "once", 0)
    first, second = (child(world.ask("lead", "wait_child")) for _ in range(2))
    assert [first["name"], second["name"]] == ["worker", "once"]
    assert [first["reaped"], second["reaped"]] == [False, True]


def test_each_end_is_told_once(world: World) -> None:
    """K7: the second wait is NotFound, whether the child stays in the tree or is destroyed."""
    for name in ("worker", "once"):
        end_machine(world, name, 1)
        world.call("lead", "wait_child", agent=name)
        assert world.fault("lead", "wait_child", agent=name) == "NotFound"
    assert world.fault("lead", "wait_child") == "NotFound"


def test_a_call_that_is_repeated_gets_the_same_end(world: World) -> None:
    end_machine(world, "worker", 7)
    again = [world.call("lead", "wait_child", idempotency_key="k") for _ in range(2)]
    assert again[0] == again[1]


@for_each(
    "caller, whom, error",
    [("root", "worker", "NotAllowed"), ("worker", "once", "NotAllowed"),
     ("other", "once", "NotFound"), ("lead", "lead", "NotAllowed"), ("lead", "nobody", "NotFound"),
     ("operator", "worker", "NotAllowed")],
)  # fmt: skip
def test_only_a_parent_waits(world: World, caller: str, whom: str, error: str) -> None:
    """K7: a non-child is refused, and one that the caller cannot see is unknown to it."""
    assert world.fault(caller, "wait_child", agent=whom, wait=1) == error


def test_the_operator_waits_for_roots(world: World) -> None:
    asked = world.ask("operator", "wait_child", agent="root")
    end_machine(world, "root", 9)
    assert child(asked)["code"] == 9


def test_a_wait_has_an_end(world: World) -> None:
    asked = world.ask("lead", "wait_child", agent="worker", wait=5)
    world.advance(5)
    assert asked.result() == {"child": None}


def test_an_end_that_was_seen_and_is_not_told_yet_is_waited_for(world: World) -> None:
    """A child may live shorter than it takes to write down that it began."""
    end_machine(world, "worker", 1)
    world.call("lead", "wait_child", agent="worker")
    world.call("lead", "restart", agent="worker")
    uuid, nonce = world.uuid("worker"), run_of(world, "worker").nonce
    world.seen.states[uuid] = State.FAILED
    end = Exit("e" * 32, "exit-code", "exited", "1", nonce)
    world.seen.machines[uuid] = Machine(uuid, exit=end)
    asked = world.ask("lead", "wait_child", agent="worker")
    assert asked.pending
    start_machines(world, "worker")
    end_machine(world, "worker", 5)
    assert child(asked)["code"] == 5


def test_a_waiting_caller_is_told_when_no_end_can_come_any_more(world: World) -> None:
    """The daemon observes machines later than it records decisions about them."""
    end_machine(world, "worker", 1)
    world.call("lead", "wait_child", agent="worker")
    uuid = world.uuid("worker")
    world.seen.states[uuid] = State.RUNNING
    asked = world.ask("lead", "wait_child", agent="worker")
    assert asked.pending
    world.seen.states[uuid] = State.FAILED
    world.broker.touch({f"state:{uuid}"})
    world.run()
    assert str(asked.replies[0]["error"]).endswith(".NotFound")


def test_sleep_restart_and_a_crash_that_comes_back_are_no_end(world: World) -> None:
    """K7: what comes back by itself, or can be woken, has not ended."""
    asked = world.ask("lead", "wait_child", agent="worker", wait=50)
    world.call("lead", "sleep", agent="worker")
    end_machine(world, "worker", 0)
    world.call("lead", "resume", agent="worker")
    start_machines(world, "worker")
    end_machine(world, "worker", 1, returns=True)
    start_machines(world, "worker")
    assert asked.pending
    world.call("lead", "kill", agent="worker", reason="enough")
    end_machine(world, "worker", None)
    result = child(asked)
    assert (result["code"], result["asked"], result["reason"]) == (None, True, "enough")


def test_an_agent_that_runs_again_has_no_old_end(world: World) -> None:
    end_machine(world, "worker", 1)
    world.call("lead", "restart", agent="worker")
    start_machines(world, "worker")
    asked = world.ask("lead", "wait_child", agent="worker")
    assert asked.pending
    end_machine(world, "worker", 2)
    assert child(asked)["code"] == 2


def test_one_that_is_destroyed_has_ended(world: World) -> None:
    """K7, K9: the wait is answered, whichever party destroys the child."""
    asked = world.ask("lead", "wait_child", agent="worker")
    world.call("root", "destroy", agent="worker")
    assert child(asked)["reason"] == "destroyed"


def test_a_good_end_is_told_to_the_parent_and_an_intended_one_is_not(world: World) -> None:
    """K10: the parent of an agent, lead or worker gets a child-exit message."""
    end_machine(world, "worker", 0, output="all done")
    (letters,) = world.mail("lead")
    assert (letters["kind"], letters["from"]) == ("child_exit", "daemon")
    assert letters["body"] == "worker ended with 0\n\nlast lines:\nall done"
    world.call("lead", "kill", agent="once")
    end_machine(world, "once", None)
    assert len(world.mail("lead")) == 1


def test_the_children_of_a_destroyed_agent_are_waited_for_by_their_new_parent(world: World) -> None:
    """K9: an uncollected end is passed on together with the children."""
    end_machine(world, "worker", 5)
    world.call("root", "destroy", agent="lead")
    assert child(world.ask("root", "wait_child", agent="worker"))["code"] == 5


def test_how_it_ended_is_kept_for_a_day(world: World) -> None:
    """K8: the result stays when the agent is gone; by its UUID too, when the name is taken."""
    uuid = world.uuid("once")
    end_machine(world, "once", 4)
    world.advance(61)
    assert "once" not in world.hive.specs
    world.call("lead", "spawn", name="once", role="task")
    start_machines(world, "once")
    assert child(world.ask("lead", "wait_child", agent=uuid))["code"] == 4
    end_machine(world, "worker", 6)
    world.advance(86_401)
    with pytest.raises(NotFound):
        world.call("lead", "wait_child", agent="worker")


def test_an_end_is_written_down_once_however_often_it_is_told(world: World) -> None:
    end_machine(world, "worker", 1)
    end_machine(world, "worker", 1)
    assert len(world.ledger.lives.uncollected_ends(world.uuid("lead"))) == 1
