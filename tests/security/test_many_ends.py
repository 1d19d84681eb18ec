"""Attack 37 by ends: however much one call ends, others get their turns between."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.tasks import give, phase, state, take
from fixtures.world import World, names, rows
from security.test_many_tasks import MANY, events_per_transaction

from hive_core.operations.tasks.notices import MOMENT, TASKS
from hive_core.operations.tasks.transitions import AT_ONCE


def crowd(world: World, *agents: str) -> list[str]:
    """Five that each of them works on, and many that wait."""
    words = {"description": "x", "deadline": 0.0}
    texts = [
        str(world.call("root", "assign_task", agent=agents[n % len(agents)], **words)["task"])
        for n in range(MANY)
    ]
    for agent in agents:
        take(world, agent)
    return texts


def offered_tasks(world: World) -> list[object]:
    """The tasks that were offered to an agent so far."""
    return [field["task"] for field in _fields(world, "offer")]


def _fields(world: World, operation: str) -> list[dict[str, object]]:
    events = [event["fields"] for event in world.events() if event["operation"] == operation]
    return [fields for fields in events if isinstance(fields, dict)]


def test_stop_work_ends_a_subtree_in_batches_and_no_task_begins_meanwhile(
    world: World,
) -> None:
    tasks = crowd(world, "a1", "a2", "a11")
    before = offered_tasks(world)
    with events_per_transaction(world) as sizes:
        asked = world.ask("root", "stop_work", agent="a", reason="enough", wait=20)
        assert asked.pending
        later = give(world, "root", "b")
        world.advance(0)
        for agent in ("a1", "a2", "a11"):
            for offered_task in world.ledger.tasks.offered_tasks(world.uuid(agent)):
                world.call(
                    agent, "finish_task", task=offered_task.id, status="stopped", summary="half"
                )
    assert {state(world, task) for task in tasks} == {"cancelled"}
    assert max(sizes) <= 2 * AT_ONCE
    assert len(sizes) > MANY // AT_ONCE
    assert offered_tasks(world) == [*before, later]
    result = asked.result()
    assert (result["stopping"], len(rows(result["tasks"]))) == (0, MANY)
    assert {step["why"] for step in _history(world, tasks[-1])} == {"", "enough"}


def _history(world: World, task: str) -> list[dict[str, object]]:
    return rows(world.call("operator", "get_task", task=task)["history"])


def test_the_agent_that_stops_work_gets_no_notice_for_each_task(world: World) -> None:
    tasks = crowd(world, "a1")
    world.call("root", "stop_work", agent="a", reason="enough")
    world.advance(MOMENT)
    assert {step["by"] for step in _history(world, tasks[-1])[1:]} == {"root"}
    assert TASKS not in names(world.mail("root"), "kind")


def test_a_kill_between_two_batches_loses_no_task(world: World) -> None:
    tasks = crowd(world, "a1", "a2")
    reply = world.call("root", "stop_work", agent="a", reason="enough")
    left = [task for task in tasks if state(world, task) == "queued"]
    result = [task for task in tasks if state(world, task) == "stopping"]
    assert reply["stopping"] == len(left) + len(result) == MANY - AT_ONCE + len(result)
    assert len(left) > AT_ONCE
    before = offered_tasks(world)
    world.kill()
    world.advance(0)
    assert {state(world, task) for task in left} == {"cancelled"}
    assert offered_tasks(world) == before


@pytest.mark.parametrize("recursive", [False, True])
def test_the_tasks_of_a_destroyed_agent_end_in_batches(
    world: World, recursive: bool  # noqa: FBT001
) -> None:  # fmt: skip
    tasks = crowd(world, "a1", *(["a11"] if recursive else []))
    before = offered_tasks(world)
    with events_per_transaction(world) as sizes:
        world.call("root", "destroy", agent="a1", recursive=recursive)
        world.advance(0)
    assert {state(world, task) for task in tasks} == {"done"}
    assert offered_tasks(world) == before
    assert max(sizes) <= 2 * AT_ONCE + 16
    result = world.ledger.tasks.require(tasks[-1]).result
    assert result is not None
    assert (result.status, result.error.split()[1:]) == ("failed", ["was", "destroyed"])


def test_tasks_that_a_crashed_agent_never_began_end_in_batches(world: World) -> None:
    tasks = crowd(world, "a1")
    again = str(world.call("root", "assign_task", agent="a1", description="x", requeue=1)["task"])
    start_machines(world, "a1")
    before = offered_tasks(world)
    with events_per_transaction(world) as sizes:
        end_machine(world, "a1", 1)
        world.advance(0)
    assert {state(world, task) for task in tasks} == {"done"}
    assert state(world, again) == "queued", "its assigner wants another try of it"
    assert offered_tasks(world) == before
    assert max(sizes) <= 2 * AT_ONCE


@pytest.mark.parametrize("killed", [False, True])
def test_tasks_given_by_a_destroyed_agent_pass_on_at_once_and_notices_follow_in_batches(
    world: World, killed: bool  # noqa: FBT001
) -> None:  # fmt: skip
    tasks = [
        str(world.call("a", "assign_task", agent="a1", description="x")["task"])
        for _ in range(MANY)
    ]
    with events_per_transaction(world) as sizes:
        world.call("operator", "destroy", agent="a")
        givers = {world.ledger.tasks.require(task).assigner for task in tasks}
        if killed:
            world.kill()
        world.advance(0)
    assert givers == {world.uuid("root")}
    assert len(_fields(world, "inherit")) == MANY
    assert {step["by"] for step in _history(world, tasks[-1])} == {"a", "operator"}
    assert "tasks" in names(world.mail("root"), "kind")
    assert max(sizes) <= 2 * AT_ONCE


def test_a_task_given_after_a_stop_begins_before_the_stop_has_finished(
    world: World,
) -> None:
    tasks = crowd(world, "a1")
    for offered_task in world.ledger.tasks.offered_tasks(world.uuid("a1")):
        world.call("a1", "finish_task", task=offered_task.id, status="success", summary="")
    take(world, "a1")
    reply = world.call("root", "stop_work", agent="a", reason="enough")
    assert reply["stopping"] != 0
    words = {"agent": "a1", "description": "y", "priority": 3, "deadline": 0.0}
    texts = [str(world.call("root", "assign_task", **words)["task"]) for _ in range(6)]
    for offered_task in world.ledger.tasks.offered_tasks(world.uuid("a1")):
        if offered_task.id in tasks:  # there is room
            world.call("a1", "finish_task", task=offered_task.id, status="stopped", summary="")
    world.advance(0)
    assert [phase(world, text) for text in texts] == ["offered"] * 5 + ["queued"]
    assert {state(world, task) for task in tasks} <= {"cancelled", "stopping", "done"}


def test_a_task_deleted_meanwhile_delays_no_other(world: World) -> None:
    tasks = crowd(world, "a1")
    world.call("root", "stop_work", agent="a", reason="enough")
    left = [task for task in tasks if state(world, task) == "queued"]
    world.call("root", "cancel_task", task=left[0])
    with world.ledger.transaction():
        while world.ledger.tasks.prune(world.clock.now() + 1):
            pass
    world.advance(0)
    assert world.ledger.tasks.get(left[0]) is None
    assert {state(world, task) for task in left[1:]} == {"cancelled"}
