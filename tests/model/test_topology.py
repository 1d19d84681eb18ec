"""Ancestry by numbers against the guarded walk and the naive closure, on any graph."""

from __future__ import annotations

from random import Random

import pytest
from each import for_each
from fixtures.topologies import Closure, Parents, forests, graphs, random_parents
from hypothesis import given
from long import times

from hive_core.errors import InvalidArgument
from hive_core.model.agents.topology import Topology, guarded_ancestors

DEEP = 10_000


def agrees(parents: Parents) -> None:
    """Every question about every pair, known or not, gets the naive answer."""
    tree, naive = Topology(parents), Closure(parents)
    for name in (*parents, "ghost", "nobody"):
        above = naive.ancestors(name) if name in parents else set()
        chain = guarded_ancestors(parents, name)
        assert (chain is not None) == naive.sound(name), (name, parents)
        assert set(chain or ()) == above == set(tree.lineage(name)), (name, parents)
        assert {parent for parent in parents if tree.is_ancestor(parent, name)} == above, (
            name,
            parents,
        )
        below = {name, *naive.below(name)} if naive.sound(name) else set()
        assert set(tree.subtree(name)) == below, (name, parents)
        assert tree.size(name) == len(below) == len(tree.subtree(name))


@pytest.mark.sized
def test_thousands_of_random_graphs_give_the_answers_of_the_naive_closure() -> None:
    """H14, attack 39: forests, cycles, dangling and self parents."""
    random, broken = Random(14), 0  # noqa: S311 - the same graphs every time
    count = times(2_000, 10_000)
    for _ in range(count):
        parents = random_parents(random)
        agrees(parents)
        broken += not all(map(Closure(parents).sound, parents))
    assert 0.2 * count < broken < 0.8 * count


@given(graphs())
def test_any_graph_gives_the_answers_of_the_naive_closure(parents: Parents) -> None:
    agrees(parents)


@given(graphs())
def test_only_forests_are_accepted(parents: Parents) -> None:
    """Attack 39: a tree that is not a forest is refused before it is written."""
    if all(map(Closure(parents).sound, parents)):
        assert Topology.forest(parents).parents == parents
    else:
        with pytest.raises(InvalidArgument) as refusal:
            Topology.forest(parents)
        assert refusal.value.field == "parent"


@given(forests())
def test_the_order_is_depth_first_with_siblings_by_name(parents: Parents) -> None:
    tree = Topology.forest(parents)
    paths = [(*reversed(tree.lineage(name)), name) for name in tree.order]
    assert paths == sorted(paths)
    assert [tree.level(name) for name in tree.order] == list(map(len, paths))


@for_each(
    "parents, message",
    [
        ({"a": "a"}, "a is its own parent"),
        ({"a": None, "b": "ghost"}, "parent ghost of b is unknown"),
        ({"c": "b", "b": "ghost"}, "parent ghost of b is unknown"),
        ({"a": "b", "b": "a"}, "a is on or below a cycle"),
        ({"x": None, "c": "a", "a": "b", "b": "a"}, "c is on or below a cycle"),
        ({"a": None, "b": "a", "c": "b", "d": "c"}, "d would be deeper than 3 levels"),
    ],
)
def test_a_refusal_names_the_agent_and_the_rule(parents: Parents, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Topology.forest(parents, depth_limit=3)


def test_an_empty_tree_is_a_forest_without_ancestors() -> None:
    tree = Topology.forest({})
    assert not tree.is_ancestor("a", "b")
    assert (tree.roots, tree.subtree("a"), tree.lineage("a"), tree.depth) == ((), (), (), 0)


def test_a_chain_of_ten_thousand_is_numbered_and_walked() -> None:
    names = [f"n{number}" for number in range(DEEP)]
    parents = dict(zip(names, [None, *names], strict=False))
    tree = Topology.forest(parents, DEEP)
    assert tree.lineage(names[-1]) == tuple(reversed(names[:-1]))
    assert tree.subtree(names[0]) == tuple(names)
    assert tree.is_ancestor(names[0], names[-1])
    assert not tree.is_ancestor(names[-1], names[0])
    assert tree.depth == DEEP


def test_a_chain_of_ten_thousand_onto_a_cycle_gives_no_rights() -> None:
    """Attack 39: a cycle neither hangs a walk nor makes its members everybody's ancestors."""
    names = [f"n{number}" for number in range(DEEP)]
    tree = Topology(dict(zip(names, [names[3], *names], strict=False)))
    assert guarded_ancestors(tree.parents, names[-1]) is None
    assert tree.order == ()
    assert not tree.is_ancestor(names[0], names[1])
    with pytest.raises(InvalidArgument, match="on or below a cycle"):
        Topology.forest(tree.parents, DEEP)


def test_a_healthy_tree_keeps_its_authority_beside_a_broken_one() -> None:
    tree = Topology({"a": None, "b": "a", "x": "y", "y": "x"})
    assert tree.is_ancestor("a", "b")
    assert not tree.is_ancestor("x", "y")
    assert tree.order == ("a", "b")
