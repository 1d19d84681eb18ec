"""Q20, Q22, K32: batches and waits through whatever happens: each task of a batch ends once."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from fixtures.tasks import end, give, take
from fixtures.world import Reply, World, fields, rows, texts

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, AgentStarted, emit
from hive_core.broker.operation import Result
from hive_core.model.agents.machine import DesiredState
from hive_core.operations.tasks.steps import execution_lock

FINALS = ("finish", "fail", "drop", "stopped", "expired")
COUNT, CAP = 9, 3


def crash(world: World, name: str) -> None:
    """A worker's machine ends; it is up again when somebody wants it to."""
    uuid = world.uuid(name)

    def act(call: Call) -> Record[Result]:
        call.ledger.runs.want(uuid, DesiredState.STOPPED, call.now, reason="ended with 1")
        ended = AgentEnded(
            uuid, name, 1, "ended with 1", clean=False, asked=False, wanted="stopped"
        )
        emit(call, ended)
        run = call.ledger.runs.get(uuid)
        if run is not None and run.wanted is DesiredState.RUNNING:
            emit(call, AgentStarted(uuid, name, run.nonce))
        return Record(Result())

    world.broker.perform("exit", act)
    world.run()


def batch_reply(world: World, batch: object) -> Reply:
    return world.call("operator", "get_batch", batch=batch)


def assigned_reports(reports: Reply) -> list[Reply]:
    return [report for report in rows(reports["reports"]) if report["state"] == "given"]


def happen(world: World, draw: random.Random, batch: Reply) -> None:
    """One thing that may happen to a batch."""
    some = assigned_reports(batch)
    match draw.choice(["finish"] * 5 + ["crash", "destroy", "restart", "jump", "time"]):
        case "finish" if some:
            row = draw.choice(some)
            take(world, str(row["worker"]))
            end(world, str(row["task"]), draw.choice(["success", "failed", "partial"]))
        case "crash" if some:
            row = draw.choice(some)
            take(world, str(row["worker"]))
            crash(world, str(row["worker"]))
        case "destroy" if some:
            world.call("a", "destroy", agent=str(draw.choice(some)["worker"]))
        case "restart":
            world.restart(off=draw.choice([0.0, 1.0]))
        case "jump":
            world.set_clock(draw.choice([-1e8, 1e8]))
        case _:
            world.advance(1)
    world.advance(0)


@pytest.mark.parametrize("number", range(12))
def test_whatever_happens_each_task_of_a_batch_ends_once_and_the_batch_with_the_last(
    world: World, number: int
) -> None:
    draw = random.Random(number)  # noqa: S311 - what happens, not a secret
    tasks = [{"task": f"sum {n}", "title": f"t{n}"} for n in range(COUNT)]
    begun = world.call(
        "a", "run_parallel_workers", tasks=tasks, concurrency=CAP, requeue=2, timeout=80_000.0
    )
    wait = world.call("a", "wait_for", tasks=[text for text in texts(begun["tasks"]) if text],
                      until="all", deadline=90_000.0)["wait_id"]  # fmt: skip
    for _ in range(400):
        result = batch_reply(world, begun["batch"])
        assert len(assigned_reports(result)) <= CAP
        if result["state"] != "running":
            break
        happen(world, draw, result)
    result = batch_reply(world, begun["batch"])
    assert (result["state"], result["open"]) == ("done", 0)
    reports = rows(result["reports"])
    assert [report["title"] for report in reports] == [f"t{n}" for n in range(COUNT)]
    assert all(report["status"] for report in reports)
    events = [event for event in world.events() if event["kind"] == "task"]
    ends = Counter(fields(event)["task"] for event in events if event["operation"] in FINALS)
    assert set(ends.values()) <= {1}
    mail = [message["kind"] for message in world.mail("a")]
    assert mail.count("batch_done") == 1
    over = world.ledger.plans.waits.require(str(wait))
    assert over.state == "met"
    made = [name for name in world.hive.specs if name.startswith("w-")]
    assert not made


def test_plans_waits_and_the_lock_are_there_after_a_restart(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    steps = [{"title": "x"}]
    plan = world.call("a1", "create_plan", task=task, steps=steps)["plan"]
    wait = world.call("a", "wait_for", agents=["a2"], deadline=500.0)["wait_id"]
    world.restart(off=100.0)
    assert execution_lock(world.ledger, world.uuid("a1"))
    assert [wait["id"] for wait in rows(world.call("a", "list_waits")["waits"])] == [wait]
    world.call("a2", "send", to="a", body="x")
    assert wait in [message["wait_id"] for message in take(world, "a")]
    world.call("a", "approve_plan", task=task, plan=plan)
    world.restart(off=0.0)
    assert world.fault("a", "approve_plan", task=task, plan=plan) == "Conflict"
    assert execution_lock(world.ledger, world.uuid("a1")) == ""


def test_a_deadline_that_passed_while_no_daemon_ran_ends_the_wait_at_its_start(
    world: World,
) -> None:
    wait = world.call("a", "wait_for", deadline=50.0)["wait_id"]
    world.restart(off=100.0)
    world.advance(0)
    assert [
        message["wait_id"] for message in take(world, "a") if message["kind"] == "wait_over"
    ] == [wait]


def test_a_task_of_a_batch_may_be_said_as_its_text_alone(world: World) -> None:
    begun = world.call("a", "run_parallel_workers", tasks=["sum 1 2", {"task": "sum 3"}])
    assert begun["worker_count"] == 2
