"""Definitions of agents: the operator writes them, every agent that may spawn uses them."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import World, names, rows

from hive_core.errors import InvalidArgument, NotAllowed, NotFound

AGENT = {
    "role": "worker",
    "title": "Reviewer",
    "tools": ["Read", "bash(git *)"],
    "tier": "tactical",
}


def define(world: World, name: str = "reviewer", **more: object) -> None:
    collected: dict[str, object] = {
        "description": "Reviews.",
        "agent": AGENT,
        "body": "You review.",
    }
    world.call("operator", "set_definition", name=name, **{**collected, **more})


def test_an_agent_is_made_from_a_definition_and_told_its_text_first(world: World) -> None:
    define(world)
    world.call("operator", "spawn", name="rita", parent="a", definition="reviewer")
    spec = world.hive.spec("rita")
    assert (spec.role, spec.title, spec.tier, spec.tools) == (
        "worker", "Reviewer", "tactical", ("bash(git *)", "read"),
    )  # fmt: skip
    (letter,) = world.mail("rita")
    assert (letter["kind"], letter["body"], letter["from"]) == (
        "definition", "You review.", "daemon",
    )  # fmt: skip


def test_what_the_call_says_counts_more(world: World) -> None:
    define(world)
    world.call("operator", "spawn", name="rita", definition="reviewer", title="Rita", tools=[])
    spec = world.hive.spec("rita")
    assert (spec.role, spec.title, spec.tools) == ("worker", "Rita", ())


def test_a_definition_gives_no_more_than_its_creator_has(world: World) -> None:
    """Rights are checked as if the creator had passed the values of the definition itself."""
    define(world, "boss", agent={"role": "worker", "capabilities": ["broadcast"]})
    with pytest.raises(NotAllowed, match="you do not hold it"):
        world.call("a", "spawn", name="bo", definition="boss")
    define(world, "high", agent={"role": "worker", "tier": "strategic"})
    assert world.fault("a", "spawn", name="hi", definition="high") == "NotAllowed"
    define(world, "fine", agent={"role": "worker"})
    world.call("a", "spawn", name="fin", definition="fine")


@for_each(
    "agent",
    [
        {"role": "task", "tier": "strategic"}, {"capabilities": ["fly"]}, {"tools": ["reed"]},
        {"tools": ["bash(a * b)"]}, {"funds": {"usd": 9_007_200.0}},
    ],
)  # fmt: skip
def test_what_no_agent_can_be_is_refused_when_it_is_written(
    world: World, agent: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument):
        define(world, agent=agent)


def test_what_a_file_lost_is_kept_with_the_definition(world: World) -> None:
    define(world, warnings=["color: without effect"])
    assert world.call("a1", "get_definition", name="reviewer")["warnings"] == [
        "color: without effect"
    ]
    define(world)
    assert world.call("a1", "get_definition", name="reviewer")["warnings"] == []


def test_only_the_operator_writes_definitions_and_all_read_them(world: World) -> None:
    define(world)
    for operation in ("set_definition", "remove_definition"):
        assert world.fault("root", operation, name="reviewer") == "NotAllowed"
    assert world.call("a1", "get_definition", name="reviewer")["body"] == "You review."
    define(world, "aaa")
    reply = world.call("a1", "list_definitions", limit=1)
    assert (names(reply["definitions"]), reply["next"]) == (["aaa"], "aaa")
    (last,) = rows(world.call("a1", "list_definitions", after="aaa")["definitions"])
    assert (last["name"], last["role"], last["description"]) == ("reviewer", "worker", "Reviews.")


def test_a_removed_definition_leaves_its_agents(world: World) -> None:
    define(world)
    world.call("operator", "spawn", name="rita", definition="reviewer")
    world.call("operator", "remove_definition", name="reviewer")
    assert world.hive.spec("rita").title == "Reviewer"
    with pytest.raises(NotFound, match="no definition reviewer"):
        world.call("operator", "spawn", name="rob", definition="reviewer")
    assert world.fault("operator", "remove_definition", name="reviewer") == "NotFound"
    assert world.fault("a1", "get_definition", name="reviewer") == "NotFound"
