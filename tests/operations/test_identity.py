"""whoami and list_agents: who the caller is, and whom it can see."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import World, names, rows, texts

from hive_core.errors import Conflict, InvalidParameter, NotFound
from hive_core.model.agents.machine import State


def visible_to(world: World, caller: str, **params: object) -> list[object]:
    return names(world.call(caller, "list_agents", **params)["agents"])


def test_an_agent_learns_its_identity_from_its_socket_alone(world: World) -> None:
    reply = world.call("a1", "whoami")
    assert reply["name"] == "a1"
    assert reply["uuid"] == world.uuid("a1")
    assert reply["parent"] == "a"
    assert reply["children"] == ["a11"]
    assert (reply["role"], reply["tier"]) == ("agent", "operational")
    assert "spawn" in texts(reply["capabilities"])


def test_the_operator_is_known_as_itself(world: World) -> None:
    reply = world.call("operator", "whoami")
    assert (reply["name"], reply["uuid"], reply["parent"]) == ("operator", "operator", None)
    assert reply["children"] == ["root"]


@for_each("param", ["caller", "from", "as_agent", "act_as", "on_behalf_of"])
def test_no_call_names_its_caller(world: World, param: str) -> None:
    """Attack 35: a caller cannot act as another."""
    with pytest.raises(InvalidParameter):
        world.call("a1", "whoami", **{param: "root"})


@for_each(
    "caller, expected",
    [
        ("operator", ["root", "a", "a1", "a11", "a2", "b", "b1"]),
        ("root", ["root", "a", "a1", "a11", "a2", "b", "b1"]),
        ("a", ["root", "a", "a1", "a11", "a2", "b"]),
        ("a1", ["root", "a", "a1", "a11", "a2"]),
        ("a11", ["root", "a", "a1", "a11"]),
        ("b1", ["root", "b", "b1"]),
    ],
)
def test_a_caller_sees_itself_ancestors_siblings_and_descendants(
    world: World, caller: str, expected: list[str]
) -> None:
    """Row H5, in the order of the tree."""
    assert visible_to(world, caller) == expected


def test_an_allowed_agent_is_seen_and_its_hidden_parent_is_not(world: World) -> None:
    """Attack 41."""
    world.call("operator", "allow", agent="a11", other="b1")
    collected = {row["name"]: row for row in rows(world.call("a11", "list_agents")["agents"])}
    assert collected["b1"]["parent"] is None
    assert collected["a1"]["parent"] == "a"


def test_below_a_root_only_what_the_caller_sees_is_listed(world: World) -> None:
    assert visible_to(world, "a2", root="a") == ["a", "a1", "a2"]
    assert visible_to(world, "operator", root="a1") == ["a1", "a11"]


def test_an_unknown_root_and_a_hidden_one_get_the_same_answer(world: World) -> None:
    """Attack 41."""
    texts = []
    for name in ("b1", "nobody"):
        with pytest.raises(NotFound) as caught:
            visible_to(world, "a1", root=name)
        texts.append(caught.value.reason.replace(name, "X"))
    assert texts[0] == texts[1]


def test_rows_say_state_and_activity(world: World) -> None:
    world.seen.states[world.uuid("a1")] = State.PARKED
    collected = {row["name"]: row for row in rows(world.call("root", "list_agents")["agents"])}
    assert (collected["a1"]["state"], collected["a"]["state"]) == ("parked", "running")
    assert collected["a"]["activity"] == "idle"


def test_pages_follow_each_other(world: World) -> None:
    """Attack 37: a reply is bounded."""
    collected: list[object] = []
    after = None
    for _ in range(4):
        page = world.call("operator", "list_agents", limit=2, after=after)
        collected += names(page["agents"])
        after = page["next"]
    assert after is None
    assert collected == visible_to(world, "operator")


def test_a_stream_gives_all_pages_and_ends(world: World) -> None:
    asked = world.ask("operator", "list_agents", more=True, limit=3)
    assert not asked.pending
    assert [len(rows(page["agents"])) for page in asked.pages] == [3, 3, 1]


def test_a_page_behind_an_agent_that_has_gone_is_a_conflict(world: World) -> None:
    after = world.call("operator", "list_agents", limit=2)["next"]
    world.call("operator", "destroy", agent="a", recursive=True)
    with pytest.raises(Conflict):
        world.call("operator", "list_agents", limit=2, after=after)


def test_get_tree_is_the_same_listing_under_another_name(world: World) -> None:
    assert world.call("root", "get_tree") == world.call("root", "list_agents")
