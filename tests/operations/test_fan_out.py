"""Q20, Q22: many tasks assigned in one call; tasks above the limit start by themselves."""

from __future__ import annotations

import json

import pytest
from each import for_each
from fixtures.tasks import end, state, take
from fixtures.world import Reply, World, names, rows, texts, world

from hive_core.errors import NotAllowed
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import DesiredState


def run(world: World, count: int = 3, caller: str = "a", **more: object) -> Reply:
    tasks = [{"task": f"sum {n}", "data": {"n": n}, "title": f"t{n}"} for n in range(count)]
    return world.call(caller, "run_parallel_workers", tasks=tasks, **more)


def batch(world: World, begun: Reply) -> Reply:
    return world.call("operator", "get_batch", batch=begun["batch"])


def reports(world: World, begun: Reply) -> list[Reply]:
    return rows(batch(world, begun)["reports"])


def spec(world: World, name: object) -> AgentSpec:
    return world.hive.spec(str(name))


def work(world: World, begun: Reply, item: int, status: str = "success", **more: object) -> None:
    """The worker of an item takes its task and reports."""
    row = reports(world, begun)[item]
    take(world, str(row["worker"]))
    end(world, str(row["task"]), status, **more)
    world.advance(0)


def notices(world: World, name: str = "a") -> list[Reply]:
    return [message for message in world.mail(name) if message["kind"] == "batch_done"]


def test_workers_are_made_up_to_the_cap_and_the_rest_is_queued(world: World) -> None:
    begun = run(world, 5, concurrency=2)
    assert begun["worker_count"] == 2
    assert [bool(text) for text in texts(begun["tasks"])] == [True, True, False, False, False]
    for name in texts(begun["workers"]):
        assert world.hive.topology.parent(name) == "a"
        assert spec(world, name).command == ("hive-agent", "worker")
    states = [report["state"] for report in reports(world, begun)]
    assert states == ["given", "given", "queued", "queued", "queued"]


def test_the_text_comes_with_its_data(world: World) -> None:
    begun = run(world, 1)
    (letter,) = take(world, texts(begun["workers"])[0])
    assert "sum 0" in str(letter["body"])
    assert '"n": 0' in str(letter["body"])


def test_a_free_worker_gets_the_next_task_by_itself(world: World) -> None:
    begun = run(world, 3, concurrency=1)
    work(world, begun, 0)
    row = reports(world, begun)[1]
    assert (row["state"], row["worker"]) == ("given", texts(begun["workers"])[0])
    work(world, begun, 1)
    work(world, begun, 2)
    assert batch(world, begun)["state"] == "done"


def test_reports_stand_in_the_order_of_the_tasks(world: World) -> None:
    begun = run(world, 3)
    work(world, begun, 2, "partial", summary="third", data={"x": 3})
    work(world, begun, 0, summary="first")
    work(world, begun, 1, "failed", summary="second")
    result = [
        (report["title"], report["status"], report["summary"]) for report in reports(world, begun)
    ]
    assert result == [
        ("t0", "success", "first"), ("t1", "failed", "second"), ("t2", "partial", "third"),
    ]  # fmt: skip
    assert reports(world, begun)[2]["data"] == {"x": 3}


def test_one_message_tells_when_all_is_over_and_the_workers_go(world: World) -> None:
    begun = run(world, 2)
    work(world, begun, 0)
    assert not notices(world)
    work(world, begun, 1, "failed", summary="no")
    (notice,) = notices(world)
    head = json.loads(str(notice["body"]).partition("\n")[0])
    assert head == {"batch": begun["batch"], "state": "done", "counts": {"success": 1, "failed": 1}}
    assert not set(texts(begun["workers"])) & set(world.hive.specs)


def test_workers_are_kept_when_asked_for(world: World) -> None:
    begun = run(world, 1, keep=True)
    work(world, begun, 0)
    assert set(texts(begun["workers"])) <= set(world.hive.specs)


def test_the_timeout_ends_the_rest_and_keeps_what_there_is(world: World) -> None:
    begun = run(world, 3, concurrency=2, timeout=100)
    work(world, begun, 0)
    take(world, str(reports(world, begun)[1]["worker"]))
    world.advance(101)
    row = reports(world, begun)[1]
    assert batch(world, begun)["state"] == "running"
    end(world, str(row["task"]), "partial", summary="half of it")
    world.advance(0)
    result = [(report["status"], report["summary"]) for report in reports(world, begun)]
    assert result == [("success", "done"), ("timeout", "half of it"), ("timeout", "")]
    assert batch(world, begun)["state"] == "timeout"
    assert len(notices(world)) == 1


def test_a_report_is_asked_for_before_the_timeout(world: World) -> None:
    begun = run(world, 1, timeout=100)
    worker = texts(begun["workers"])[0]
    take(world, worker)
    world.advance(85)
    assert "task_report" in names(world.mail(worker), "kind")


def test_existing_agents_can_do_the_work(world: World) -> None:
    begun = run(world, 3, agents=["a1", "a2"])
    assert sorted(texts(begun["workers"])) == ["a1", "a2"]
    for item in range(3):
        work(world, begun, item)
    assert batch(world, begun)["state"] == "done"
    assert {"a1", "a2"} <= set(world.hive.specs)


def test_a_named_worker_that_is_stopped_is_started(world: World) -> None:
    world.call("a", "stop", agent="a1")
    run(world, 1, agents=["a1"])
    result = world.ledger.runs.get(world.uuid("a1"))
    assert result is not None
    assert result.wanted is DesiredState.RUNNING


