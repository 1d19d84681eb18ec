"""Decisions against the naive reference, and what a caller can learn from a refusal."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest
from each import for_each
from fixtures.topologies import forests, hive_of, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from long import figure, times
from policy.naive import Answer, Naive, Question, decide, random_hive, random_question

from hive_core.model.agents.agent import Role
from hive_core.policy.relationship import upward_path
from hive_core.policy.rules import (
    ANCESTOR,
    ANYONE,
    DESCENDANT,
    INPUTS,
    MOVE,
    OPERATOR,
    PARENT,
    PROPOSE,
    ROUTE,
    SELF,
    SIBLING,
    SPAWN,
    Decision,
    Rule,
    holds,
)  # fmt: skip

HIVES = times(3_000, 120_000)  # eleven rules are asked about each
RULES: dict[str, Rule] = {
    "itself": SELF,
    "parent": PARENT,
    "above": ANCESTOR | OPERATOR,
    "below": DESCENDANT,
    "beside": SIBLING,
    "anyone": ANYONE,
    "spawn": SPAWN,
    "propose": PROPOSE,
    "inputs": INPUTS,
    "move": MOVE,
    "route": ROUTE,
}
TREE = {"root": None, "bob": "root", "carl": "bob", "dora": "root", "eve": "dora", "other": None}


def answer(decision: Decision) -> Answer:
    if decision.allowed:
        return Answer.ALLOWED
    return Answer.DENIED if decision.visible else Answer.UNSEEN


@pytest.mark.sized
def test_random_hives_get_the_answers_of_the_naive_rules() -> None:
    """Row R13; H7, H8, H12, H14, H22: forests and non-forests, known and unknown names."""
    random = Random(38)  # noqa: S311 - the same hives every time
    seen: Counter[tuple[str, Answer]] = Counter()
    for _ in range(HIVES):
        hive = random_hive(random)
        naive = Naive(hive)
        question = random_question(random, hive)
        for name, rule in RULES.items():
            expected = naive.answer(name, question)
            assert answer(decide(rule, question)) is expected, (name, question)
            seen[name, expected] += 1
    figure("R13 triples", compared=seen.total())
    assert min(seen[entry] for entry in product(RULES, (Answer.ALLOWED, Answer.DENIED))) > 20


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_any_hive_gets_the_answers_of_the_naive_rules(random: Random) -> None:
    hive = random_hive(random)
    question = random_question(random, hive)
    for name, rule in RULES.items():
        expected = Naive(hive).answer(name, question)
        assert answer(decide(rule, question)) is expected, name


@given(st.randoms(use_true_random=False))
def test_unknown_and_invisible_agents_get_the_same_answer(random: Random) -> None:
    """Attack 41: neither the reason nor the rule tells whether there is such an agent."""
    hive = random_hive(random)
    naive = Naive(hive)
    for caller, target in product(hive.topology, hive.topology):
        if naive.tree.sound(caller) and not naive.sees(caller, target):
            for rule in RULES.values():
                hidden = decide(rule, Question(hive, caller, "do", target))
                unknown = decide(rule, Question(hive, caller, "do", "nobody"))
                assert hidden == unknown
                assert not hidden.visible


@for_each("rule", RULES.values())
def test_a_caller_that_is_no_agent_of_the_hive_may_nothing(rule: Rule) -> None:
    hive = hive_of({**TREE, "x": "y", "y": "x", "lost": "ghost"})
    for caller in ("ghost", "x", "lost", "", "daemon"):
        for target in (None, caller, "root", "operator"):
            decision = decide(rule, Question(hive, caller, "do", target))
            assert not decision.allowed
            assert decision.rule == "known caller"


def test_only_the_operator_has_rights_in_an_empty_hive() -> None:
    hive = hive_of({})
    assert not decide(ANYONE, Question(hive, "root", "do")).allowed
    assert decide(OPERATOR, Question(hive, "operator", "do")).allowed


@for_each("target", ["carl", "eve", "root", "other", None, "operator"])
def test_a_sibling_never_acts_on_a_sibling_or_on_what_is_its(target: str | None) -> None:
    """Attack 35: no verb lets one agent act with the rights of another."""
    hive = hive_of({**TREE, "cora": "bob"})
    if target != "carl":
        assert not decide(ANCESTOR | OPERATOR, Question(hive, "cora", "stop", target)).allowed
    refused = decide(ANCESTOR | OPERATOR, Question(hive, "cora", "stop", "carl"))
    assert (refused.allowed, refused.reason) == (False, "not your descendant")


@given(forests())
def test_no_agent_ends_itself_or_an_ancestor(parents: dict[str, str | None]) -> None:
    """H22."""
    hive = hive_of(parents)
    for caller in parents:
        for target in (caller, *hive.topology.lineage(caller)):
            assert not decide(ANCESTOR | OPERATOR, Question(hive, caller, "x", target)).allowed


def test_a_refusal_tells_the_reason_that_lies_nearest() -> None:
    hive = hive_of(TREE, {"bob": spec(2, Role.AGENT, capabilities=())})
    reasons = {
        decide(rule, Question(hive, caller, "do", target)).reason
        for rule, caller, target in (
            (ANCESTOR | OPERATOR, "carl", "bob"),
            (SELF | ANCESTOR | OPERATOR, "carl", "bob"),
            (OPERATOR, "carl", "bob"),
            (SPAWN, "bob", "carl"),
            (SPAWN, "bob", "dora"),
            (PARENT, "root", "carl"),
            (holds("meta.update"), "carl", None),
        )
    }
    assert reasons == {
        "not your descendant",
        "only the operator may do this",
        "you do not hold the capability spawn",
        "not your child",
        "you do not hold the capability meta.update",
    }


def test_the_chain_goes_from_the_target_up_to_the_caller_or_to_the_root() -> None:
    hive = hive_of(TREE)

    assert upward_path(hive, "root", "carl") == ("carl", "bob", "root")
    assert upward_path(hive, "dora", "carl") == ("carl", "bob", "root")
    assert upward_path(hive, "bob", "bob") == ("bob",)
    assert upward_path(hive, "bob", None) == ("bob",)
    assert upward_path(hive, "operator", "carl") == ("operator",)
    assert upward_path(hive, "bob", "nobody") == ()


def test_a_rule_says_what_it_is_in_the_record_and_in_the_docs() -> None:
    assert (ANCESTOR | OPERATOR).text == "an ancestor or the operator"
    assert (ANCESTOR | SELF | OPERATOR).text == "an ancestor, the agent itself or the operator"
    proposes = ANCESTOR | SELF & holds("config.propose")
    assert proposes.name == "ancestor | self & holds(config.propose)"
    assert SPAWN.name == "operator | (self | ancestor) & holds(spawn)"
    hive = hive_of(TREE)
    assert decide(proposes, Question(hive, "carl", "do")).rule == "self & holds(config.propose)"
    assert decide(proposes, Question(hive, "bob", "do", "carl")).rule == "ancestor"
    assert decide(proposes, Question(hive, "carl", "do", "bob")).rule == proposes.name
