"""A task that needs more information: it waits for the answer, and goes on with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.questions import answer, ask, escalate, letters, row
from fixtures.world import World, world

CANCELS = ("cancelled", "expired", "defaulted")


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(None, "root/a", "a/a1", "a/a2") as made:
        yield made


@pytest.fixture(name="task")
def _task(world: World) -> str:
    """One that a1 has begun."""
    id_ = world.call("a", "assign_task", agent="a1", description="paint it")["task"]
    world.call("a1", "recv")
    return str(id_)


def state(world: World, task: str) -> object:
    (result,) = [
        item for item in world.ledger.tasks.page(None, None, 10) if item.id == task
    ]  # fmt: skip
    return result.state.value


def test_a_task_waits_for_more_information_until_the_answer(world: World, task: str) -> None:
    """K16, T5: needs-input pauses and resumes with the answer."""
    id_ = ask(world, "a1", "Which colour?", task=task)
    assert state(world, task) == "awaiting_more_information"
    assert letters(world, "a", "question")[0]["task"] == task
    answer(world, "a", id_, "green")
    assert state(world, task) == "in_progress"
    assert letters(world, "a1", "answer")[0]["task"] == task


def test_it_goes_on_when_the_last_of_its_questions_has_ended(world: World, task: str) -> None:
    first, second = ask(world, "a1", task=task), ask(world, "a1", task=task)
    answer(world, "a", second, "x")
    assert state(world, task) == "awaiting_more_information"
    answer(world, "a", first, "x")
    assert state(world, task) == "in_progress"


@pytest.mark.parametrize("how", CANCELS)
def test_it_goes_on_however_the_question_ends(world: World, task: str, how: str) -> None:
    item = {"prompt": "x", **({"default": "d"} if how == "defaulted" else {})}
    params = {} if how == "cancelled" else {"deadline": 5.0}
    id_ = str(world.call("a1", "ask", items=[item], task=task, **params)["question"])
    if how == "cancelled":
        world.call("a", "cancel_question", question=id_)
    world.advance(6)
    assert row(world, id_)["state"] == how
    assert state(world, task) == "in_progress"


def test_an_asker_that_cancels_the_question_of_a_task_has_mail_for_who_works_on_it(
    world: World, task: str
) -> None:
    """Its conversation about the task waits, and another one of it may have cancelled."""
    id_ = ask(world, "a1", task=task)
    world.call("a1", "cancel_question", question=id_)
    assert state(world, task) == "in_progress"
    (letter,) = letters(world, "a1", "answer")
    assert (letter["task"], letter["state"]) == (task, "cancelled")


def test_an_asker_that_cancels_an_escalation_has_no_mail(world: World, task: str) -> None:
    """A session does so when its turn goes on: the mail would begin another one."""
    id_ = escalate(world, "a1", "error", task=task)
    world.call("a1", "cancel_question", question=id_)
    assert state(world, task) == "in_progress"
    assert letters(world, "a1", "answer") == []


def test_an_escalation_parks_a_task_as_well(world: World, task: str) -> None:
    """Q27."""
    id_ = escalate(world, "a1", "error", task=task)
    assert state(world, task) == "awaiting_more_information"
    answer(world, "a", id_, "skip it")
    assert state(world, task) == "in_progress"


def test_the_questions_of_a_task_that_ends_are_taken_back(world: World, task: str) -> None:
    id_ = ask(world, "a1", task=task)
    world.call("a", "cancel_task", task=task)
    world.call("a1", "finish_task", task=task, status="stopped", summary="")
    assert row(world, id_)["state"] == "cancelled"
    assert str(row(world, id_)["reason"]).startswith(f"task {task} has ended")
    assert state(world, task) == "cancelled"


def test_a_question_while_a_plan_waits_leaves_the_task_where_it_is(world: World, task: str) -> None:
    world.call("a1", "create_plan", task=task, steps=[{"title": "one"}])
    id_ = ask(world, "a1", task=task)
    assert state(world, task) == "awaiting_plan_approval"
    answer(world, "a", id_, "x")
    assert state(world, task) == "awaiting_plan_approval"


def test_only_for_one_s_own_task_that_is_in_work(world: World, task: str) -> None:
    items = [{"prompt": "x"}]
    assert world.fault("a2", "ask", items=items, task=task) == "NotFound"
    assert world.fault("a1", "ask", items=items, task="0123456789ab") == "NotFound"
    world.call("a1", "finish_task", task=task, status="success", summary="done")
    assert world.fault("a1", "ask", items=items, task=task) == "Conflict"


def test_three_days_and_a_restart_later_the_task_goes_on(world: World, task: str) -> None:
    """The clock of a task stands still while it waits."""
    id_ = ask(world, "a1", task=task)
    world.restart(3 * 86_400.0)
    world.advance(1)
    assert state(world, task) == "awaiting_more_information"
    answer(world, "a", id_, "at last")
    assert state(world, task) == "in_progress"
