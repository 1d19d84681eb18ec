"""Row Q44: the result of a task with criteria is checked, then judged; no failure accepts it."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine
from fixtures.tasks import finish, give, state, take
from fixtures.world import World, rows

from hive_core.model.work.judgement import SuccessCriteria, find_unmet_check
from hive_core.model.work.task import ResultStatus, TaskRequest, TaskResult

TEXT = {"text": "The door closes."}


def verdicts(world: World, task: str) -> list[tuple[object, ...]]:
    """The verdicts on a task, without their times."""
    listed = rows(world.call("operator", "get_task", task=task)["judgements"])
    return [tuple(row[name] for name in ("attempt", "verdict", "judge", "feedback"))
            for row in listed]  # fmt: skip


def requests(world: World, agent: str) -> list[str]:
    return [str(row["body"]) for row in take(world, agent) if row["kind"] == "judge"]


@pytest.fixture(name="task")
def _task(world: World) -> str:
    """A task of `a` with criteria, whose result `a1` has delivered."""
    task = give(world, "a", "a1", criteria=TEXT)
    finish(world, "a1", task, summary="closed", data={"n": 1})
    return task


def test_a_report_is_a_delivery_until_the_assigner_accepts_it(world: World, task: str) -> None:
    later = give(world, "a", "a2", needs=[task])
    assert (state(world, task), state(world, later)) == ("awaiting_judgement", "waiting")
    shown = world.call("a", "get_task", task=task)
    assert shown["delivered"]["summary"] == "closed"  # type: ignore[index]  # an object
    assert shown["undecided"] is True
    said = world.call("a", "judge_task", task=task, verdict="accept", attempt=1)
    assert (said["state"], said["verdict"]) == ("done", "accept")
    result = world.ledger.tasks.require(task).result
    assert result == TaskResult(ResultStatus.SUCCESS, "closed", {"n": 1})
    assert state(world, later) == "queued"
    assert world.ledger.tasks.judgements.delivery(task) is None


def test_a_retry_gives_the_work_back_with_the_feedback(world: World, task: str) -> None:
    world.call("a", "judge_task", task=task, verdict="retry", feedback="it is ajar\ntask: x")
    assert state(world, task) == "queued"
    (letter,) = [str(row["body"]) for row in take(world, "a1") if row["kind"] == "task"]
    assert "attempt: 2\n" in letter
    assert "its result has to meet:\n> The door closes." in letter
    assert "the result of attempt 1 was not accepted:\n> it is ajar\n> task: x" in letter
    finish(world, "a1", task, summary="closed now")
    fault = world.fault("a", "judge_task", task=task, verdict="accept", attempt=1)
    assert fault == "Conflict"
    world.call("a", "judge_task", task=task, verdict="accept", attempt=2)
    assert verdicts(world, task) == [
        (1, "retry", "a", "it is ajar\ntask: x"), (2, "accept", "a", "")
    ]  # fmt: skip


def test_work_is_given_back_a_bounded_number_of_times(world: World) -> None:
    """A model's retry beyond the bound leaves the decision to the assigner; nothing accepts."""
    task = give(world, "a", "a1", criteria={**TEXT, "retries": 1})
    replies = []
    for _ in range(2):
        take(world, "a1")
        finish(world, "a1", task)
        replies.append(world.call(
            "a", "judge_task", task=task, verdict="retry", feedback="no", by_model=True
        ))  # fmt: skip
    said = replies[-1]
    assert (said["verdict"], said["state"], said["retries"]) == (
        "escalate", "awaiting_judgement", 0
    )  # fmt: skip
    assert world.fault("a", "judge_task", task=task, verdict="retry") == "LimitReached"
    assert "as often as its criteria allow: no" in world.ledger.tasks.require(task).why
    assert verdicts(world, task)[-1][:3] == (2, "escalate", "model")


def test_the_daemon_checks_before_a_judge_is_asked(world: World) -> None:
    task = give(world, "a", "a1", criteria={"data": ["url"], "artifacts": 1, "retries": 1})
    finish(world, "a1", task, data={"url": "https://x"}, artifacts=["none"])
    assert state(world, task) == "queued"
    stored = world.call("a1", "store_artifact", name="log", text="all")["id"]
    take(world, "a1")
    finish(world, "a1", task, data={"url": "https://x"}, artifacts=[stored])
    assert state(world, task) == "done"
    assert [row[:3] for row in verdicts(world, task)] == [
        (1, "retry", "check"), (2, "accept", "check")
    ]  # fmt: skip
    assert "names 0 artifacts" in str(verdicts(world, task)[0][3])


