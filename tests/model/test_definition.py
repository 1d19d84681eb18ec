"""Definitions of agents as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.model.agents.definition import HIVE_FIELDS, parse_definition
from hive_core.operations.agents.spawn_params import Traits

REVIEWER: dict[str, object] = {
    "name": "reviewer",
    "description": "Reviews a branch.\n  Use after a coder finishes.",
    "tools": ["Read", "Bash(git:*)", "hive_send"],
    "model": "inherit",
    "hive": {"role": "worker", "limits": {"memory_max": "2G", "cpu_quota": 200}},
}


def test_a_definition_in_the_words_of_others_becomes_parameters_of_spawn() -> None:
    result = parse_definition(REVIEWER)
    assert (result.name, result.description) == (
        "reviewer", "Reviews a branch. Use after a coder finishes.",
    )  # fmt: skip
    assert result.agent == {
        "role": "worker", "tools": ["bash(git *)", "read"],
        "limits": {"memory_max": 2 << 30, "cpu_quota": 200},
    }  # fmt: skip
    (warning,) = result.warnings
    assert "hive_send: is an operation" in warning


@pytest.mark.parametrize(
    ("front", "warning"),
    [
        ({"toools": ["read"]}, "toools: unknown field; did you mean tools?"),
        ({"maxturns": 4}, "maxturns: unknown field; did you mean maxTurns?"),
        ({"role": "worker"}, "role: unknown field; did you mean hive.role?"),
        ({"hive": {"afterTask": "exits"}}, "hive.afterTask: unknown field; did you mean"
         " hive.after_task?"),
        ({"hive": {"requireplan": True}}, "hive.requireplan: unknown field; did you mean"
         " hive.require_plan?"),
        ({"xyzzy": 1}, "xyzzy: unknown field"),
        ({"skills": ["a"], "color": "red", "hive": {"revoke": "x"}}, "hive.revoke, skills,"
         " color: kept in the file, without effect in this version"),
    ],
)  # fmt: skip
def test_an_unknown_field_is_told_with_a_suggestion(front: dict[str, object], warning: str) -> None:
    assert parse_definition({"name": "a", **front}).warnings == (warning,)


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ({"name": "Not A Name"}, "lower case"),
        ({"name": ""}, "lower case"),
        ({"tools": ["reed"]}, "did you mean read"),
        ({"tools": {"read": True}}, "must be a list of words"),
        ({"disallowedTools": ["bash(git *)"]}, "only whole tools can be removed"),
        ({"hive": "worker"}, "must be a table"),
        ({"hive": {"role": "manager"}}, "a daemon, an agent or a lead"),
        ({"hive": {"role": "wroker"}}, "did you mean worker"),
        ({"hive": {"limits": 5}}, "must be a table"),
        ({"hive": {"limits": {"memry": "2G"}}}, "did you mean memory"),
        ({"hive": {"subtree": {"disk": "2G"}}}, "there are memory_max"),
        ({"hive": {"limits": {"cpu": "200%", "cpu_quota": 100}}}, "cpu_quota is set too"),
        ({"hive": {"limits": {"budgetUsd": 5}, "funds": {"usd": 4}}}, "usd is set too"),
        ({"hive": {"limits": {"depth": 5}, "max_depth": 4}}, "max_depth is set too"),
        ({"hive": {"funds": 4, "limits": {}}}, "must be a table"),
        ({"hive": {"network": "host"}}, "hive.network: 'host' has no effect: this host has no"),
        ({"hive": {"network": "lan"}}, "hive.network: 'lan' has no effect: this host has no"),
    ],
)
def test_what_cannot_be_is_refused(front: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        parse_definition({"name": "a", **front})


@pytest.mark.parametrize(
    ("front", "tools"),
    [
        ({}, None),
        ({"tools": "."}, None),
        ({"tools": []}, []),
        ({"tools": "read, Bash(git status)"}, ["bash(git status)", "read"]),
        ({"tools": "Read, Write, Bash", "disallowedTools": "Write"}, ["bash", "read"]),
        (
            {"disallowedTools": ["bash"], "hive": {"role": "worker"}},
            ["edit", "list", "read", "search", "undo"],
        ),
        ({"tools": "Grep, LS"}, ["list", "search"]),
        ({"disallowedTools": ["hive_spawn"]}, None),
    ],
)
def test_lists_of_tools_are_read_as_others_write_them(
    front: dict[str, object], tools: list[str] | None
) -> None:
    assert parse_definition({"name": "a", **front}).agent.get("tools") == tools


def test_our_words_are_those_of_spawn() -> None:
    assert set(HIVE_FIELDS) == Traits.model_fields.keys() - {"tools", "model", "max_turns"}


def test_a_definition_as_the_guide_has_it_counts_in_every_word() -> None:
    result = parse_definition({
        "name": "reviewer", "tools": ["read", "bash"], "model": "inherit", "maxTurns": 40,
        "hive": {
            "role": "worker", "requirePlan": True, "network": "none",
            "limits": {"memory": "2G", "cpu": "200%", "budgetUsd": 5, "depth": 2},
        },
    })  # fmt: skip
    assert result.warnings == ()
    assert result.agent == {
        "role": "worker", "tools": ["bash", "read"], "max_turns": 40, "require_plan": True,
        "network": "none", "limits": {"memory_max": 2 << 30, "cpu_quota": 200}, "max_depth": 2,
        "funds": {"usd": 5},
    }  # fmt: skip
    Traits.model_validate(result.agent)


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
ANY = st.recursive(
    LEAF, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part),
    max_leaves=6,
)  # fmt: skip
KEYS = st.sampled_from(["name", "description", "tools", "disallowedTools", "model", "hive", "x"])


@given(st.dictionaries(KEYS, ANY))
def test_any_front_matter_is_read_or_refused(front: dict[str, object]) -> None:
    try:
        result = parse_definition(front, "a")
    except InvalidArgument:
        return
    assert result.name
