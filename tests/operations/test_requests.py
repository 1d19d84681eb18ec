"""K19: a request and its answer have one correlation, and nothing is held open for long."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import Reply, World, rows

from hive_core.errors import NotFound


def ask(world: World, within: float | None = 60, **more: object) -> Reply:
    return world.call("a", "send", to="a1", body="2 + 2?", reply_within=within, **more)


def answer(world: World, asked: Reply, body: str = "4", who: str = "a1", to: str = "a") -> Reply:
    return world.call(who, "send", to=to, body=body, reply_to=asked["id"])


def reply_of(reply: Reply) -> Reply | None:
    result = reply["reply"]
    assert result is None or isinstance(result, dict)
    return result


def test_an_answer_has_the_correlation_of_its_request(world: World) -> None:
    asked = ask(world)
    said = answer(world, asked)
    result = reply_of(world.call("a", "wait_reply", id=asked["id"]))
    assert result is not None
    assert (result["id"], result["body"], result["reply_to"]) == (said["id"], "4", asked["id"])
    assert result["thread"] == asked["thread"] == said["thread"]


def test_a_waiting_caller_is_answered_at_once(world: World) -> None:
    asked = ask(world)
    waiting = world.ask("a", "wait_reply", id=asked["id"], wait=50)
    world.advance(20)
    assert waiting.pending
    answer(world, asked)
    assert reply_of(waiting.result()) is not None


def test_a_wait_ends_with_nothing_and_can_be_begun_again(world: World) -> None:
    asked = ask(world)
    waiting = world.ask("a", "wait_reply", id=asked["id"], wait=30)
    world.advance(30.1)
    assert reply_of(waiting.result()) is None
    again = world.ask("a", "wait_reply", id=asked["id"], wait=30)
    answer(world, asked)
    assert reply_of(again.result()) is not None


def test_an_answer_in_time_is_kept_for_the_asker(world: World) -> None:
    """A loop over the inbox beside it does not take it away."""
    asked = ask(world)
    answer(world, asked)
    assert world.call("a", "recv") == {"messages": []}
    assert reply_of(world.call("a", "wait_reply", id=asked["id"])) is not None
    world.advance(3600)
    assert world.call("a", "recv") == {"messages": []}


def test_the_same_answer_is_given_again_when_asked_again(world: World) -> None:
    asked = ask(world)
    answer(world, asked)
    first = world.call("a", "wait_reply", id=asked["id"])
    assert world.call("a", "wait_reply", id=asked["id"]) == first


def test_a_late_answer_is_mail_like_any_other(world: World) -> None:
    asked = ask(world, within=10)
    world.advance(10.1)
    answer(world, asked)
    (letter,) = rows(world.call("a", "recv")["messages"])
    assert (letter["reply_to"], letter["attempt"]) == (asked["id"], 1)


def test_an_answer_that_was_not_fetched_comes_with_the_mail(world: World) -> None:
    asked = ask(world, within=10)
    answer(world, asked)
    waiting = world.ask("a", "recv", wait=50)
    world.advance(10.1)
    (letter,) = rows(waiting.result()["messages"])
    assert (letter["body"], letter["attempt"]) == ("4", 1)


def test_only_the_first_answer_is_kept_back(world: World) -> None:
    asked = ask(world)
    answer(world, asked, "4")
    answer(world, asked, "no, 5")
    assert [row["body"] for row in rows(world.call("a", "recv")["messages"])] == ["no, 5"]
    result = reply_of(world.call("a", "wait_reply", id=asked["id"]))
    assert result is not None
    assert result["body"] == "4"


def test_without_a_time_the_first_caller_gets_the_answer(world: World) -> None:
    asked = ask(world, within=None)
    answer(world, asked)
    result = reply_of(world.call("a", "wait_reply", id=asked["id"]))
    assert result is not None
    assert world.call("a", "recv") == {"messages": []}


def test_an_asker_hears_of_the_end_of_the_agent_that_it_asked(world: World) -> None:
    asked = ask(world)
    waiting = world.ask("a", "wait_reply", id=asked["id"], wait=50)
    world.call("operator", "destroy", agent="a1")
    result = reply_of(waiting.result())
    assert result is not None
    assert (result["kind"], result["relation"]) == ("dead_letter", "daemon")


@for_each("caller", ["a1", "a2", "root", "operator"])
def test_no_agent_waits_for_the_answer_to_a_message_of_another(world: World, caller: str) -> None:
    """Attack 43."""
    asked = ask(world)
    answer(world, asked)
    with pytest.raises(NotFound, match=f"^no message {asked['id']} of yours$"):
        world.call(caller, "wait_reply", id=asked["id"])
    assert world.fault("a", "wait_reply", id="nonsense") == "NotFound"


def test_someone_elses_message_in_the_thread_is_no_answer(world: World) -> None:
    asked = ask(world)
    world.call("a1", "send", to="a", body="by the way", thread=asked["thread"])
    assert reply_of(world.call("a", "wait_reply", id=asked["id"])) is None


def test_only_so_many_answers_are_waited_for(world: World) -> None:
    for _ in range(256):
        world.advance(0.1)
        ask(world, within=300)
    assert world.fault("a", "send", to="a1", body="x", reply_within=300) == "LimitReached"
    assert world.ledger.messages.size(world.uuid("a1"))[0] == 256
    world.advance(301)
    assert world.fault("a", "send", to="a1", body="x", reply_within=300) == ""
