"""T4: a wait is parked, not held open; what ends it is a message that carries its id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.tasks import end, give, take
from fixtures.world import Reply, World, names, rows

from hive_core.ledger.core.ledger import Ledger
from hive_core.model.work.planning import WaitCondition


def park(world: World, agent: str = "a", **params: object) -> str:
    return str(world.call(agent, "wait_for", **params)["wait_id"])


def over(world: World, agent: str = "a") -> list[Reply]:
    """The heads of notices that a wait is over."""
    result = [message for message in take(world, agent) if message["kind"] == "wait_over"]
    return [json.loads(str(row["body"]).partition("\n")[0]) for row in result]


def waits(world: World, agent: str = "a") -> list[object]:
    return names(world.call("operator", "list_waits", agent=agent)["waits"], "id")


def test_a_wait_answers_at_once_and_blocks_the_caller(world: World) -> None:
    reply = world.call("a", "wait_for")
    assert reply["over"] is False
    assert waits(world) == [reply["wait_id"]]
    assert world.ledger.lives.activity(world.uuid("a")) == "blocked"


def test_the_first_word_of_a_child_ends_it_and_carries_its_id(world: World) -> None:
    wait = park(world)
    world.call("a1", "send", to="a", body="hello")
    (letter,) = take(world, "a")
    assert (letter["body"], letter["wait_id"]) == ("hello", wait)
    assert waits(world) == []
    assert world.ledger.lives.activity(world.uuid("a")) == "idle"
    world.call("a1", "send", to="a", body="again")
    assert take(world, "a")[0]["wait_id"] is None


@pytest.mark.parametrize("writer", ["operator", "root"])
def test_a_word_from_above_ends_every_wait(world: World, writer: str) -> None:
    task = give(world, "a", "a1")
    first, second = park(world, tasks=[task]), park(world, agents=["a2"])
    world.call(writer, "send", to="a", body="stop that")
    notice, letter = take(world, "a")
    assert letter["wait_id"] == first
    head = json.loads(str(notice["body"]).partition("\n")[0])
    assert (head["wait_id"], head["message"]) == (second, letter["id"])
    assert notice["wait_id"] == second
    assert waits(world) == []


def test_a_sibling_s_word_ends_only_a_wait_for_it(world: World) -> None:
    park(world)
    world.call("b", "send", to="a", body="hi")
    assert len(waits(world)) == 1
    named = park(world, agents=["b"])
    world.call("b", "send", to="a", body="hi")
    assert named not in waits(world)
    assert [message["wait_id"] for message in take(world, "a")] == [None, named]


def test_a_child_s_word_does_not_end_a_wait_for_another(world: World) -> None:
    wait = park(world, agents=["a2"])
    world.call("a1", "send", to="a", body="hi")
    assert waits(world) == [wait]
    world.call("a2", "send", to="a", body="hi")
    assert waits(world) == []


def test_any_of_the_tasks_ends_it(world: World) -> None:
    one, two = give(world, "a", "a1"), give(world, "a", "a2")
    wait = park(world, tasks=[one, two])
    end(world, two, "partial")
    (head,) = over(world)
    assert head == {"wait_id": wait, "reason": "tasks", "tasks": {two: "partial"}}


def test_all_of_the_tasks_end_it(world: World) -> None:
    one, two = give(world, "a", "a1"), give(world, "a", "a2")
    wait = park(world, tasks=[one, two], until="all")
    end(world, two)
    assert over(world) == []
    end(world, one, "failed")
    (head,) = over(world)
    assert head["wait_id"] == wait
    assert head["tasks"] == {one: "failed", two: "success"}


def test_tasks_that_have_ended_end_it_at_once(world: World) -> None:
    task = give(world, "a", "a1")
    end(world, task)
    take(world, "a")
    reply = world.call("a", "wait_for", tasks=[task])
    assert reply["over"] is True
    assert [item["wait_id"] for item in over(world)] == [reply["wait_id"]]
    assert waits(world) == []


def test_the_deadline_ends_it_and_says_what_is_open(world: World) -> None:
    task = give(world, "a", "a1", deadline=0.0)
    wait = park(world, tasks=[task], deadline=60)
    world.advance(59)
    assert waits(world) == [wait]
    world.advance(2)
    (head,) = over(world)
    assert head == {"wait_id": wait, "reason": "deadline", "tasks": {}}


def test_a_waiting_agent_can_answer_a_worker_meanwhile(world: World) -> None:
    task = give(world, "a", "a1")
    wait = park(world, tasks=[task])
    world.call("a1", "send", to="a", body="how?")
    (letter,) = take(world, "a")
    world.call("a", "send", to="a1", body="so", reply_to=letter["id"])
    assert waits(world) == [wait]
    assert [message["body"] for message in take(world, "a1")] == ["so"]


def test_what_needs_an_answer_ends_it_so_that_two_never_wait_for_each_other(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    wait = park(world, tasks=[task])
    world.call("a1", "create_plan", task=task, steps=[{"title": "x"}])
    assert [message["kind"] for message in take(world, "a") if message["wait_id"] == wait] == [
        "plan_submitted"
    ]


def test_news_that_may_be_replaced_carry_no_wait(world: World) -> None:
    one, two = give(world, "a", "a1"), give(world, "a", "a2")
    wait = park(world)
    end(world, one)
    end(world, two)
    messages = take(world, "a")
    assert [row["kind"] for row in messages if row["wait_id"]] == ["wait_over"]
    assert [row["wait_id"] for row in messages if row["wait_id"]] == [wait]


def test_a_cancelled_wait_ends_without_a_word(world: World) -> None:
    wait = park(world)
    assert world.fault("a1", "cancel_wait", wait=wait) == "NotAllowed"
    assert world.fault("b1", "cancel_wait", wait=wait) == "NotFound"
    world.call("root", "cancel_wait", wait=wait)
    assert take(world, "a") == []
    assert world.fault("a", "cancel_wait", wait=wait) == "Conflict"
    assert world.ledger.lives.activity(world.uuid("a")) == "idle"


def test_only_what_one_may_see_is_waited_for(world: World) -> None:
    task = give(world, "a", "a1")
    assert world.fault("b", "wait_for", tasks=[task]) == "NotFound"
    assert world.fault("a", "wait_for", tasks=["0" * 12]) == "NotFound"
    assert world.fault("a", "wait_for", agents=["nobody"]) == "NotFound"
    assert world.fault("a1", "wait_for", agents=["b1"]) == "NotFound"
    assert world.fault("root", "wait_for", tasks=[task]) == ""


def test_an_agent_has_so_many_waits_and_no_wait_is_for_ever(world: World) -> None:
    most = world.settings.waits
    assert world.fault("a", "wait_for", deadline=most.deadline_most + 1) == "InvalidArgument"
    for _ in range(most.open):
        park(world)
    assert world.fault("a", "wait_for") == "LimitReached"


def test_a_destroyed_agent_waits_for_nothing(world: World) -> None:
    uuid = world.uuid("a1")
    park(world, "a1")
    world.call("a", "destroy", agent="a1", recursive=True)
    assert world.ledger.plans.waits.open_waits(uuid) == []


def test_waits_that_ended_are_forgotten_after_a_week(world: World) -> None:
    wait = park(world)
    world.call("a", "cancel_wait", wait=wait)
    world.advance(6 * 86_400)
    assert world.ledger.plans.waits.get(wait)
    world.advance(2 * 86_400)
    assert world.ledger.plans.waits.get(wait) is None


def test_a_script_can_hold_a_call_open_for_tasks(world: World) -> None:
    one, two = give(world, "a", "a1"), give(world, "a", "a2")
    held = world.ask("a", "wait_tasks", tasks=[one, two], wait=50)
    first = world.ask("a", "wait_tasks", tasks=[one, two], wait=50, until="any")
    end(world, two)
    assert first.result()["done"] is True
    assert held.pending
    end(world, one, "failed")
    ends = rows(held.result()["tasks"])
    assert [(end_["task"], end_["status"]) for end_ in ends] == [(one, "failed"), (two, "success")]
    late = world.ask("a", "wait_tasks", tasks=[give(world, "a", "a1", deadline=0.0)], wait=5)
    world.advance(6)
    assert late.result()["done"] is False


def test_waits_are_there_after_a_restart_and_move_with_the_clock(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "db", primed=0)
    with ledger.transaction():
        result = ledger.plans.waits.create(
            "a", WaitCondition(("t1",), ("b",), all=True), 100.0, 200.0
        )
    ledger.close()
    ledger = Ledger.open(tmp_path / "db", primed=0)
    with ledger.transaction():
        (stored,) = ledger.plans.waits.open_waits("a")
        assert stored == result
        ledger.shifts.move(1000.0, 1100.0, 10.0)
        assert ledger.plans.waits.next_deadline() == 1200.0
    ledger.close()
