"""What an assigner hears of its tasks is so: each change once, and nothing that is not true."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.tasks import finish, give, read, state
from fixtures.world import World, rows, world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long import times

from hive_core.errors import HiveError, Internal
from hive_core.model.work.task import AWAITING, FINALS, TaskState

LINES = {item.value: item.value.replace("_", " ") for item in TaskState}


def news(world: World, name: str) -> list[str]:
    """The letters about its tasks that it has not read."""
    world.advance(0.2)
    return [str(message["body"]) for message in world.mail(name) if message["kind"] == "tasks"]


def untrue(world: World, body: str) -> list[str]:
    """Lines of a letter that say of a task what is not so."""
    result = []
    for line in body.splitlines():
        task = world.ledger.tasks.get(line.partition(" ")[0])
        if task is not None:
            said = line.rpartition("] ")[2] if "] " in line else line
            if not said.startswith(LINES[task.state.value]):
                result.append(line)
    return result


def plan(world: World, task: str) -> str:
    made = world.call("a1", "create_plan", task=task, steps=[{"title": "dig"}])
    return str(made["plan"])


def test_an_end_that_the_operator_has_seen_is_no_news_and_other_ends_stay(world: World) -> None:
    first, second = (give(world, "operator", "a1") for _ in range(2))
    assert world.call("operator", "clear_inbox", tasks=[first])["cleared"] == 0  # it has not ended
    for task in (first, second):
        finish(world, "a1", task)
    (body,) = news(world, "operator")
    assert first in body
    assert world.call("operator", "clear_inbox", tasks=[first])["cleared"] == 1
    (body,) = news(world, "operator")
    assert first not in body
    assert second in body
    assert world.call("operator", "clear_inbox", tasks=[second, first, "?"])["cleared"] == 1
    assert news(world, "operator") == []
    assert rows(world.call("operator", "todo")["todo"]) == []


def test_an_end_of_a_task_of_another_agent_stays_in_its_news(world: World) -> None:
    task = give(world, "a", "a1")
    finish(world, "a1", task)
    assert world.call("operator", "clear_inbox", tasks=[task])["cleared"] == 0
    assert task in news(world, "a")[0]


DECIDES = {
    "approve_plan": ({}, "in_progress"),
    "reject_plan": ({"reason": "smaller"}, "in_progress"),
}


@pytest.mark.parametrize("who", ["operator", "root"])
@pytest.mark.parametrize("how", DECIDES)
def test_the_assigner_hears_that_another_agent_decided_on_its_plan(
    world: World, how: str, who: str
) -> None:
    more, then = DECIDES[how]
    task = give(world, "a", "a1", plan_required=True)
    id_ = plan(world, task)
    assert "awaiting plan approval" in news(world, "a")[0]
    read(world, "a")
    world.call(who, how, task=task, plan=id_, **more)
    (letter,) = news(world, "a")
    assert (untrue(world, letter), state(world, task)) == ([], then)
    assert id_ in letter


def test_the_assigner_hears_that_another_agent_answered_its_question(world: World) -> None:
    task = give(world, "a", "a1")
    asked = world.call("a1", "ask", task=task, items=["how?"])["question"]
    read(world, "a")
    world.call("operator", "answer", question=asked, answers=["so"])
    (letter,) = news(world, "a")
    assert untrue(world, letter) == []
    assert f"{task} a1 [mend it] in progress" in letter


@pytest.mark.parametrize("who", ["operator", "root", "a"])
def test_a_letter_that_asks_for_a_decision_goes_when_that_is_made(world: World, who: str) -> None:
    task = give(world, "a", "a1", plan_required=True)
    id_ = plan(world, task)
    assert [message["kind"] for message in world.mail("a")] == ["tasks", "plan_submitted"]
    world.call(who, "approve_plan", task=task, plan=id_)
    world.advance(0.2)
    kinds = [message["kind"] for message in world.mail("a")]
    assert kinds == ([] if who == "a" else ["tasks"]), "its own step is no news"


def test_a_newer_plan_and_the_end_of_its_task_take_the_letter_back_too(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    first, second = plan(world, task), plan(world, task)
    (letter,) = [message for message in world.mail("a") if message["kind"] == "plan_submitted"]
    assert second in str(letter["body"])
    assert f'"plan": "{first}"' not in str(letter["body"])
    world.call("a1", "finish_task", task=task, status="failed", summary="no")
    assert [message["kind"] for message in world.mail("a")] == ["tasks"]


def test_what_was_not_read_is_written_anew_when_it_is_not_so_any_more(world: World) -> None:
    """Also by a step that gives no news."""
    done, waits = (
        give(world, "a", "a1"),
        str(world.call("a", "assign_task", agent="a2", description="y")["task"]),
    )
    finish(world, "a1", done)
    assert f"{waits} a2 [y] queued" in news(world, "a")[0]
    world.call("a2", "begin_task", task=waits)
    (letter,) = news(world, "a")
    assert f"{waits} a2 [y] in progress" in letter
    assert f"{done} a1 [mend it] done" in letter


def test_an_agent_that_loses_a_task_reads_nothing_of_it_any_more(world: World) -> None:
    task = give(world, "a", "a1", plan_required=True)
    plan(world, task)
    world.call("operator", "move", agent="a1", parent="b")
    assert news(world, "a") == []
    assert [message["kind"] for message in world.mail("a")] == []
    assert "yours now" in news(world, "root")[0]


# Who does what to a task of a's that a1 has; the agent whose machine ends does nothing itself.
STEPS = (
    ("a1", "begin"), ("a1", "report"), ("a1", "finish"), ("a1", "plan"), ("a1", "ask"),
    *((who, event) for who in ("a", "root", "operator")
      for event in ("approve", "reject", "answer", "cancel")),
    ("daemon", "crash"), ("daemon", "stop"), ("daemon", "time"), ("daemon", "up"),
)  # fmt: skip


def act(world: World, who: str, event: str, task: str) -> None:
    """One step, where it is allowed now."""
    plans = rows(world.call("operator", "list_plans", task=task)["plans"])
    newest = plans[0]["plan"] if plans else ""
    asked = [str(item.id) for item in world.ledger.questions.open_of_task(task)]
    calls: dict[str, tuple[str, dict[str, object]]] = {
        "begin": ("begin_task", {}), "report": ("report_progress", {"text": "at it"}),
        "finish": ("finish_task", {"status": "success", "summary": "x"}),
        "plan": ("create_plan", {"steps": [{"title": "dig"}]}), "ask": ("ask", {"items": ["how?"]}),
        "approve": ("approve_plan", {"plan": newest}), "cancel": ("cancel_task", {}),
        "reject": ("reject_plan", {"plan": newest, "reason": "no"}),
    }  # fmt: skip
    if event == "answer":
        for item_ in asked:
            world.call(who, "answer", question=item_, answers=["so"])
    elif event == "crash":
        end_machine(world, "a1", 137, returns=True)
    elif event == "stop":
        world.call("operator", "stop", agent="a1")
        end_machine(world, "a1")
    elif event == "up":
        world.call("operator", "start", agent="a1")
        start_machines(world, "a1")
    elif event == "time":
        world.advance(31)
    else:
        operation, params = calls[event]
        world.call(who, operation, task=task, **params)


@pytest.mark.sized
@settings(
    max_examples=times(60, 2000), deadline=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.booleans()), min_size=3, max_size=14),
    again=st.integers(0, 2),
)
def test_the_assigner_always_knows_the_state_of_its_task(
    steps: list[tuple[tuple[str, str], bool]], again: int
) -> None:
    """What it has not read is true; what it read is true, or it is told, once for each change.

    It knows what it did itself. That work was begun, or is being stopped, it is not told.
    """
    with world(None, "root/a", "a/a1") as made:
        start_machines(made, "a", "a1")
        wish = {"agent": "a1", "description": "x", "deadline": 30, "requeue": again}
        task = str(made.call("a", "assign_task", **wish)["task"])
        known = state(made, task)
        for (who, event), reads in steps:
            before = state(made, task)
            with suppress(HiveError):
                try:
                    act(made, who, event, task)
                except Internal as error:
                    raise AssertionError(error) from error
            letters, now = news(made, "a"), state(made, task)
            assert len(letters) <= 1
            assert [line for letter in letters for line in untrue(made, letter)] == []
            if who == "a" and now != before:
                known = now
            if reads:
                read(made, "a")
                named = [
                    f"{task} a1 [x] " in letter.partition("\n\nopen:")[0] for letter in letters
                ]
                known = now if any(named) else known
                quiet = {TaskState.QUEUED, TaskState.IN_PROGRESS, TaskState.STOPPING}
                same = known == now or {TaskState(known), TaskState(now)} <= quiet
                assert same, (known, now, event)
                if now in (*FINALS, *AWAITING):
                    assert known == now
                assert news(made, "a") == [], "it is told once"
