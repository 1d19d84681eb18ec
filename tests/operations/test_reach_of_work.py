"""How far work reaches: agents that were moved apart, and who gets which notice."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.questions import ask, letters
from fixtures.tasks import end, give
from fixtures.world import World, fields, names, rows

CRON = {"when": {"cron": "* * * * *"}, "action": {"kind": "message", "text": "look"}}


def trigger_states(world: World, name: str) -> dict[object, object]:
    result = rows(world.call("operator", "list_triggers", agent=name)["triggers"])
    return {trigger["name"]: trigger["enabled"] for trigger in result}


def test_an_agent_that_stops_its_own_work_keeps_the_triggers_that_others_set_for_it(
    world: World,
) -> None:
    world.call("operator", "grant_capability", agent="a1", capability="trigger")
    world.call("operator", "set_trigger", name="above", agent="a1", **CRON)
    world.call("a1", "set_trigger", name="own", **CRON)
    world.call("operator", "set_trigger", name="below", agent="a11", **CRON)
    world.call("a1", "stop_work", reason="enough")
    assert trigger_states(world, "a1") == {"above": True, "own": False}
    assert trigger_states(world, "a11") == {"below": False}
    world.call("a1", "stop_work", agent="a1", reason="enough")
    assert trigger_states(world, "a1")["above"]
    world.call("root", "stop_work", agent="a1", reason="enough")
    assert not trigger_states(world, "a1")["above"]


def test_a_reminder_does_not_come_to_an_agent_that_was_moved_away(world: World) -> None:
    world.call("a", "remind", to="a1", body="obey", **{"in": 60.0})
    world.call("root", "remind", to="a1", body="go on", **{"in": 60.0})
    world.call("operator", "move", agent="a1", parent="b")
    world.advance(61)
    assert [letter["by"] for letter in letters(world, "a1", "reminder")] == ["root"]
    refused = [event for event in world.events() if event["allowed"] is False]
    assert "a may not remind a1" in str(refused[-1]["reason"])
    assert fields(refused[-1])["by"] == "a"
    assert world.call("a1", "list_reminders")["reminders"] == []


def test_a_page_of_tasks_goes_on_behind_none_that_the_caller_does_not_see(world: World) -> None:
    hidden, seen = give(world, "b", "b1"), give(world, "a", "a1")
    after = [world.ask("a", "list_tasks", after=task) for task in (hidden, "0" * 12)]
    words = [str(call.replies[-1]["error"]) for call in after]
    assert words[0] == words[1]
    world.call("root", "destroy", agent="a1", recursive=True)
    assert world.fault("a", "list_tasks", after=seen) == ""


def test_a_page_of_questions_goes_on_behind_none_that_the_caller_does_not_see(
    world: World,
) -> None:
    hidden, mine = ask(world, "b1", "what?"), ask(world, "a1", "what?")
    assert world.fault("a", "list_questions", after=hidden) == "NotFound"
    assert world.fault("a", "list_questions", after=mine) == ""
    assert world.fault("a1", "list_questions", which="mine", after=mine) == ""


@for_each(
    "operation, params",
    [
        ("list_queues", {"after": "9" * 20}),
        ("list_triggers", {"after": "9" * 200}),
        ("list_artifacts", {"after": "9" * 20}),
        ("get_usage", {"since": 1e300}),
    ],
)
def test_a_number_beyond_all_bounds_is_a_fault_of_the_caller(
    world: World, operation: str, params: dict[str, object]
) -> None:
    assert world.fault("a", operation, **params) == "InvalidArgument"
    assert names(world.call("a", "list_queues")["queues"]) == []


def test_what_an_agent_that_was_moved_has_ended_is_not_gone_on_with_by_its_old_parent(
    world: World,
) -> None:
    task = give(world, "a", "a1")
    end(world, task, "failed")
    world.call("operator", "move", agent="a1", parent="b")
    assert world.fault("a", "resume_task", task=task, guidance="obey") == "NotFound"
    assert world.fault("a", "inject_message", task=task, body="obey") == "NotFound"
    assert world.fault("b", "resume_task", task=task, guidance="try again") == ""


def test_what_one_agent_sends_does_not_keep_another_from_asking(world: World) -> None:
    while not world.fault("a2", "send", to="a", body="x" * 60_000):
        pass
    assert world.fault("a1", "ask", items=["may I?"]) == ""


@pytest.mark.parametrize("ends", [["success"], []])
def test_the_end_of_an_agent_that_was_moved_away_is_not_told_to_its_assigner(
    world: World, ends: list[str]
) -> None:
    task = give(world, "a", "a1")
    for status in ends:
        end(world, task, status)
        assert world.call("a", "wait_tasks", tasks=[task])["done"] is True
    world.call("operator", "move", agent="a1", parent="b")
    for operation, how in (("wait_tasks", {"wait": 0}), ("wait_for", {})):
        assert world.fault("a", operation, tasks=[task], **how) == "NotFound"
    assert world.fault("b", "wait_tasks", tasks=[task], wait=0) == ""
    assert world.fault("a1", "wait_tasks", tasks=[task], wait=0) == ""


def test_an_assigner_of_a_task_to_its_present_sibling_may_still_request_its_end(
    world: World,
) -> None:
    task = give(world, "a1", "a11")
    end(world, task)
    world.call("operator", "move", agent="a11", parent="a")
    assert world.call("a1", "wait_tasks", tasks=[task])["done"] is True


def test_the_end_of_what_a_destroyed_agent_had_to_do_is_told_to_those_above(world: World) -> None:
    task = give(world, "a1", "a11")
    world.call("operator", "destroy", agent="a11")
    for name in ("a1", "a", "root"):
        (row,) = rows(world.call(name, "wait_tasks", tasks=[task])["tasks"])
        assert row["status"] == "failed"
    assert world.fault("b", "wait_tasks", tasks=[task]) == "NotFound"


def test_a_call_that_waits_for_a_task_ends_when_its_agent_is_moved_out_of_sight(
    world: World,
) -> None:
    task = give(world, "a", "a1")
    held = world.ask("a", "wait_tasks", tasks=[task], wait=50)
    world.call("operator", "move", agent="a1", parent="b")
    end(world, task)
    assert str(held.replies[-1]["error"]).endswith("NotFound")


def test_a_waiter_for_a_task_that_moved_out_of_sight_learns_only_that_it_is_over(
    world: World,
) -> None:
    task = give(world, "a", "a1")
    world.call("a", "wait_for", tasks=[task])
    world.call("operator", "move", agent="a1", parent="b")
    end(world, task, summary="a secret of b")
    (notice,) = [letter for letter in world.mail("a") if letter["kind"] == "wait_over"]
    assert f'{{"{task}": "unseen"}}' in str(notice["body"])
    assert "a secret of b" not in str(world.mail("a"))
