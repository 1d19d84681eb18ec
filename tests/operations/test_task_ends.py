"""Each task ends once: by its report, by who takes it back, by the clock, or with its agent."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine, run_of, start_machines
from fixtures.tasks import finish, give, phase, state, take
from fixtures.world import World, rows

from hive_core.errors import Conflict, NotAllowed
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.task import Task, TaskResult


def row(world: World, task: str) -> Task:
    return world.ledger.tasks.require(task)


def result(world: World, task: str) -> TaskResult:
    result = row(world, task).result
    assert result is not None
    return result


def notices(world: World, agent: str, kind: str) -> list[str]:
    return [str(message["body"]) for message in take(world, agent) if message["kind"] == kind]


def test_the_report_is_the_end_and_a_record(world: World) -> None:
    """Row Q22."""
    task, other = give(world, "a", "a1"), give(world, "a", "a2")
    world.advance(12.5)
    said = world.call(
        "a1", "finish_task", task=task, status="partial",
        summary="half of it", data={"n": 1}, artifacts=["art"], tokens=70, cost=9,
    )  # fmt: skip
    assert said["state"] == "done"
    assert said["open"] == 1
    assert said["result"] == {
        "worker": "a1", "worker_id": world.uuid("a1"), "status": "partial",
        "summary": "half of it", "data": {"n": 1}, "error": "", "artifacts": ["art"],
        "duration": 12.5, "tokens": 70, "cost": 9, "source": "reported",
        "attempts": 1,
    }  # fmt: skip
    assert state(world, other) == "in_progress"


def test_a_late_report_meets_the_first_one(world: World) -> None:
    """Row Q22: exactly one; row T13."""
    task = give(world, "a", "a1")
    finish(world, "a1", task, summary="first")
    with pytest.raises(Conflict, match="it has ended as success") as late:
        finish(world, "a1", task, "failed", summary="second")
    first = late.value.fields["result"]
    assert isinstance(first, dict)
    assert first["summary"] == "first"
    assert result(world, task).summary == "first"


@pytest.mark.parametrize("caller", ["a", "root", "operator"])
def test_only_the_assignee_reports(world: World, caller: str) -> None:
    """Row T9."""
    task = give(world, "a", "a1")
    for operation, more in (("finish_task", {"status": "success", "summary": ""}),
                            ("report_progress", {"text": "x"})):  # fmt: skip
        with pytest.raises(NotAllowed, match="only the agent itself may do this"):
            world.call(caller, operation, task=task, **more)
    assert state(world, task) == "in_progress"


def test_what_is_not_begun_has_nothing_to_report(world: World) -> None:
    first = give(world, "a", "a1")
    second = give(world, "a", "a1", needs=[first])
    with pytest.raises(Conflict, match="it is waiting, and not offered to you"):
        finish(world, "a1", second)


def test_progress_is_seen_and_comes_at_a_bounded_rate(world: World) -> None:
    """Row K16."""
    task = give(world, "a", "a1")
    seen = world.ask("a", "watch_task", task=task, more=True)
    world.call("a1", "report_progress", task=task, text="reading", percent=30)
    assert [(page["percent"], page["progress"]) for page in seen.pages] == [
        (None, ""), (30, "reading"),
    ]  # fmt: skip
    faults = {world.fault("a1", "report_progress", task=task, text=str(at)) for at in range(40)}
    assert faults == {"", "LimitReached"}
    world.advance(1)
    assert world.fault("a1", "report_progress", task=task, text="later") == ""
    assert notices(world, "a", "tasks") == []


def test_a_watch_ends_with_the_task(world: World) -> None:
    task = give(world, "a", "a1")
    seen = world.ask("a1", "watch_task", task=task, more=True)
    finish(world, "a1", task)
    assert not seen.pending
    assert [page["state"] for page in seen.pages] == ["in_progress", "done"]


def test_a_task_that_was_not_taken_is_cancelled_at_once(world: World) -> None:
    task = str(world.call("a", "assign_task", agent="a1", description="x")["task"])
    assert world.call("a", "cancel_task", task=task)["state"] == "cancelled"
    assert world.mail("a1") == []
    assert result(world, task).status.value == "stopped"


def test_work_that_is_cancelled_is_stopped_and_what_there_was_is_kept(world: World) -> None:
    """Row K14: cancel really stops work."""
    task = give(world, "root", "a1")
    seen = world.ask("a1", "watch_task", task=task, more=True)
    assert world.call("a", "cancel_task", task=task, reason="not needed")["state"] == "stopping"
    assert seen.pages[-1]["state"] == "stopping"
    (body,) = notices(world, "a1", "task_stop")
    assert body.startswith(f"task: {task}\nstatus: stopped\n")
    finish(world, "a1", task, "partial", summary="a third", data={"n": 3})
    result_ = result(world, task)
    assert (state(world, task), result_.status.value) == ("cancelled", "stopped")
    assert (result_.summary, result_.data, result_.error) == ("a third", {"n": 3}, "not needed")
    assert "cancelled, stopped: a third" in notices(world, "root", "tasks")[0]


def test_a_checker_that_does_not_stop_has_its_container_ended(world: World) -> None:
    """Row K14: what else it had begun is lost with it."""
    start_machines(world, "a1")
    task, beside = give(world, "a", "a1"), give(world, "a", "a1", requeue=1)
    nonce = run_of(world, "a1").nonce
    world.call("a", "cancel_task", task=task)
    world.advance(9.9)
    assert run_of(world, "a1").nonce == nonce
    world.advance(0.2)
    run = run_of(world, "a1")
    assert (run.nonce, run.wanted, run.grace) == (nonce + 1, DesiredState.RUNNING, 0.0)
    end_machine(world, "a1", 137, returns=True)
    assert state(world, task) == "cancelled"
    assert phase(world, beside) == "offered"
    assert row(world, beside).attempt == 2


def test_a_cancel_takes_all_its_parts_along_and_says_what_it_hit(world: World) -> None:
    """A stop of a parent stops its subtree, and its result names the tasks."""
    whole = give(world, "root", "a")
    part = give(world, "a", "a1")
    inner = give(world, "a1", "a11")
    other = give(world, "root", "a2", part_of="-")
    hit = rows(world.call("root", "cancel_task", task=whole)["hit"])
    assert [(hit_["task"], hit_["agent"], hit_["state"]) for hit_ in hit] == [
        (whole, "a", "stopping"), (part, "a1", "stopping"), (inner, "a11", "stopping"),
    ]  # fmt: skip
    assert state(world, other) == "in_progress"
    world.advance(60)
    for name in ("a", "a1", "a11"):
        end_machine(world, name, 137, returns=True)
    assert {state(world, item) for item in (whole, part, inner)} == {"cancelled"}


def test_an_end_cannot_be_taken_back(world: World) -> None:
    task = give(world, "a", "a1")
    finish(world, "a1", task)
    with pytest.raises(Conflict, match="it has ended as success"):
        world.call("a", "cancel_task", task=task)


def test_the_soft_deadline_asks_and_the_hard_one_stops(world: World) -> None:
    """Row Q23."""
    task = give(world, "a", "a1", soft=60, deadline=100)
    world.advance(59)
    assert notices(world, "a1", "task_report") == []
    world.advance(2)
    (body,) = notices(world, "a1", "task_report")
    assert body.startswith(f"task: {task}\n")
    world.advance(40)
    assert state(world, task) == "stopping"
    finish(world, "a1", task, "partial", summary="most of it")
    result_ = result(world, task)
    assert (state(world, task), result_.status.value, result_.summary) == (
        "done", "timeout", "most of it",
    )  # fmt: skip
    assert result_.error == "its time is over: 100 s"


def test_time_does_not_run_while_another_agent_has_to_answer(world: World) -> None:
    """An answer may take days."""
    task = give(world, "a", "a1", deadline=100)
    world.advance(40)
    asked = world.call("a1", "ask", task=task, items=[{"prompt": "Which one?"}])
    assert state(world, task) == "awaiting_more_information"
    world.advance(3 * 86_400)
    assert state(world, task) == "awaiting_more_information"
    world.call("a", "answer", question=asked["question"], answers=["the first"])
    assert state(world, task) == "in_progress"
    world.advance(59)
    assert state(world, task) == "in_progress"
    world.advance(2)
    assert state(world, task) == "stopping"


def test_a_task_without_a_deadline_has_none(world: World) -> None:
    task = give(world, "a", "a1", deadline=0)
    world.advance(10 * 86_400)
    assert state(world, task) == "in_progress"


def test_a_crash_ends_the_task_with_the_reason(world: World) -> None:
    """Row T13."""
    start_machines(world, "a1")
    task = give(world, "a", "a1")
    after = give(world, "a", "a2", needs=[task])
    end_machine(world, "a1", 1)
    assert (state(world, task), state(world, after)) == ("done", "done")
    assert result(world, task).status.value == "failed"
    assert result(world, task).error == "a1 ended: ended with 1"
    assert f"{task} a1 [mend it] done, failed: a1 ended" in notices(world, "a", "tasks")[-1]


def test_a_crashed_worker_is_started_again_for_a_task_that_has_another_try(world: World) -> None:
    """Row T13: the task is requeued as many times as its assigner set."""
    start_machines(world, "a1")
    task = give(world, "a", "a1", requeue=2)
    for attempt in (2, 3):
        nonce = run_of(world, "a1").nonce
        end_machine(world, "a1", 1)
        assert state(world, task) == "queued"
        assert run_of(world, "a1").nonce == nonce + 1
        start_machines(world, "a1")
        (letter,) = [message for message in take(world, "a1") if message["kind"] == "task"]
        assert f"attempt: {attempt}" in str(letter["body"])
    end_machine(world, "a1", 1)
    assert state(world, task) == "done"
    assert result(world, task).status.value == "failed"


def test_a_task_that_its_first_part_has_begun_leaves_no_letter_of_a_lost_attempt(
    world: World,
) -> None:
    start_machines(world, "a", "a1")
    words = {"agent": "a", "description": "x", "requeue": 1}
    task = str(world.call("root", "assign_task", **words)["task"])
    give(world, "a", "a1")
    assert state(world, task) == "in_progress"
    end_machine(world, "a", 1)
    start_machines(world, "a")
    (letter,) = [message for message in take(world, "a") if message["kind"] == "task"]
    assert "attempt: 2" in str(letter["body"])


def test_an_agent_that_may_not_start_it_any_more_has_no_other_attempt(world: World) -> None:
    """The assigner's rights as they are, never the daemon's."""
    world.call("operator", "spawn", name="boss", parent="root", role="lead")
    world.call("operator", "spawn", name="hand", parent="boss", role="worker")
    start_machines(world, "hand")
    task = give(world, "boss", "hand", requeue=1)
    world.call("operator", "move", agent="hand", parent="b")
    assert row(world, task).assigner == world.uuid("root")
    end_machine(world, "hand", 1)
    assert state(world, task) == "queued"  # it is root's now, who may
    assert row(world, task).assigner == world.uuid("root")


def test_a_stop_ends_what_was_begun_and_keeps_what_was_not(world: World) -> None:
    """What an agent has not taken is like its mail: it waits."""
    start_machines(world, "a1")
    begun = give(world, "a", "a1")
    fresh = str(world.call("a", "assign_task", agent="a1", description="y")["task"])
    world.call("a", "stop", agent="a1")
    end_machine(world, "a1")
    assert (state(world, begun), state(world, fresh)) == ("done", "queued")
    assert row(world, fresh).attempt == 0
    world.call("a", "start", agent="a1")
    start_machines(world, "a1")
    assert (phase(world, fresh), row(world, fresh).attempt) == ("offered", 1)


def test_a_restart_that_takes_away_access_counts_as_no_attempt(world: World) -> None:
    """Attack 58: what it worked on is handed back, and offered to its next start."""
    start_machines(world, "a1")
    begun = give(world, "a", "a1")
    world.call("operator", "move", agent="a2", parent="b")
    (revocation,) = world.ledger.revocations.open()
    with world.ledger.transaction():
        uuid, now = world.uuid("a1"), world.clock.now()
        fresh = world.ledger.runs.want(uuid, DesiredState.RUNNING, now, fresh=True)
        world.ledger.revocations.set_nonces(revocation.id, {uuid: fresh.nonce})
        world.ledger.revocations.advance(revocation.id, "restart", now)
    end_machine(world, "a1", 1, returns=True)
    assert state(world, begun) == "queued"
    start_machines(world, "a1")
    assert (phase(world, begun), row(world, begun).attempt) == ("offered", 1)


def test_a_crash_for_good_ends_what_was_not_begun_too(world: World) -> None:
    """No caller waits for ever for an agent that stays down."""
    start_machines(world, "a1")
    ids = [
        str(world.call("a", "assign_task", agent="a1", description="y")["task"]) for _ in range(8)
    ]
    end_machine(world, "a1", 1)
    assert {state(world, id_) for id_ in ids} == {"done"}
    assert world.mail("a1") == []


def test_one_that_comes_back_finds_what_it_had_not_taken(world: World) -> None:
    start_machines(world, "a1")
    task = str(world.call("a", "assign_task", agent="a1", description="y")["task"])
    end_machine(world, "a1", 1, returns=True)
    start_machines(world, "a1")
    assert (phase(world, task), row(world, task).attempt) == ("offered", 1)
    assert len(take(world, "a1")) == 1


def test_a_destroyed_agent_leaves_no_open_task(world: World) -> None:
    """Row T13."""
    begun = give(world, "a", "a1", requeue=3)
    waiting = give(world, "a", "a1", needs=[begun])
    world.call("a", "destroy", agent="a1", recursive=True)
    assert {state(world, item) for item in (begun, waiting)} == {"done"}
    assert result(world, begun).error == "a1 was destroyed"
    task = world.call("a", "get_task", task=begun)["task"]
    assert isinstance(task, dict)
    assert task["agent"] == "a1"


def test_of_a_destroyed_agent_one_end_may_be_that_of_another(world: World) -> None:
    """Both would be ended: by the destroy itself, and by the failure of the first."""
    first = give(world, "a", "a1")
    chain = [first, give(world, "a", "a1", needs=[first])]
    chain.append(give(world, "a1", "a11", part_of=first))
    world.call("a", "destroy", agent="a1", recursive=True)
    assert {state(world, id_) for id_ in chain} == {"done"}


def test_of_a_crashed_agent_one_end_may_be_that_of_another(world: World) -> None:
    start_machines(world, "a1")
    first = give(world, "a", "a1")
    second = give(world, "a", "a1", needs=[first])
    end_machine(world, "a1", 1)
    assert {state(world, item) for item in (first, second)} == {"done"}


def test_the_tasks_of_a_destroyed_assigner_go_to_its_parent(world: World) -> None:
    task = give(world, "a", "a1")
    world.call("root", "destroy", agent="a")
    assert row(world, task).assigner == world.uuid("root")
    assert notices(world, "root", "tasks") != []
    world.advance(1)
    finish(world, "a1", task)
    assert f"{task} a1 [mend it] done, success" in notices(world, "root", "tasks")[0]


def test_an_assigner_that_lost_the_agent_loses_its_task_too(world: World) -> None:
    """An agent that no longer sees another agent does not decide about its work."""
    task = give(world, "a", "a1")
    world.call("operator", "move", agent="a1", parent="b")
    assert row(world, task).assigner == world.uuid("root")
    assert "a1 was moved: its task is yours now" in notices(world, "root", "tasks")[0]
    world.advance(1)
    assert world.fault("a", "get_task", task=task) == "NotFound"
    assert world.fault("a", "cancel_task", task=task) == "NotFound"
    finish(world, "a1", task, summary="secret of b")
    assert notices(world, "a", "tasks") == []
    assert "secret of b" in notices(world, "root", "tasks")[0]


def test_the_parts_of_what_failed_are_stopped(world: World) -> None:
    whole = give(world, "root", "a")
    part = give(world, "a", "a1")
    finish(world, "a", whole, "failed", summary="no")
    assert state(world, part) == "stopping"


def test_what_ended_long_ago_is_forgotten_and_nothing_else(world: World) -> None:
    whole, old = give(world, "root", "a"), give(world, "a", "a2", part_of="-")
    part = give(world, "a", "a1")
    finish(world, "a2", old)
    finish(world, "a", whole)
    world.advance(100)
    new = give(world, "a", "a2", part_of="-")
    finish(world, "a2", new)
    with world.ledger.transaction():
        assert world.ledger.tasks.prune(world.clock.now() - 50) == 1
    assert world.ledger.tasks.get(old) is None
    assert world.ledger.tasks.last_events(old, 1000) == []
    assert all(world.ledger.tasks.get(item) for item in (whole, part, new))


def test_a_clock_that_is_set_takes_deadlines_along(world: World) -> None:
    task = give(world, "a", "a1", deadline=100)
    with world.ledger.transaction():
        world.ledger.shifts.move(86_400.0, world.clock.now() + 86_400, 1.0)
    result = row(world, task)
    assert result.hard_at is not None
    assert result.hard_at - result.created == pytest.approx(100)
    assert result.hard_at > world.clock.now() + 86_400
