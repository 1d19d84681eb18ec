"""Snapshots: every step from a valid hive leads to a valid hive or is refused."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.topologies import NAMES, Closure, Parents, forests, hive_of, spec, uuid
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import AlreadyExists, HiveError, InvalidArgument, NotFound
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.topology import Topology


@given(forests(), st.sampled_from(NAMES), st.sampled_from([None, "ghost", *NAMES]))
def test_a_move_gives_a_valid_hive_or_is_refused(
    parents: Parents, name: str, parent: str | None
) -> None:
    hive = hive_of(parents).validate()
    naive = Closure(parents)
    legal = name in parents and (parent is None or parent in parents)
    legal = legal and parent != name and name not in naive.above.get(parent or "", ())
    if legal:
        moved = hive.with_parent(name, parent).validate()
        assert moved.topology.parents == {**parents, name: parent}
        assert set(moved.topology.subtree(name)) == set(hive.topology.subtree(name))
        assert moved.names == hive.names
    else:
        with pytest.raises(HiveError):
            hive.with_parent(name, parent)


@given(forests(), st.sets(st.sampled_from(NAMES)))
def test_children_go_to_the_nearest_ancestor_that_stays(parents: Parents, gone: set[str]) -> None:
    """K9: adoption, at any number of generations destroyed at once."""
    left = hive_of(parents).without(*gone).validate()
    naive = Closure(parents)
    for name in parents.keys() - gone:
        heirs = naive.above[name] - gone
        nearest = max(heirs, key=lambda agent: len(naive.above[agent]), default=None)
        assert left.topology.parent(name) == nearest
    assert left.specs.keys() == parents.keys() - gone
    assert set(left.names.values()) == set(left.specs)


@given(forests(), st.sampled_from([None, *NAMES]))
def test_a_new_agent_gives_a_valid_hive_or_is_refused(parents: Parents, parent: str | None) -> None:
    hive, new = hive_of(parents), spec(99)
    if parent is None or parent in parents:
        grown = hive.with_agent("new", parent, new).validate()
        assert grown.name(new.id) == "new"
        assert grown.topology.parents == {**parents, "new": parent}
        assert grown.names == {value.id: name for name, value in grown.specs.items()}
    else:
        with pytest.raises(InvalidArgument):
            hive.with_agent("new", parent, new)


def test_a_name_is_unique_among_the_living_and_free_after_a_destroy() -> None:
    hive = hive_of({"a": None, "b": "a"})
    with pytest.raises(AlreadyExists, match="the name b is taken"):
        hive.with_agent("b", "a", spec(9))
    again = hive.without("b").with_agent("b", "a", spec(9)).validate()
    assert again.name(str(uuid(2))) is None
    assert again.name(str(uuid(9))) == "b"


@for_each("name", ["operator", "hive", "Ab", "a--b", "a/b", "..", "", "x" * 33])
def test_no_snapshot_holds_an_agent_with_an_impossible_name(name: str) -> None:
    """Attack 14: an agent called `operator` would be taken for the operator."""
    hive = hive_of({"a": None})
    with pytest.raises(InvalidArgument, match="the name"):
        hive.with_agent(name, "a", spec(9))
    with pytest.raises(InvalidArgument, match="the name"):
        hive_of({name: None}).validate()


def test_two_agents_never_share_a_short_id() -> None:
    hive = hive_of({"a": None})
    twin = spec(1).model_copy(update={"uuid": uuid(1).__class__(int=uuid(1).int + 1)})
    with pytest.raises(InvalidArgument, match="short id"):
        hive.with_agent("b", "a", twin)
    with pytest.raises(InvalidArgument, match="share a short id"):
        hive_of({"a": None, "b": "a"}, {"b": twin}).validate()


def test_tree_and_specs_have_the_same_names() -> None:
    hive = hive_of({"a": None, "b": "a"})
    with pytest.raises(InvalidArgument, match="b is not in both"):
        Hive("", Topology({"a": None}), hive.specs).validate()


def test_a_tree_deeper_than_the_limit_is_refused() -> None:
    """Attack 39: depth bomb."""
    hive = Hive(depth_limit=3)
    for number, (name, parent) in enumerate([("a", None), ("b", "a"), ("c", "b"), ("x", None)], 1):
        hive = hive.with_agent(name, parent, spec(number))
    with pytest.raises(InvalidArgument, match="deeper than 3 levels"):
        hive.with_agent("d", "c", spec(9))
    with pytest.raises(InvalidArgument, match="c would be deeper than 3 levels"):
        hive.with_parent("a", "x")


def test_a_uuid_never_changes() -> None:
    hive = hive_of({"a": None})
    titled = spec(1, title="Chief")
    assert hive.with_spec("a", titled).spec("a").title == "Chief"
    with pytest.raises(InvalidArgument, match="cannot change"):
        hive.with_spec("a", spec(2))
    with pytest.raises(NotFound):
        hive.with_spec("b", spec(2))


def test_a_snapshot_keeps_what_it_is_when_the_next_one_is_made() -> None:
    hive = hive_of({"a": None, "b": "a"})
    hive.with_agent("c", "b", spec(3)).with_parent("c", "a").without("b").at_commit("beef")
    assert (hive.commit, dict(hive.topology.parents)) == ("c0ffee", {"a": None, "b": "a"})
    assert hive.names == {str(uuid(1)): "a", str(uuid(2)): "b"}


def test_the_place_on_disk_is_the_short_ids_from_the_root_down() -> None:
    hive = hive_of({"a": None, "b": "a", "c": "b"})
    assert hive.path("c") == ("00000001", "00000002", "00000003")
    assert hive.with_parent("c", "a").path("c") == ("00000001", "00000003")