@for_each(
    "agents, error",
    [(["b"], "NotAllowed"), (["a"], "NotAllowed"), (["nobody"], "NotFound"),
     (["a1", "a1"], "InvalidArgument")],
)  # fmt: skip
def test_only_descendants_are_given_work(world: World, agents: list[str], error: str) -> None:
    assert world.fault("a", "run_parallel_workers", tasks=[{"task": "x"}], agents=agents) == error


def test_an_agent_works_for_one_batch_at_a_time(world: World) -> None:
    run(world, 1, agents=["a1"])
    assert world.fault("a", "run_parallel_workers", tasks=[{"task": "x"}], agents=["a1"]) == (
        "Conflict"
    )


@pytest.mark.parametrize("tasks", [[], [{"task": ""}], [{"task": "x"}] * 65])
def test_no_task_an_empty_one_and_too_many_are_refused(world: World, tasks: list[Reply]) -> None:
    assert world.fault("a", "run_parallel_workers", tasks=tasks) == "InvalidArgument"


def test_sixty_four_tasks_end_one_after_the_other(world: World) -> None:
    begun = run(world, 64, concurrency=4)
    for item in range(64):
        work(world, begun, item, summary=str(item))
    result = reports(world, begun)
    assert [row["summary"] for row in result] == [str(item) for item in range(64)]
    assert len({row["task"] for row in result}) == 64
    assert len(notices(world)) == 1


def test_a_batch_of_an_agent_that_may_not_create_agents_is_refused_whole() -> None:
    with world(None, "root/t:task", "root/w:worker") as made:
        assert run_fault(made, "t") == "NotAllowed"
        assert run_fault(made, "w", role="worker") == "NotAllowed"
        assert len(made.hive.specs) == 3


def run_fault(world: World, caller: str, **spawn: object) -> str:
    return world.fault(caller, "run_parallel_workers", tasks=[{"task": "x"}], spawn=spawn)


def test_a_lost_worker_is_replaced(world: World) -> None:
    begun = run(world, 2, concurrency=1)
    worker = texts(begun["workers"])[0]
    take(world, worker)
    world.call("a", "destroy", agent=worker)
    world.advance(0)
    first, second = reports(world, begun)
    assert (first["status"], second["state"]) == ("failed", "given")
    assert second["worker"] not in ("", worker)
    work(world, begun, 1)
    assert batch(world, begun)["state"] == "done"


def test_a_batch_whose_named_workers_are_gone_ends(world: World) -> None:
    begun = run(world, 3, agents=["a2"])
    world.call("a", "destroy", agent="a2")
    world.advance(0)
    assert batch(world, begun)["state"] == "done"
    assert {report["status"] for report in reports(world, begun)} == {"failed"}


def test_a_worker_that_was_moved_away_gets_nothing_more_and_its_task_is_not_ended(
    world: World,
) -> None:
    begun = run(world, 4, agents=["a2", "a1"])
    still_running, other = texts(begun["tasks"])[:2]
    world.call("operator", "move", agent="a1", parent="b")
    world.call("operator", "move", agent="a2", parent="b")
    params = [report["worker"] for report in reports(world, begun)]
    for name in params[:2]:
        take(world, str(name))
    end(world, still_running)
    world.advance(0)
    assert [report["worker"] for report in reports(world, begun)] == [*params[:2], "", ""]
    world.call("a", "stop_work", reason="enough", grace=0)
    world.advance(60)
    assert state(world, other) == "in_progress"
    assert batch(world, begun)["state"] == "stopped"


def test_a_batch_ends_with_its_owner(world: World) -> None:
    begun = run(world, 3, concurrency=1)
    world.call("root", "destroy", agent="a", recursive=True)
    world.advance(0)
    batches = world.ledger.plans.batches
    assert batches.require(str(begun["batch"])).state == "stopped"
    assert batches.count_open_items(str(begun["batch"])) == 0


def test_idle_children_of_the_same_kind_are_taken_first(world: World) -> None:
    first = run(world, 1, keep=True)
    work(world, first, 0)
    second = run(world, 2, reuse=True)
    assert texts(first["workers"])[0] in texts(second["workers"])
    assert second["worker_count"] == 2


def test_callers_that_may_see_a_batch(world: World) -> None:
    begun = run(world, 1)
    asked = {who: world.fault(who, "get_batch", batch=begun["batch"]) for who in
             ("a", "root", "operator", "a1", "b1")}  # fmt: skip
    assert asked == {"a": "", "root": "", "operator": "", "a1": "NotAllowed", "b1": "NotFound"}
    listed = rows(world.call("root", "list_batches", agent="a")["batches"])
    assert names(listed, "batch") == [begun["batch"]]


def test_the_same_key_runs_one_batch(world: World) -> None:
    one, two = (run(world, 2, idempotency_key="k") for _ in range(2))
    assert one == two
    assert len(rows(world.call("a", "list_batches")["batches"])) == 1


def test_a_worker_runs_no_workers_not_even_tasks(world: World) -> None:
    """Row Q24: it may still create a `task`."""
    world.grow("root/hand:worker")
    with pytest.raises(NotAllowed, match="cannot run workers: hand is a worker itself"):
        run(world, 1, caller="hand", spawn={"role": "task"})
    world.call("hand", "spawn", name="once", role="task")


def test_a_long_batch_is_shown_in_pages(world: World) -> None:
    begun = run(world, 5, concurrency=1)
    page = world.call("a", "get_batch", batch=begun["batch"], limit=2)
    assert (len(rows(page["reports"])), page["next"]) == (2, "2")
    rest = world.call("a", "get_batch", batch=begun["batch"], after="2")
    assert (names(rest["reports"], "item"), rest["next"]) == ([2, 3, 4], None)
