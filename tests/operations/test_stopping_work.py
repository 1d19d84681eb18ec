"""Q40: one call ends running and queued work, batches and triggers, and says what stopped."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count as counting

import pytest
from fixtures.tasks import end, give, state
from fixtures.world import Reply, World, fields, names, rows, texts


def task_ends(reply: Reply) -> dict[object, tuple[object, object]]:
    return {task["task"]: (task["state"], task["status"]) for task in rows(reply["tasks"])}


def test_queued_work_stops_at_once_and_running_work_is_told(world: World) -> None:
    running = give(world, "a", "a1")
    queued = [give(world, "a", "a2", needs=[running]) for _ in range(2)]
    reply = world.call("a", "stop_work", reason="enough")
    assert task_ends(reply) == {
        running: ("stopping", ""), **dict.fromkeys(queued, ("cancelled", "stopped")),
    }  # fmt: skip
    assert reply["stopping"] == 1
    assert "task_stop" in names(world.mail("a1"), "kind")


def test_the_waiting_answer_says_what_really_stopped(world: World) -> None:
    task = give(world, "a", "a1")
    asked = world.ask("a", "stop_work", reason="enough", wait=20)
    assert asked.pending
    end(world, task, "partial", summary="half")
    result = asked.result()
    assert task_ends(result) == {task: ("cancelled", "stopped")}
    assert result["stopping"] == 0


def test_the_answer_waits_for_the_last_of_them(world: World) -> None:
    first, last = give(world, "a", "a1"), give(world, "a", "a2")
    asked = world.ask("a", "stop_work", reason="enough", wait=20)
    end(world, first)
    assert asked.pending
    end(world, last)
    assert asked.result()["stopping"] == 0


def test_what_does_not_stop_in_time_is_told_as_it_is(world: World) -> None:
    task = give(world, "a", "a1")
    asked = world.ask("a", "stop_work", reason="enough", grace=1, wait=50)
    world.advance(1 + world.settings.waits.stop + 1)
    result = asked.result()
    assert task_ends(result) == {task: ("stopping", "")}
    assert result["stopping"] == 1
    run = world.ledger.runs.get(world.uuid("a1"))
    assert run is not None
    assert "did not stop" in run.reason


def test_an_end_that_does_not_come_is_told_once_and_asked_for_ever_more_rarely(
    world: World,
) -> None:
    task, other = give(world, "a", "a1"), give(world, "a", "a1")
    world.call("a", "stop_work", reason="enough", grace=1)
    asked = list[float]()
    for _ in range(240):  # two hours
        world.advance(30)
        run = world.ledger.runs.get(world.uuid("a1"))
        assert run is not None
        if run.since not in asked:
            asked.append(run.since)
    assert len(asked) < 12
    assert asked[-1] - asked[-2] >= 1800
    messages = [event for event in world.events() if event["operation"] == "forced"]
    assert sorted(str(fields(message)["task"]) for message in messages) == sorted([task, other])
    assert not [event for event in world.events() if event["operation"] == "task_deadlines"]
    assert (state(world, task), state(world, other)) == ("stopping", "stopping")


def test_batches_of_the_whole_subtree_stop_with_what_they_queued(world: World) -> None:
    tasks = [{"task": f"{n}"} for n in range(4)]
    begun = world.call("a1", "run_parallel_workers", tasks=tasks, concurrency=1)
    reply = world.call("operator", "stop_work", agent="a", reason="enough")
    assert reply["batches"] == [begun["batch"]]
    world.advance(0)
    seen = world.call("operator", "get_batch", batch=begun["batch"])
    assert seen["state"] == "stopped"
    assert {report["status"] for report in rows(seen["reports"])} == {"stopped"}
    assert not set(texts(begun["workers"])) & set(world.hive.specs)


def test_triggers_are_switched_off(world: World) -> None:
    made = world.call(
        "a",
        "set_trigger",
        name="tick",
        when={"every": 60.0},
        action={"kind": "message", "text": "x"},
    )
    reply = world.call("a", "stop_work", reason="enough")
    assert reply["triggers"] == [made["id"]]


def test_others_go_on(world: World) -> None:
    mine, theirs = give(world, "a", "a1"), give(world, "b", "b1")
    above = give(world, "root", "a")
    world.call("a", "stop_work", reason="enough")
    assert (state(world, mine), state(world, theirs)) == ("stopping", "in_progress")
    assert state(world, above) == "in_progress"


def test_an_agent_s_own_work_stops_when_another_says_so(world: World) -> None:
    above, below = give(world, "root", "a"), give(world, "a", "a1")
    world.call("root", "stop_work", agent="a", reason="enough")
    assert (state(world, above), state(world, below)) == ("stopping", "stopping")


def test_nothing_to_stop_is_an_answer_too(world: World) -> None:
    reply = world.call("a", "stop_work", reason="", wait=10)
    assert (reply["tasks"], reply["batches"], reply["triggers"], reply["stopping"]) == (
        [], [], [], 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("caller", "error"), {"a1": "NotAllowed", "a2": "NotAllowed", "b1": "NotFound"}.items()
)
def test_callers_that_are_refused(world: World, caller: str, error: str) -> None:
    assert world.fault(caller, "stop_work", agent="a", reason="x") == error


def _tick(ticks: Iterator[int]) -> None:
    next(ticks)


def test_a_very_long_queue_stops_without_reading_all_of_it_again_for_each_end(
    world: World,
) -> None:
    """In steps of SQLite's machine for each task: they do not grow with the queue, nor with what
    has ended before. And so few statements that a thousand ends take some tenths of a second."""
    steps, said = {}, list[str]()
    for count in (20, 80):
        for _ in range(count):
            world.call("a", "assign_task", agent="a1", description="x" * 1000)
        ticks = counting()
        raw = world.ledger.connection._raw
        raw.set_progress_handler(partial(_tick, ticks), 10)
        raw.set_trace_callback(said.append)
        reply = world.call("a", "stop_work", reason="enough")
        raw.set_progress_handler(None, 0)
        raw.set_trace_callback(None)
        assert len(rows(reply["tasks"])) == count
        steps[count] = next(ticks) / count
    assert steps[80] < 1.2 * steps[20]
    assert len(said) / 100 < 30


def test_running_tasks_are_told_first_however_many_wait_and_whichever_agents_end(
    world: World,
) -> None:
    for _ in range(40):
        world.call("operator", "assign_task", agent="b1", description="x")
    running = give(world, "a", "a1")
    waiting = [give(world, "a", "a2", needs=[running]) for _ in range(40)]
    world.broker.listeners.remove(
        world.agenda.on_topics
    )  # what takes turns of its own does not come
    world.call("b", "destroy", agent="b1")
    said = world.call("a", "stop_work", reason="enough")
    assert state(world, running) == "stopping"
    assert {state(world, item) for item in waiting[31:]} == {"waiting"}
    assert (len(rows(said["tasks"])), said["stopping"]) == (41, 10)
    sweeps = world.ledger.plans.sweeps
    assert (first := sweeps.first()) is not None
    assert first[1].party == world.uuid("a")


def test_what_has_not_ended_yet_is_told_as_stopping(world: World) -> None:
    for _ in range(40):
        world.call("operator", "assign_task", agent="a1", description="x")
    said = world.call("a", "stop_work", reason="enough")
    states = [task["state"] for task in rows(said["tasks"])]
    assert (states.count("stopping"), set(states)) == (8, {"stopping", "cancelled"})
    assert said["stopping"] == 8


def test_the_event_tells_how_many_and_names_the_last_of_them(world: World) -> None:
    for _ in range(70):
        world.call("operator", "assign_task", agent="a1", description="x")
    running = give(world, "a", "a2")
    world.call("a", "stop_work", reason="enough")
    (event,) = [event for event in world.events() if event["operation"] == "stop_work"]
    assert (fields(event)["count"], len(texts(fields(event)["tasks"]))) == (71, 64)
    assert running in texts(fields(event)["tasks"])


def test_nothing_that_waits_is_begun_because_another_one_ends(world: World) -> None:
    tasks = [
        world.call("operator", "assign_task", agent="a1", description="x")["task"]
        for _ in range(40)
    ]
    world.broker.listeners.remove(world.agenda.on_topics)
    world.call("a", "stop_work", reason="enough")
    states = [state(world, str(task)) for task in tasks]
    assert (states.count("cancelled"), set(states)) == (32, {"cancelled", "queued"})
