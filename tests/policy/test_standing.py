"""Who a caller is to a target, case by case, and what is worked out of a rule beforehand."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import product

import pytest
from each import for_each
from fixtures.topologies import hive_of, spec, uuid

from hive_core.model.agents.agent import Role
from hive_core.model.wire.record import OPERATOR, Relation
from hive_core.policy import relationship as relations
from hive_core.policy import rules
from hive_core.policy.algebra import NO_CONTEXT, AuthzContext, Denial, PredicateRule, Rule
from hive_core.policy.decide import decide, relation, visible_names
from hive_core.policy.relationship import is_on_allow_list, is_visible, relationship, upward_path

#  root ── bob ── carl ── cleo ── cora      other ── zed
#       ├─ dora                             x ── y ── x (a cycle), lost ── (nobody)
#       └─ sue
TREE = {
    "root": None, "bob": "root", "carl": "bob", "cleo": "carl", "cora": "cleo", "dora": "root",
    "sue": "root", "other": None, "zed": "other", "x": "y", "y": "x", "lost": "nobody",
}  # fmt: skip
HIVE = hive_of(TREE, {"carl": spec(3, allow=[uuid(9), uuid(12)])})
ABSENT = ("nobody", "abel", "zoe", "", "x", "lost")  # before and after `operator` in the alphabet


def fresh(name: str) -> str:
    """An equal name that is another object, as each one is that comes off the wire."""
    return name[:1] + name[1:] if len(name) > 1 else name


@for_each(
    "caller, target, expected",
    [
        ("bob", "bob", relations.ITSELF),
        ("root", None, relations.ITSELF),
        ("root", "bob", relations.TO_CHILD),
        ("cleo", "cora", relations.TO_CHILD),
        ("root", "carl", relations.TO_FARTHER_DESCENDANT),
        ("bob", "cora", relations.TO_FARTHER_DESCENDANT),
        ("bob", "root", relations.TO_PARENT),
        ("zed", "other", relations.TO_PARENT),
        ("cora", "carl", relations.TO_FARTHER_ANCESTOR),
        ("carl", "root", relations.TO_FARTHER_ANCESTOR),
        ("bob", "sue", relations.TO_SIBLING),
        ("sue", "bob", relations.TO_SIBLING),
        ("carl", "dora", relations.STRANGER),
        ("dora", "cora", relations.STRANGER),
        ("root", "other", relations.STRANGER),
        ("other", "root", relations.STRANGER),
        ("zed", "bob", relations.STRANGER),
        ("bob", "operator", relations.TO_OPERATOR),
        ("zed", "operator", relations.TO_OPERATOR),
        ("operator", None, relations.OPERATOR_ITSELF),
        ("operator", "operator", relations.OPERATOR_ITSELF),
        ("operator", "root", relations.OPERATOR_OVER),
        ("operator", "zed", relations.OPERATOR_OVER),
        ("operator", "x", relations.OPERATOR_OVER),
        ("operator", "lost", relations.OPERATOR_OVER),
        ("operator", "nobody", relations.UNSEEN),
        ("operator", "zoe", relations.UNSEEN),
        ("operator", "abel", relations.UNSEEN),
        ("operator", "", relations.UNSEEN),
    ],
)
def test_one_standing_holds(caller: str, target: str | None, expected: int) -> None:
    assert relationship(HIVE, caller, target) == expected
    assert relationship(HIVE, fresh(caller), target and fresh(target)) == expected


@for_each("absent", ABSENT)
def test_an_agent_without_a_root_has_no_rights_and_is_not_seen(absent: str) -> None:
    for name in ("root", "zed", "carl"):
        assert relationship(HIVE, name, absent) == relations.UNSEEN
        assert relationship(HIVE, absent, name) == relations.NOBODY
        assert not is_visible(HIVE, absent, name)
    for target in (None, absent, "operator"):
        assert relationship(HIVE, absent, target) == relations.NOBODY


def test_those_above_stranger_are_seen_and_a_stranger_when_it_is_listed() -> None:
    seen = {
        (one, other) for one, other in product(TREE, TREE)
        if relationship(HIVE, one, other) > relations.STRANGER
    }  # fmt: skip
    assert {pair for pair in product(TREE, TREE) if is_visible(HIVE, *pair)} == {
        *seen, ("carl", "zed"),
    }  # fmt: skip


def test_the_list_holds_agents_that_the_operator_put_on_it_also_where_a_chain_is_broken() -> None:
    assert [name for name in TREE if is_on_allow_list(HIVE, "carl", name)] == ["zed", "lost"]
    assert not is_on_allow_list(HIVE, "carl", "nobody")
    assert not is_on_allow_list(HIVE, "nobody", "zed")
    assert not is_on_allow_list(HIVE, "zed", "carl")


def test_the_chain_ends_at_the_caller_wherever_it_is_met() -> None:
    whole = ("cora", "cleo", "carl", "bob", "root")
    for number, caller in enumerate(whole[1:], 2):
        assert upward_path(HIVE, caller, "cora") == whole[:number]
        assert upward_path(HIVE, fresh(caller), "cora") == whole[:number]
    for caller in ("dora", "zed", "abel", "zoe"):
        assert upward_path(HIVE, caller, "cora") == whole
    assert upward_path(HIVE, fresh(OPERATOR), "cora") == (OPERATOR,)
    assert upward_path(HIVE, "zed", None) == upward_path(HIVE, "zed", fresh("zed")) == ("zed",)
    assert upward_path(HIVE, "zed", "zoe") == ()


def test_a_listing_has_what_its_caller_sees() -> None:
    for caller in ("root", "carl", "zed", "other", "abel", fresh(OPERATOR)):
        assert set(visible_names(HIVE, caller)) == {n for n in TREE if is_visible(HIVE, caller, n)}


def test_a_name_off_the_wire_stands_where_the_equal_one_does() -> None:
    assert relation(HIVE, "bob", fresh("bob")) is Relation.SELF
    assert relation(HIVE, fresh(OPERATOR), "bob") is Relation.OPERATOR
    assert relation(HIVE, "zed", "zoe") is Relation.ALLOWED
    assert relation(HIVE, "zoe", "abel") is Relation.ALLOWED


def test_what_standing_alone_settles_is_ready_once_it_is_worked_out() -> None:
    """No rule is run for it: nothing is made and nothing can go wrong in between."""
    rule = rules.SELF | rules.ANCESTOR | rules.OPERATOR
    answers = rule.compile()
    for place in (
        *range(relations.STRANGER),
        *range(relations.ITSELF, len(relations.RELATIONSHIPS)),
    ):
        assert not isinstance(answers[place], tuple)
    assert decide(rule, HIVE, "root", "carl") is decide(rule, HIVE, "bob", "cora")


def _sometimes(name: str, weight: int) -> Rule:
    def test(*_: object) -> bool:
        return name in truths

    return PredicateRule(name, f"({name})", test, Denial(weight, f"not {name}"))


truths: set[str] = set()


@for_each("true", [set(), {"a"}, {"b"}, {"c"}, {"a", "b"}, {"b", "c"}, {*"abc"}])
def test_a_rule_worked_out_beforehand_is_the_rule(true: set[str]) -> None:
    a, b, c = (_sometimes(name, weight) for name, weight in (("a", 1), ("b", 3), ("c", 3)))
    truths.clear()
    truths.update(true)
    both, either, mixed = (decide(rule, HIVE, "bob") for rule in (a & b & c, a | b | c, a & b | c))
    assert both.allowed == ({*"abc"} <= true)
    assert either.allowed == bool(true)
    assert mixed.allowed == ({"a", "b"} <= true or "c" in true)
    if both.allowed:
        assert (both.rule, both.reason) == ("a & b & c", "(a) (b) (c)")
        assert mixed.rule == "a & b"
    if not true:
        # Told is the first of several that weigh the same, and of a conjunction the first at all.
        assert (both.reason, either.reason, mixed.reason) == ("not a", "not b", "not c")
        assert (both.rule, either.rule) == ("a & b & c", "a | b | c")


def test_without_a_weight_no_caller_has_the_right() -> None:
    nothing = PredicateRule("never", "never", lambda *_: False, Denial(-1, "hidden"))
    assert decide(nothing | nothing, HIVE, "bob").reason == "no rule allows it"
    zero = PredicateRule("zero", "zero", lambda *_: False, Denial(0, "zero"))
    assert decide(zero | zero, HIVE, "bob").reason == "zero"


def test_plain_questions_have_no_second_agent_and_no_facts() -> None:
    assert AuthzContext() == NO_CONTEXT == AuthzContext(None, frozenset())


def test_the_new_parent_of_a_move_is_judged_after_the_target() -> None:
    """Attack 41: of two invisible targets the first is named; a stranger learns of neither."""
    hidden = decide(rules.MOVE, HIVE, "zed", "carl", AuthzContext("nobody"))
    assert (hidden.reason, hidden.visible) == ("no such agent", False)
    strange = decide(rules.MOVE, HIVE, "zoe", "carl", AuthzContext("nobody"))
    assert (strange.rule, strange.visible) == ("known caller", True)
    second = decide(rules.MOVE, HIVE, "bob", "carl", AuthzContext("nobody"))
    assert (second.reason, second.rule, second.visible, second.allowed) == (
        "no such agent: nobody", "visible", False, False,
    )  # fmt: skip


WEIGHTS = {
    rules.SELF: (2, "only the agent itself may do this"),
    rules.PARENT: (3, "not your child"),
    rules.ANCESTOR: (4, "not your descendant"),
    rules.SIBLING: (2, "not your sibling"),
    rules.DESCENDANT: (2, "not your ancestor"),
    rules.OPERATOR: (1, "only the operator may do this"),
    rules.holds("kill"): (8, "you do not hold the capability kill"),
}


@for_each("one, other", list(product(WEIGHTS, WEIGHTS)))
def test_of_two_refusals_the_heavier_is_told_and_of_equals_the_first(
    one: Rule, other: Rule
) -> None:
    hive = HIVE.with_spec("carl", spec(3, allow=[uuid(9)], capabilities=()))
    first, second = WEIGHTS[one], WEIGHTS[other]
    result = first if first[0] >= second[0] else second
    assert decide(one | other, hive, "carl", "zed").reason == result[1]
    assert decide(one | (other & rules.ANYONE), hive, "carl", "zed").reason == result[1]


PARTS = {
    **{rule: weight for rule, (weight, _) in WEIGHTS.items()},
    rules._TO_PARENT: 0,
    rules._REPLY: 0,
    rules._NOT_A_TASK: 9,
    rules._TO_OPERATOR: 0,
    rules._LISTED: 5,
    rules._UNDER_CALLER: 7,
    rules._NO_LOOP: 9,
}


@for_each("part, weight", PARTS.items())
def test_each_part_weighs_what_it_weighs(part: Rule, weight: int) -> None:
    """Of two equal targets the refusal names the first; otherwise the difference would show."""
    truths.clear()
    hive = HIVE.with_spec("sue", spec(7, Role.TASK, capabilities=()))
    other, asked = _sometimes("other", weight), AuthzContext("bob")
    caller, target = ("sue", "bob") if part is not rules.SIBLING else ("sue", "root")
    refused = decide(part, hive, caller, target, asked)
    assert not refused.allowed
    assert decide(part | other, hive, caller, target, asked).reason == refused.reason
    assert decide(other | part, hive, caller, target, asked).reason == "not other"


def test_a_missing_new_parent_weighs_as_much_as_a_wrong_one() -> None:
    truths.clear()
    other, root = _sometimes("other", 7), rules._NOT_A_ROOT
    assert decide(root | other, HIVE, "bob", "sue").reason == "only the operator may make a root"
    assert decide(other | root, HIVE, "bob", "sue").reason == "not other"


@for_each("name", ["answer", "reply-all", "zany"])
def test_only_a_reply_reaches_an_agent_that_the_caller_cannot_see(name: str) -> None:
    """Attack 41: whatever else a rule grants to strangers, before or after it in the alphabet."""
    granting = PredicateRule(name, name, lambda *_: True, Denial(0, "no"))
    assert not decide(granting, HIVE, "bob", "zed").visible
    assert decide(granting, HIVE, "carl", "zed").rule == name


def test_a_decision_that_many_share_cannot_be_changed() -> None:
    decision = decide(rules.SELF, HIVE, "bob")
    with pytest.raises(FrozenInstanceError):
        decision.allowed = False  # type: ignore[misc]


def test_the_operator_holds_every_capability() -> None:
    for caller in (OPERATOR, fresh(OPERATOR)):
        assert decide(rules.holds("kill"), HIVE, caller, "bob").allowed


def test_nothing_is_moved_below_itself_by_any_name_off_the_wire() -> None:
    for second in ("bob", fresh("bob")):
        refused = decide(rules.MOVE, HIVE, "root", "bob", AuthzContext(second))
        assert refused.reason == "the new parent is the agent itself or its descendant"
