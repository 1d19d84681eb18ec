"""The recipient of a question, and who may answer it, pass it on or withdraw it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.questions import answer, ask, hops, letters, question_world, row
from fixtures.world import World


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with question_world() as made:
        yield made


WHO = {
    "a1": "", "operator": "", "a11": "NotAllowed", "a": "NotAllowed", "root": "NotAllowed",
    "t": "NotAllowed", "a2": "NotFound", "b": "NotFound",
}  # fmt: skip


@for_each("caller, fault", WHO.items())
def test_only_the_recipient_may_answer(world: World, caller: str, fault: str) -> None:
    id_ = ask(world, "a11")
    assert world.fault(caller, "answer", question=id_, answers=["x"]) == fault


def test_unknown_and_unseen_answer_alike(world: World) -> None:
    id_ = ask(world, "a11")
    for name, params in (("b", id_), ("b", "0123456789ab"), ("operator", "0123456789ab")):
        asked = world.ask(name, "answer", question=params, answers=["x"])
        assert asked.replies[-1]["parameters"] == {"reason": f"no question {params}"}


TO = {
    ("a11", "parent"): "a1", ("a11", "a1"): "a1", ("a11", "a"): "a", ("a11", "root"): "root",
    ("a11", "operator"): "operator", ("root", "parent"): "operator",
    ("t", "parent"): "a11", ("t", "operator"): "a11",
}  # fmt: skip

NOT_TO = {
    ("a11", "a2"): "NotFound", ("a11", "t"): "NotAllowed", ("a11", "a11"): "NotAllowed",
    ("a1", "a2"): "NotAllowed", ("a11", "nobody"): "NotFound", ("t", "a1"): "NotAllowed",
    ("operator", "parent"): "NotAllowed",
}  # fmt: skip


@for_each("pair, to", TO.items())
def test_recipients_of_a_question(world: World, pair: tuple[str, str], to: str) -> None:
    """A task asks its parent only; an agent without the capability gets its parent."""
    caller, wanted = pair
    assert world.call(caller, "ask", items=[{"prompt": "x"}], to=wanted)["to"] == to


@for_each("pair, fault", NOT_TO.items())
def test_agents_that_one_may_not_ask(world: World, pair: tuple[str, str], fault: str) -> None:
    caller, wanted = pair
    assert world.fault(caller, "ask", items=[{"prompt": "x"}], to=wanted) == fault


def test_without_the_capability_a_question_for_the_operator_goes_up_step_by_step(
    world: World,
) -> None:
    world.call("operator", "revoke_capability", agent="a1", capability="message.operator",
               recursive=True)  # fmt: skip
    id_ = ask(world, "a11", to="operator")
    assert row(world, id_)["to"] == "a1"
    assert world.call("a1", "relay_question", question=id_, to="operator")["to"] == "a"
    assert world.call("a", "relay_question", question=id_, to="operator")["to"] == "operator"
    answer(world, "operator", id_, "yes")
    assert letters(world, "a11", "answer")[0]["by"] == "operator"


def test_a_relayed_question_is_answered_to_the_asker_though_the_relay_is_destroyed(
    world: World,
) -> None:
    """Q29."""
    id_ = ask(world, "a11")
    world.call("a1", "relay_question", question=id_)
    world.call("operator", "destroy", agent="a1")
    answer(world, "a", id_, "go on")
    assert letters(world, "a11", "answer")[0]["answers"] == ["go on"]


def test_an_agent_that_passed_it_on_may_still_answer_and_no_other_hears_of_it_twice(
    world: World,
) -> None:
    id_ = ask(world, "a11")
    world.call("a1", "relay_question", question=id_)
    world.call("a", "recv")
    answer(world, "a1", id_, "found it")
    (notices,) = letters(world, "a", "question_ended")
    assert (notices["question"], notices["state"]) == (id_, "answered")
    assert not letters(world, "a1", "question_ended")


def test_only_the_recipient_may_pass_it_on_and_only_upwards(world: World) -> None:
    id_ = ask(world, "a11")
    assert world.fault("a", "relay_question", question=id_) == "NotAllowed"
    assert world.fault("a1", "relay_question", question=id_, to="a2") == "NotAllowed"
    assert world.fault("a1", "relay_question", question=id_, to="b") == "NotFound"
    world.call("a1", "relay_question", question=id_, to="root")
    assert world.fault("a1", "relay_question", question=id_) == "Conflict"
    assert hops(world, id_) == [("a1", "asked"), ("root", "relayed")]


def test_the_operator_may_pass_a_question_back_to_an_ancestor_of_the_asker(world: World) -> None:
    id_ = ask(world, "a11", to="operator")
    assert world.fault("operator", "relay_question", question=id_, to="b") == "InvalidArgument"
    assert world.fault("operator", "relay_question", question=id_) == "InvalidArgument"
    assert world.call("operator", "relay_question", question=id_, to="a")["to"] == "a"
    answer(world, "a", id_, "so be it")
    assert letters(world, "a11", "answer")[0]["by"] == "a"


CANCELS = {
    "a11": "", "a1": "", "a": "", "root": "", "operator": "", "t": "NotAllowed",
    "a2": "NotFound", "b": "NotFound",
}  # fmt: skip


@pytest.mark.parametrize(("caller", "fault"), CANCELS.items())
def test_callers_that_may_take_a_question_back(world: World, caller: str, fault: str) -> None:
    """H11: the asker, and any ancestor of the asker."""
    id_ = ask(world, "a11")
    assert world.fault(caller, "cancel_question", question=id_, why="no more") == fault
    if fault:
        assert row(world, id_)["state"] == "open"
        return
    assert row(world, id_)["state"] == "cancelled"
    got = [(row["state"], row["by"], row["answers"]) for row in letters(world, "a11", "answer")]
    # An asker that cancels its own question has the answer to the call: a letter would wake it.
    assert got == ([] if caller == "a11" else [("cancelled", caller, [])])
    assert world.fault("a1", "answer", question=id_, answers=["x"]) == "Conflict"
