"""A begun task of an agent with a runtime outlives its machine while the daemon starts it again."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine, run_of, start_machines
from fixtures.tasks import finish, give, state
from fixtures.world import Reply, World, rows

from hive_core.model.agents.machine import State

REASON = "killed with KILL"


@pytest.fixture(name="sessions")
def _sessions(world: World) -> World:
    """`s` has a runtime, `p` is any program; both run, and `a` gives them tasks."""
    world.call("operator", "spawn", name="s", parent="a", runtime="builtin")
    world.call("operator", "spawn", name="p", parent="a", parallel=1)
    start_machines(world, "s", "p")
    return world


def attempt(world: World, task: str) -> int:
    return world.ledger.tasks.require(task).attempt


def history(world: World, task: str) -> list[object]:
    return [event["event"] for event in rows(world.call("a", "get_task", task=task)["history"])]


def result(world: World, task: str) -> Reply:
    row = world.call("a", "get_task", task=task)["task"]
    assert isinstance(row, dict)
    report = row["result"]
    assert isinstance(report, dict)
    return report


def test_a_crash_after_which_the_daemon_starts_it_again_ends_nothing(sessions: World) -> None:
    task, other = give(sessions, "a", "s"), give(sessions, "a", "p")
    for agent in ("s", "p"):
        end_machine(sessions, agent, 137, returns=True)
    assert state(sessions, task) == "in_progress"
    assert state(sessions, other) == "done"  # row T13, as for every other program
    start_machines(sessions, "s")
    assert (state(sessions, task), attempt(sessions, task)) == ("in_progress", 1)
    assert history(sessions, task)[-1] == "interrupt"
    finish(sessions, "s", task)
    assert result(sessions, task)["status"] == "success"
    assert result(sessions, task)["attempts"] == 1


def test_it_is_not_offered_a_second_task_meanwhile(sessions: World) -> None:
    """At most one at once where a runtime is set and nothing is said."""
    task = give(sessions, "a", "s")
    sessions.call("a", "assign_task", agent="s", description="next")
    end_machine(sessions, "s", 137, returns=True)
    start_machines(sessions, "s")
    assert not sessions.mail("s")
    finish(sessions, "s", task)
    assert [letter["kind"] for letter in sessions.mail("s")] == ["task"]


def test_the_clock_of_the_task_goes_on_while_it_is_down(sessions: World) -> None:
    task = give(sessions, "a", "s", deadline=30)
    end_machine(sessions, "s", 137, returns=True)
    sessions.advance(31)
    assert state(sessions, task) == "stopping"
    sessions.advance(11)
    assert result(sessions, task)["status"] == "timeout"


@pytest.mark.parametrize("requeue", [0, 1])
def test_where_it_stays_down_the_task_ends_or_is_queued_again(
    sessions: World, requeue: int
) -> None:
    """Row T13 stands: parked, or a role that does not restart."""
    task = give(sessions, "a", "s", requeue=requeue)
    end_machine(sessions, "s", 137, returns=True)
    end_machine(sessions, "s", 137, returns=False)
    if requeue:
        assert (state(sessions, task), attempt(sessions, task)) == ("queued", 1)
    else:
        assert (state(sessions, task), result(sessions, task)["status"]) == ("done", "failed")


@pytest.mark.parametrize("operation", ["stop", "kill", "sleep"])
def test_a_stop_of_the_running_agent_ends_it(sessions: World, operation: str) -> None:
    task = give(sessions, "a", "s")
    sessions.call("a", operation, agent="s")
    assert state(sessions, task) == "in_progress"  # until its machine has ended
    end_machine(sessions, "s")
    assert result(sessions, task)["status"] == "failed"


@pytest.mark.parametrize("requeue", [0, 1])
def test_the_undecided_plan_of_an_agent_that_goes_to_sleep_is_void(
    sessions: World, requeue: int
) -> None:
    """Row K13: an agent that sleeps has no task. The next attempt plans anew."""
    task = give(sessions, "a", "s", plan_required=True, requeue=requeue)
    plan = sessions.call("s", "create_plan", task=task, steps=["look", "mend"])["plan"]
    sessions.call("a", "sleep", agent="s")
    end_machine(sessions, "s")
    assert state(sessions, task) == ("queued" if requeue else "done")
    (row,) = rows(sessions.call("a", "list_plans", task=task)["plans"])
    assert (row["plan"], row["state"]) == (plan, "void")
    why = "its task was queued again: s was ended: sleeps" if requeue else "its task has ended"
    assert str(row["reason"]).startswith(why)
    assert [row for row in sessions.mail("a") if row["kind"] == "plan_submitted"] == []
    assert sessions.fault("a", "approve_plan", task=task, plan=plan) == "Conflict"


@pytest.mark.parametrize("operation", ["stop", "kill", "sleep"])
def test_a_stop_in_the_pause_before_the_next_start_ends_it(sessions: World, operation: str) -> None:
    """No end of a machine follows that could end it."""
    task = give(sessions, "a", "s")
    end_machine(sessions, "s", 137, returns=True)
    sessions.call("a", operation, agent="s")
    assert result(sessions, task)["status"] == "failed"


def test_a_stopping_task_ends_with_the_machine(sessions: World) -> None:
    task = give(sessions, "a", "s")
    sessions.call("a", "cancel_task", task=task)
    end_machine(sessions, "s", 137, returns=True)
    assert state(sessions, task) == "cancelled"


def test_a_destroyed_agent_leaves_no_open_task(sessions: World) -> None:
    task = give(sessions, "a", "s")
    end_machine(sessions, "s", 137, returns=True)
    sessions.call("a", "destroy", agent="s")
    assert state(sessions, task) == "done"


def test_a_restart_of_the_daemon_in_the_pause_changes_nothing(sessions: World) -> None:
    task = give(sessions, "a", "s")
    end_machine(sessions, "s", 137, returns=True)
    sessions.kill()
    assert state(sessions, task) == "in_progress"
    start_machines(sessions, "s")
    finish(sessions, "s", task)


def test_a_restart_by_an_ancestor_keeps_it(sessions: World) -> None:
    task = give(sessions, "a", "s")
    nonce = run_of(sessions, "s").nonce
    sessions.call("a", "restart", agent="s")
    assert run_of(sessions, "s").nonce > nonce
    end_machine(sessions, "s", 0, returns=True)
    assert state(sessions, task) == "in_progress"


# tasks.begin_within


def test_a_task_that_is_not_begun_is_told_to_its_giver_once_and_stays(sessions: World) -> None:
    task = str(sessions.call("a", "assign_task", agent="s", description="x")["task"])
    sessions.advance(299)
    assert not sessions.mail("a")
    sessions.advance(2)
    (letter,) = sessions.mail("a")
    assert "s has not begun it for 300 s and reads no mail" in str(letter["body"])
    assert state(sessions, task) == "queued"
    assert history(sessions, task)[-1] == "unbegun"
    sessions.advance(3000)
    assert len(sessions.mail("a")) == 1
    sessions.call("s", "begin_task", task=task)
    finish(sessions, "s", task)
    assert result(sessions, task)["status"] == "success"


def test_an_agent_that_reads_or_works_is_not_complained_about(sessions: World) -> None:
    sessions.call("operator", "spawn", name="two", parent="a", parallel=2, runtime="builtin")
    start_machines(sessions, "two")
    give(sessions, "a", "two", deadline=0)  # works on this one
    sessions.call("a", "assign_task", agent="two", description="waits")
    sessions.call("a", "assign_task", agent="s", description="x")
    for _ in range(10):
        sessions.advance(100)
        sessions.call("s", "recv", only="other")
    assert not sessions.mail("a")
    sessions.advance(700)
    assert len(sessions.mail("a")) == 1  # s has stopped reading


def test_an_agent_that_does_not_run_is_not_complained_about(sessions: World) -> None:
    sessions.call("a", "assign_task", agent="s", description="x")
    end_machine(sessions, "s", 137, returns=True)
    sessions.seen.states[sessions.uuid("s")] = State.FAILED
    sessions.advance(1000)
    assert not sessions.mail("a")


# report_activity


def activity(world: World, agent: str) -> object:
    return next(
        row["activity"] for row in rows(world.call("operator", "list_agents")["agents"])
        if row["name"] == agent
    )  # fmt: skip


def test_a_session_that_waits_is_blocked_until_it_says_otherwise(sessions: World) -> None:
    give(sessions, "a", "s")
    assert activity(sessions, "s") == "running"
    said = sessions.call("s", "report_activity", blocked=True, reason="the budget of a is used up")
    assert said == {"activity": "blocked"}
    assert activity(sessions, "s") == "blocked"
    status = sessions.call("a", "get_worker_status", worker="s", focus="issues")
    assert "says that it is blocked: the budget of a is used up" in str(status["text"])
    sessions.restart()
    assert activity(sessions, "s") == "blocked"
    sessions.call("s", "report_activity", blocked=False)
    assert activity(sessions, "s") == "running"


def test_a_new_machine_is_not_blocked(sessions: World) -> None:
    sessions.call("s", "report_activity", blocked=True, reason="x")
    end_machine(sessions, "s", 137, returns=True)
    start_machines(sessions, "s")
    assert activity(sessions, "s") == "idle"
    assert sessions.fault("operator", "report_activity", blocked=True) == "Conflict"
