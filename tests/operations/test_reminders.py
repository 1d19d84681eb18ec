"""Reminders: to oneself or below, at a time or after a while, once, whatever happened meanwhile."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.questions import DAY, letters
from fixtures.world import World, names, rows, world

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.settings import Settings


def remind(world: World, caller: str, **more: object) -> str:
    params: dict[str, object] = {"body": "look again", "in": 60.0, **more}
    if "at" in more:
        del params["in"]
    return str(world.call(caller, "remind", **params)["reminder"])


def ids(world: World, caller: str, **more: object) -> list[object]:
    return names(world.call(caller, "list_reminders", **more)["reminders"], "id")


def test_it_comes_once_at_its_time_with_the_name_of_its_setter(world: World) -> None:
    id_ = remind(world, "a", to="a1")
    world.advance(59)
    assert letters(world, "a1", "reminder") == []
    world.advance(2)
    world.advance(DAY)
    (come,) = letters(world, "a1", "reminder")
    assert (come["reminder"], come["by"]) == (id_, "a")
    letter = world.mail("a1")[-1]
    assert str(letter["body"]).partition("\n")[2] == "look again"
    assert letter["from"] == "daemon"
    assert ids(world, "a1") == []


def test_many_at_the_same_moment_all_come_in_the_order_of_their_making(world: World) -> None:
    made = [remind(world, "a") for _ in range(60)]
    world.advance(61)
    assert [letter["reminder"] for letter in letters(world, "a", "reminder")] == made


@pytest.mark.parametrize("off", [61.0, 30 * DAY])
def test_one_that_was_due_while_no_daemon_ran_comes_at_the_next_start(
    world: World, off: float
) -> None:
    remind(world, "a")
    world.restart(off)
    world.advance(0)
    assert len(letters(world, "a", "reminder")) == 1
    world.restart(off)
    assert len(letters(world, "a", "reminder")) == 1


def test_it_comes_to_an_agent_that_is_stopped(world: World) -> None:
    world.call("operator", "stop", agent="a1")
    remind(world, "a", to="a1")
    world.advance(61)
    assert len(letters(world, "a1", "reminder")) == 1


WHO = {"a1": "", "a": "", "root": "", "operator": "", "a11": "NotAllowed", "a2": "NotAllowed",
       "b1": "NotFound"}  # fmt: skip


@for_each("caller, fault", WHO.items())
def test_callers_that_may_set_a_reminder_and_take_it_back(
    world: World, caller: str, fault: str
) -> None:
    """H11: any ancestor of the agent that gets it."""
    assert world.fault(caller, "remind", to="a1", body="x", **{"in": 5.0}) == fault
    id_ = remind(world, "a1")
    assert world.fault(caller, "list_reminders", agent="a1") == fault
    assert world.fault(caller, "cancel_reminder", reminder=id_) == (
        "NotFound" if caller == "b1" else fault
    )
    assert (id_ in ids(world, "a1")) == bool(fault)


def test_the_operator_reminds_itself(world: World) -> None:
    id_ = remind(world, "operator", to="operator")
    assert ids(world, "operator") == [id_]
    world.advance(61)
    assert len(letters(world, "operator", "reminder")) == 1
    assert world.fault("a", "remind", to="operator", body="x", **{"in": 5.0}) == "NotAllowed"


@for_each(
    "when",
    [{}, {"in": 5.0, "at": 2e9}, {"at": 1.0}, {"at": 1e12}, {"in": 0.0}, {"in": -1.0}],
)
def test_a_time_that_makes_no_sense_is_refused(world: World, when: dict[str, float]) -> None:
    assert world.fault("a", "remind", body="x", **when) == "InvalidArgument"


def test_one_that_was_taken_back_does_not_come(world: World) -> None:
    id_ = remind(world, "a")
    world.call("root", "cancel_reminder", reminder=id_)
    world.advance(61)
    assert letters(world, "a", "reminder") == []
    assert world.fault("a", "cancel_reminder", reminder=id_) == "NotFound"


def test_an_agent_has_so_many_that_wait() -> None:
    settings = Settings.model_validate({"talk": {"reminders": 2}})
    with world(settings, "root/a") as made:
        remind(made, "a")
        remind(made, "a")
        assert made.fault("a", "remind", body="x", **{"in": 5.0}) == "LimitReached"
        remind(made, "root", to="a")
        made.advance(61)
        remind(made, "a")


def test_they_are_listed_in_the_order_in_which_they_come_page_by_page(world: World) -> None:
    late, soon = remind(world, "a", **{"in": 90.0}), remind(world, "a", **{"in": 5.0})
    first = world.call("a", "list_reminders", limit=1)
    assert names(first["reminders"], "id") == [soon]
    second = world.call("a", "list_reminders", limit=1, after=first["next"])
    assert (names(second["reminders"], "id"), second["next"]) == ([late], None)
    assert world.fault("a", "list_reminders", after="no such") == "NotFound"


def test_the_operator_sees_those_of_all_in_the_order_in_which_they_come(world: World) -> None:
    late, soon = remind(world, "a", **{"in": 90.0}), remind(world, "operator", to="a1")
    own = remind(world, "operator", **{"in": 70.0})
    assert ids(world, "operator") == [soon, own, late]
    assert ids(world, "operator", agent="operator") == [own]
    pages, after = [], None
    for _ in range(3):
        page = world.call("operator", "list_reminders", limit=1, after=after)
        pages += names(page["reminders"], "id")
        after = page["next"]
    assert (pages, after) == ([soon, own, late], None)
    assert world.fault("a1", "list_reminders", after=late) == "NotFound"


def test_those_of_a_destroyed_agent_go_with_it_and_those_it_asked_for_stay(world: World) -> None:
    remind(world, "a", to="a1")
    remind(world, "a1")
    world.call("operator", "destroy", agent="a1")
    remind(world, "a", to="a2")
    world.call("operator", "destroy", agent="a")
    world.advance(61)
    assert [letter["by"] for letter in letters(world, "a2", "reminder")] == ["a"]
    assert not world.ledger.reminders.any


def test_a_full_inbox_gets_it_when_there_is_room() -> None:
    settings = Settings.model_validate({"limits": {"inbox_count": 2}})
    with world(settings, "root/a") as made:
        for _ in range(5):  # the daemon gets twice as much in
            remind(made, "a")
        made.advance(61)
        assert len(letters(made, "a", "reminder")) == 4
        messages = rows(made.call("a", "recv", max=100)["messages"])
        made.call("a", "ack", ids=[message["id"] for message in messages])
        made.advance(61)
        assert len(letters(made, "a", "reminder")) == 1


def test_the_coming_is_an_event_that_says_how_late_it_was(world: World) -> None:
    remind(world, "a")
    world.restart(100.0)
    world.advance(0)
    (event,) = [event for event in world.events() if event["kind"] == "reminder"]
    assert (event["operation"], event["target"]) == ("come", "a")
    assert event["fields"] == {
        "reminder": letters(world, "a", "reminder")[0]["reminder"], "target_name": "a", "by": "a",
        "caller_name": "daemon", "late": 40.0,
    }  # fmt: skip


def test_it_wakes_a_sleeper_that_mail_wakes(world: World) -> None:
    spec: AgentSpec = world.hive.spec("a1")
    assert not spec.wakes
    world.call("operator", "spawn", name="s", parent="a", wakes=True)
    world.call("operator", "sleep", agent="s")
    remind(world, "a", to="s")
    world.advance(61)
    run = world.ledger.runs.get(world.uuid("s"))
    assert run is not None
    assert run.wanted == "running"
