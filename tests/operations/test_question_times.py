"""Deadlines, days of silence, set clocks and daemons that were away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.questions import DAY, answer, ask, escalate, hops, letters, row
from fixtures.world import World, rows, world

from hive_core.model.config.settings import Settings


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(None, "root/a", "a/a1", "a1/a11", "root/b") as made:
        yield made


def with_default(world: World, caller: str, deadline: float, *defaults: str | None) -> str:
    items = [{"prompt": f"{at}?", "default": item} for at, item in enumerate(defaults)]
    return str(world.call(caller, "ask", items=items, deadline=deadline)["question"])


def states(world: World, name: str) -> list[tuple[object, object]]:
    return [(letter["question"], letter["state"]) for letter in letters(world, name, "answer")]


def test_at_the_deadline_the_defaults_count_and_both_sides_are_told(world: World) -> None:
    id_ = with_default(world, "a11", 60, "yes", "no")
    world.advance(59.9)
    assert row(world, id_)["state"] == "open"
    world.advance(0.2)
    (got,) = letters(world, "a11", "answer")
    assert (got["state"], got["by"], got["answers"]) == ("defaulted", "daemon", ["yes", "no"])
    assert [letter["state"] for letter in letters(world, "a1", "question_ended")] == ["defaulted"]
    assert world.fault("a1", "answer", question=id_, answers=["a", "b"]) == "Conflict"


@pytest.mark.parametrize(("defaults", "answers"), [((None,), []), (("x", None), ["x", None])])
def test_where_no_default_is_the_question_expires(
    world: World, defaults: tuple[str | None, ...], answers: list[str | None]
) -> None:
    with_default(world, "a11", 60, *defaults)
    world.advance(61)
    (got,) = letters(world, "a11", "answer")
    assert (got["state"], got["answers"]) == ("expired", answers)


def test_a_default_without_a_deadline_makes_no_sense(world: World) -> None:
    items = [{"prompt": "x", "default": "y"}]
    assert world.fault("a11", "ask", items=items) == "InvalidArgument"


def test_the_operator_hears_that_a_question_ended_without_it(world: World) -> None:
    world.call("root", "ask", items=[{"prompt": "x"}], deadline=60)
    world.advance(61)
    assert [letter["state"] for letter in letters(world, "operator", "question_ended")] == [
        "expired"
    ]


def test_three_days_of_silence_with_a_restart_in_between_come_out_right(world: World) -> None:
    """An answer may take days, and nothing is held open for it."""
    soon = with_default(world, "a11", 2 * DAY, "the default")
    late = with_default(world, "a11", 4 * DAY, "unused")
    ever = ask(world, "a11", to="operator")
    burns = escalate(world, "a11", "critical")
    at = world.clock.now() + 2.5 * DAY
    world.call("a11", "remind", body="by the clock on the wall", at=at)
    world.call("a11", "remind", body="after a while", **{"in": 2.5 * DAY})
    world.restart(3 * DAY)
    world.advance(200)
    assert states(world, "a11") == [(soon, "defaulted")]
    assert [row(world, item)["state"] for item in (late, ever, burns)] == ["open"] * 3
    assert row(world, burns)["to"] == "operator"
    assert len(letters(world, "a11", "reminder")) == 2
    answer(world, "a1", late, "in time")
    answer(world, "operator", ever, "three days later")
    answer(world, "operator", burns, "put out")
    assert states(world, "a11")[1:] == [
        (late, "answered"), (ever, "answered"), (burns, "answered"),
    ]  # fmt: skip
    world.restart(3 * DAY)
    world.advance(1)
    assert len(letters(world, "a11", "answer")) == 4


def test_a_clock_that_is_set_by_three_days_ends_nothing_that_lasts(world: World) -> None:
    """R16: what was asked for in seconds goes by seconds; a time of day by the clock."""
    id_ = with_default(world, "a11", DAY, "x")
    burns = escalate(world, "a11", "critical")
    world.call("a11", "remind", body="relative", **{"in": DAY})
    world.call("a11", "remind", body="absolute", at=world.clock.now() + DAY)
    world.set_clock(3 * DAY)
    assert [row(world, item)["state"] for item in (id_, burns)] == ["open", "open"]
    assert row(world, burns)["to"] == "a1"
    (come,) = letters(world, "a11", "reminder")
    assert str(world.mail("a11")[-1]["body"]).endswith("absolute")
    assert come["made"] == world.clock.now()
    world.advance(61)
    assert row(world, burns)["to"] == "a"
    world.advance(DAY - 62)
    assert states(world, "a11") == []
    world.advance(2)
    assert states(world, "a11") == [(id_, "defaulted")]
    assert len(letters(world, "a11", "reminder")) == 2


def test_a_clock_that_is_set_back_makes_no_caller_wait_longer(world: World) -> None:
    id_ = with_default(world, "a11", 60, "x")
    at = world.clock.now() + 60
    world.call("a11", "remind", body="at its time of day", at=at)
    world.set_clock(-3 * DAY)
    world.advance(61)
    assert states(world, "a11") == [(id_, "defaulted")]
    assert letters(world, "a11", "reminder") == []
    world.advance(3 * DAY)
    assert len(letters(world, "a11", "reminder")) == 1


def test_an_answer_waits_until_there_is_room_in_the_inbox() -> None:
    settings = Settings.model_validate({"limits": {"inbox_count": 2}})
    with world(settings, "root/a", "a/a1") as made:
        id_ = ask(made, "a1")
        fill(made, "a1")
        answer(made, "a", id_, "at last")
        assert letters(made, "a1", "answer") == []
        empty(made, "a1")
        made.advance(61)
        assert states(made, "a1") == [(id_, "answered")]
        empty(made, "a1")
        made.advance(600)
        assert letters(made, "a1", "answer") == []


def test_what_waits_on_a_full_inbox_is_told_later_and_a_question_to_a_full_one_fails_at_once() -> (
    None
):
    settings = Settings.model_validate({"limits": {"inbox_count": 2}})
    with world(settings, "root/a", "a/a1") as made:
        fill(made, "a")
        assert made.fault("a1", "ask", items=[{"prompt": "x"}]) == "InboxFull"
        assert made.ledger.questions.all_open() == []
        empty(made, "a")
        id_ = ask(made, "a1")
        fill(made, "root")
        made.call("a", "relay_question", question=id_)
        assert row(made, id_)["to"] == "root"
        empty(made, "root")
        made.advance(61)
        assert [letter["question"] for letter in letters(made, "root", "question")] == [id_]


def test_a_debt_to_a_destroyed_agent_is_cancelled() -> None:
    settings = Settings.model_validate({"limits": {"inbox_count": 2}})
    with world(settings, "root/a", "a/a1") as made:
        id_ = ask(made, "a1")
        fill(made, "a1")
        answer(made, "a", id_, "x")
        made.call("operator", "destroy", agent="a1")
        made.advance(61)
        assert made.ledger.questions.due_retries(made.clock.now() + DAY, 10) == []


def fill(world: World, name: str) -> None:
    """Until the inbox takes nothing more, not even from the daemon."""
    size, _ = world.ledger.messages.size(world.uuid(name))
    for _ in range(size, 4):
        world.call("operator", "remind", to=name, body="x", **{"in": 1})
    world.advance(2)


def empty(world: World, name: str) -> None:
    messages = rows(world.call(name, "recv", max=100)["messages"])
    if messages:
        world.call(name, "ack", ids=[message["id"] for message in messages])


def test_an_ended_question_can_be_read_for_a_month_and_then_is_forgotten(world: World) -> None:
    id_ = ask(world, "a11")
    answer(world, "a1", id_, "x")
    world.advance(29 * DAY)
    assert row(world, id_)["state"] == "answered"
    world.advance(2 * DAY)
    assert world.fault("a11", "get_question", question=id_) == "NotFound"
    assert world.ledger.connection.value("SELECT COUNT(*) FROM hops") == 0


def test_an_agent_taken_out_by_hand_leaves_nothing_that_waits(world: World) -> None:
    """A commit of the operator's in the meta repo: no `destroy` was called."""
    mine, others = ask(world, "a1"), ask(world, "a11")
    world.call("a1", "remind", body="x", **{"in": 60})
    hive = world.hive.without("a1")
    with world.ledger.transaction():
        head = world.repo.write(hive, world.hive, "by hand", {})
        world.ledger.head = head
    world.restart()
    world.advance(0)
    assert row(world, others)["to"] == "a"
    assert hops(world, others)[-1] == ("a", "passed")
    assert world.ledger.questions.require(mine).state == "cancelled"
    assert not world.ledger.reminders.any


def test_nothing_is_looked_at_anew_while_the_tree_is_the_same(world: World) -> None:
    ask(world, "a11")
    world.call("operator", "spawn", name="new", parent="b")
    world.advance(0)
    before = len(world.events())
    world.advance(DAY)
    assert len(world.events()) == before
