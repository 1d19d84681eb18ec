"""A name and a listing give the newest version that the reader may see."""

from __future__ import annotations

import base64

import pytest
from fixtures.world import World, rows

from hive_core.errors import NotFound
from hive_core.ledger.artifacts.storage import FOR_SOME_MOST


def store(world: World, who: str, text: str, visibility: str = "subtree") -> str:
    made = world.call(who, "store_artifact", name="report", text=text, visibility=visibility)
    return str(made["id"])


def read_by_name(world: World, who: str, owner: str = "a1") -> str:
    """What a reader gets by name; empty: nothing."""
    try:
        result = world.call(who, "get_artifact", owner=owner, name="report")
    except NotFound:
        return ""
    return base64.b64decode(str(result["data"])).decode()


def listed_versions(world: World, who: str) -> list[tuple[object, object]]:
    artifacts = rows(world.call(who, "list_artifacts", prefix="report")["artifacts"])
    return [(artifact["version"], artifact["latest"]) for artifact in artifacts]


def test_a_former_ancestor_of_the_owner_has_by_name_what_it_was_promised(world: World) -> None:
    store(world, "a1", "first")
    store(world, "a1", "second")
    owner = world.uuid("a1")
    world.call("operator", "move", agent="a1", parent="b")
    store(world, "a1", "third")
    assert (read_by_name(world, "a", owner), read_by_name(world, "b")) == ("second", "third")
    assert (listed_versions(world, "a"), listed_versions(world, "b")) == ([(2, False)], [(3, True)])
    assert listed_versions(world, "operator") == [(3, True)]
    assert listed_versions(world, "root") == [(3, True)]


def test_what_was_stored_for_others_hides_nothing(world: World) -> None:
    store(world, "a1", "for all", "subtree")
    store(world, "a1", "for me", "private")
    assert (read_by_name(world, "a"), read_by_name(world, "a1")) == ("for all", "for me")
    assert (listed_versions(world, "a"), listed_versions(world, "a1")) == (
        [(1, False)],
        [(2, True)],
    )


def test_the_newest_of_each_reader_follows_when_versions_go(world: World) -> None:
    first, second = store(world, "a1", "1", "subtree"), store(world, "a1", "2", "private")
    third = store(world, "a1", "3", "subtree")
    world.call("a1", "delete_artifact", id=second)
    assert (read_by_name(world, "a"), listed_versions(world, "a")) == ("3", [(3, True)])
    fourth = store(world, "a1", "4", "private")
    world.call("a1", "delete_artifact", id=third)
    assert (read_by_name(world, "a"), listed_versions(world, "a")) == ("1", [(1, False)])
    world.call("a1", "delete_artifact", id=fourth)
    assert (read_by_name(world, "a1"), listed_versions(world, "a1")) == ("1", [(1, True)])
    world.call("a1", "delete_artifact", id=first)
    assert listed_versions(world, "a1") == []


@pytest.mark.parametrize("turns", [FOR_SOME_MOST - 2, FOR_SOME_MOST + 2])
def test_an_owner_that_stores_for_others_by_turns_costs_its_readers_no_more_than_that(
    world: World, turns: int
) -> None:
    store(world, "a1", "for all", "subtree")
    with world.ledger.transaction():
        world.ledger.connection.run_each(
            "INSERT INTO artifacts (id, owner, owner_name, author, name, version, type, visibility,"
            " digest, size, created, lineage, root, latest) SELECT ?1, owner, owner_name, author,"
            " name, ?2, type, 'private', digest, size, created, lineage, root, 2 FROM artifacts"
            " WHERE version = 1",
            [(f"made{number}", number + 2) for number in range(turns)],
        )
    assert read_by_name(world, "a") == ("for all" if turns < FOR_SOME_MOST else "")
