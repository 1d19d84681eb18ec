"""why: the policy's answer without the deed."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import World

from hive_core.errors import InvalidArgument, NotAllowed, NotFound


def test_it_gives_rule_reason_chain_and_commit(world: World) -> None:
    """Row H27."""
    result = ask(world, "a", "stop", "a11")
    assert result == {
        "allowed": True, "action": "stop", "rule": "ancestor", "reason": result["reason"],
        "chain": ["a11", "a1", "a"], "commit": world.hive.commit,
    }  # fmt: skip


def ask(
    world: World, caller: str, operation: str, target: str | None = None, second: str | None = None
) -> dict[str, object]:
    collected = {"caller": caller, "operation": operation, "target": target, "second": second}
    return world.call("operator", "why", **collected)


QUESTIONS = [
    ("a", "stop", "a11", None), ("a", "stop", "b", None),
    ("operator", "destroy", "a", None), ("a1", "send", "a2", None), ("a1", "send", "b", None),
    ("root", "move", "a1", "b"), ("a", "move", "a1", "b"), ("root", "move", "a1", ""),
    ("operator", "move", "a1", ""), ("a", "spawn", "a1", None), ("a", "spawn", None, None),
    ("a", "status", None, None), ("a1", "get_logs", "a", None),
]  # fmt: skip
NEEDED: dict[str, dict[str, object]] = {"send": {"body": "x"}, "spawn": {"name": "new"}}
PLACES = {"stop": "agent", "destroy": "agent", "send": "to", "move": "agent", "spawn": "parent",
          "get_logs": "agent"}  # fmt: skip


@pytest.mark.parametrize(("caller", "operation", "target", "second"), QUESTIONS)
def test_it_says_what_the_call_itself_would_meet(
    world: World, caller: str, operation: str, target: str | None, second: str | None
) -> None:
    expected = ask(world, caller, operation, target, second)["allowed"]
    result = dict(NEEDED.get(operation, {}))
    if target is not None:
        result[PLACES[operation]] = target
    if second is not None:
        result["parent"] = second
    assert (world.fault(caller, operation, **result) == "") is expected


def test_nothing_is_done_and_nothing_is_recorded(world: World) -> None:
    before, count = world.hive, len(world.events())
    ask(world, "operator", "destroy", "a")
    ask(world, "a1", "destroy", "a")
    assert (world.hive, len(world.events())) == (before, count)


@for_each("question", [
    ("nobody", "whoami", None, None), ("nobody", "stop", "a", None), ("a", "stop", "nobody", None),
    ("operator", "stop", "nobody", None), ("root", "move", "a1", "nobody"),
])  # fmt: skip
def test_a_name_that_is_no_agents_is_a_slip_and_no_refusal(
    world: World, question: tuple[str, str, str | None, str | None]
) -> None:
    """`hive why nobody stop` exited with 5, as if an agent `nobody` lacked a right."""
    with pytest.raises(NotFound, match=r"^no such agent: nobody$"):
        ask(world, *question)


@for_each("operation, params", [
    ("history", {"agent": "nobody"}), ("list_agents", {"root": "nobody"}),
    ("stop", {"agent": "nobody"}), ("loose_ends", {"agent": "nobody"}),
    ("move", {"agent": "a1", "parent": "nobody"}), ("spawn", {"name": "x", "parent": "nobody"}),
    ("wait_agents", {"agents": ["nobody"], "states": ["running"]}),
])  # fmt: skip
def test_every_operation_says_the_same_of_an_agent_that_is_not_there(
    world: World, operation: str, params: dict[str, object]
) -> None:
    with pytest.raises(NotFound, match=r"^no such agent: nobody$"):
        world.call("operator", operation, **params)


def test_a_refusal_is_a_sentence_whatever_the_operation_is_called(world: World) -> None:
    with pytest.raises(NotAllowed, match=r"^cannot show the history of a: not your descendant$"):
        world.call("a1", "history", agent="a")


@pytest.mark.parametrize(("operation", "target"), [("fly", "a"), ("recv", "a1"), ("", None)])
def test_a_question_that_makes_no_sense_is_named(
    world: World, operation: str, target: str | None
) -> None:
    with pytest.raises(InvalidArgument):
        ask(world, "a", operation, target)


def test_it_is_the_operators(world: World) -> None:
    """Attack 41: it would be an oracle about agents that the caller cannot see."""
    assert world.fault("root", "why", operation="stop") == "InvalidParameter"
    collected = {"caller": "a", "operation": "stop", "target": "b1"}
    asked = world.ask_as(world.uuid("root"), "why", dict(collected))
    assert str(asked.replies[-1]["error"]).endswith("NotAllowed")


def test_an_operation_that_is_misspelt_is_answered_with_the_one_that_is_near(world: World) -> None:
    with pytest.raises(InvalidArgument, match=r"^no operation stpo; did you mean stop\?$"):
        ask(world, "a", "stpo", "a1")
