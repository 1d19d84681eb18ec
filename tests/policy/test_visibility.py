"""Who sees whom, and what a sender is to a recipient."""

from __future__ import annotations

from itertools import product
from random import Random

from fixtures.topologies import NAMES, forests, hive_of, spec, uuid
from hypothesis import given
from hypothesis import strategies as st
from policy.naive import OPERATOR, Naive, random_hive

from hive_core.model.wire.record import Relation
from hive_core.policy.decide import relation, visible_names
from hive_core.policy.relationship import is_visible

TREE = {"root": None, "bob": "root", "carl": "bob", "dora": "root", "eve": "dora", "other": None}


@given(st.randoms(use_true_random=False))
def test_everyone_sees_its_line_its_siblings_its_allow_list_and_nothing_else(
    random: Random,
) -> None:
    """Attack 41: one answer from the pairwise question and from the listing."""
    hive = random_hive(random)
    naive = Naive(hive)
    for caller in (*hive.topology, "ghost", OPERATOR):
        seen = {entry for entry in hive.topology if is_visible(hive, caller, entry)}
        assert seen == {entry for entry in hive.topology if naive.sees(caller, entry)}
        listing = visible_names(hive, caller)
        assert set(listing) == seen
        assert len(listing) == len(seen)
        assert not is_visible(hive, caller, "nobody")


@given(forests())
def test_a_listing_names_parents_before_children(parents: dict[str, str | None]) -> None:
    hive = hive_of(parents)
    for caller in (*parents, OPERATOR):
        listing = visible_names(hive, caller)
        for number, name in enumerate(listing):
            assert parents[name] not in listing[number:]


@given(forests(), st.sampled_from(NAMES))
def test_what_an_agent_sees_does_not_depend_on_trees_it_cannot_see(
    parents: dict[str, str | None], caller: str
) -> None:
    alone = hive_of(parents)
    more = hive_of({**parents, "x": None, "y": "x", "z": "y"})
    assert visible_names(alone, caller) == visible_names(more, caller)


def test_the_relation_is_that_of_the_sender_to_the_recipient() -> None:
    hive = hive_of(TREE, {"carl": spec(3, allow=[uuid(5)])})
    expected = {
        ("bob", "bob"): Relation.SELF,
        ("bob", "carl"): Relation.PARENT,
        ("carl", "bob"): Relation.CHILD,
        ("bob", "dora"): Relation.SIBLING,
        ("root", "carl"): Relation.ANCESTOR,
        ("carl", "root"): Relation.DESCENDANT,
        ("carl", "eve"): Relation.ALLOWED,
        ("root", "other"): Relation.ALLOWED,
        ("operator", "carl"): Relation.OPERATOR,
        ("daemon", "carl"): Relation.DAEMON,
    }
    assert {pair: relation(hive, *pair) for pair in expected} == expected


@given(forests())
def test_relations_are_each_other_s_mirror(parents: dict[str, str | None]) -> None:
    mirror = {
        Relation.SELF: Relation.SELF, Relation.SIBLING: Relation.SIBLING,
        Relation.PARENT: Relation.CHILD, Relation.CHILD: Relation.PARENT,
        Relation.ANCESTOR: Relation.DESCENDANT, Relation.DESCENDANT: Relation.ANCESTOR,
        Relation.ALLOWED: Relation.ALLOWED,
    }  # fmt: skip
    hive = hive_of(parents)
    for one, other in product(parents, parents):
        assert relation(hive, other, one) is mirror[relation(hive, one, other)]