def test_a_check_that_fails_for_good_never_accepts(world: World) -> None:
    task = give(world, "a", "a1", criteria={"data": ["url"], "retries": 0})
    finish(world, "a1", task)
    assert state(world, task) == "awaiting_judgement"
    assert "its data has no url" in world.ledger.tasks.require(task).why


def test_a_report_of_failure_needs_no_verdict(world: World) -> None:
    task = give(world, "a", "a1", criteria=TEXT)
    finish(world, "a1", task, "failed")
    assert state(world, task) == "done"


@pytest.mark.parametrize("caller", ["a1", "a2", "b"])
def test_neither_the_assignee_nor_others_judge(world: World, task: str, caller: str) -> None:
    fault = world.fault(caller, "judge_task", task=task, verdict="accept")
    assert fault in ("NotAllowed", "NotFound")
    assert state(world, task) == "awaiting_judgement"


def test_one_between_assigner_and_assignee_does_not_judge(world: World) -> None:
    task = give(world, "root", "a1", criteria=TEXT)
    finish(world, "a1", task)
    assert world.fault("a", "judge_task", task=task, verdict="accept") == "NotAllowed"
    assert world.fault("root", "judge_task", task=task, verdict="accept") == ""


@pytest.mark.parametrize("caller", ["root", "operator"])
def test_those_above_the_assigner_judge(world: World, task: str, caller: str) -> None:
    world.call(caller, "judge_task", task=task, verdict="accept")
    assert state(world, task) == "done"


def test_an_attempt_keeps_its_newest_escalation_alone(world: World, task: str) -> None:
    """Otherwise an assigner could store as much feedback as it likes."""
    for feedback in ("unsure", "still unsure"):
        world.call("a", "judge_task", task=task, verdict="escalate", feedback=feedback)
    assert verdicts(world, task) == [(1, "escalate", "a", "still unsure")]


def test_a_task_that_does_not_wait_for_a_verdict_is_not_judged(world: World) -> None:
    task = give(world, "a", "a1", criteria=TEXT)
    assert world.fault("a", "judge_task", task=task, verdict="accept") == "Conflict"


def test_the_agent_is_free_and_may_end_while_its_result_is_judged(world: World, task: str) -> None:
    other = give(world, "a", "a1")
    assert state(world, other) == "in_progress"
    end_machine(world, "a1", 1)
    assert state(world, task) == "awaiting_judgement"
    world.call("a", "judge_task", task=task, verdict="accept")
    assert state(world, task) == "done"


@pytest.mark.parametrize("how", ["destroy", "cancel"])
def test_an_end_without_a_verdict_keeps_the_result_as_not_accepted(
    world: World, task: str, how: str
) -> None:
    if how == "destroy":
        world.call("a", "destroy", agent="a1")
    else:
        world.call("a", "cancel_task", task=task)
    world.run()
    result = world.ledger.tasks.require(task).result
    assert result is not None
    assert result.status is not ResultStatus.SUCCESS
    assert result.summary == "closed"
    assert "its result was not accepted" in result.error


def test_the_operator_is_told_of_a_result_that_waits_for_it(world: World) -> None:
    task = give(world, "operator", "a1", criteria=TEXT)
    finish(world, "a1", task)
    assert world.ledger.tasks.require(task).why == "waits for the verdict of the operator"
    listed = rows(world.call("operator", "todo")["todo"])
    assert ("judgement", task) in [(row["kind"], row["id"]) for row in listed]


def test_criteria_without_a_word_are_refused(world: World) -> None:
    fault = world.fault("a", "assign_task", agent="a1", description="x", criteria={"retries": 1})
    assert fault == "InvalidArgument"


def test_data_that_is_null_is_missing() -> None:
    criteria = SuccessCriteria.of(TaskRequest("", criteria={"data": ["x"]}))
    assert criteria is not None
    assert find_unmet_check(criteria, TaskResult(ResultStatus.SUCCESS, data={"x": None}), 0)
    assert not find_unmet_check(criteria, TaskResult(ResultStatus.SUCCESS, data={"x": 0}), 0)
