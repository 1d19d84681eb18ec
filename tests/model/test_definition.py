"""Definitions of agents as people write them."""

from __future__ import annotations

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Role
from hive_core.model.agents.definition import HIVE_FIELDS, parse_definition
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.work.tools import missing_entries
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


@for_each(
    "front, warning",
    [
        ({"toools": ["read"]}, "toools: unknown field; did you mean tools?"),
        ({"maxturns": 4}, "maxturns: unknown field; did you mean maxTurns?"),
        ({"role": "worker"}, "role: unknown field; did you mean hive.role?"),
        ({"hive": {"afterTask": "exits"}}, "hive.afterTask: unknown field; did you mean"
         " hive.after_task?"),
        ({"hive": {"requireplan": True}}, "hive.requireplan: unknown field; did you mean"
         " hive.require_plan?"),
        ({"xyzzy": 1}, "xyzzy: unknown field"),
        ({"hive": {"revoke": "x"}}, "hive.revoke: without effect in this version"),
        ({"color": "red"}, "color: without effect: hive shows no colours of agents"),
        ({"tools": ["reed", "read"]}, "reed: left out: no tool 'reed'; did you mean read?"),
        ({"tools": "Bash(rm -rf ..*), Read"}, "Bash(rm -rf ..*): left out: 'Bash(rm -rf ..*)':"
         " '..*' is not a plain word; * must stand alone, as the last word"),
        ({"tools": "WebFetch, Read"}, "WebFetch: no tool of hive reads the network"),
        ({"tools": "Task, Read"}, "Task: agents create agents by the capability spawn, no list of"
         " tools does"),
        ({"tools": "mcp____x, Read"}, "mcp____x: is not written as mcp__SERVER__TOOL"),
        ({"name": "Code Reviewer"}, "name: 'Code Reviewer' becomes code-reviewer"),
        ({"model": "sonnet"}, "model: sonnet: used where models.toml has this alias, else the model"
         " of the tier"),
        ({"permissionMode": "bypassPermissions"}, "permissionMode: bypassPermissions: role, tools"
         " and plans decide, no mode does"),
        ({"sandbox_mode": "danger-full-access"}, "sandbox_mode: danger-full-access: the container"
         " of the agent is its sandbox"),
        ({"description": "x" * 2000}, "description: cut at 1024 characters"),
    ],
)  # fmt: skip
def test_an_unknown_field_is_told_with_a_suggestion(front: dict[str, object], warning: str) -> None:
    assert parse_definition({"name": "a", **front}).warnings == (warning,)


@for_each(
    "front, reason",
    [
        ({"name": "Ревьюер"}, "lower case"),
        ({"name": "../reviewer"}, "lower case"),
        ({"kind": "remote"}, "only local agents"),
        ({"disallowedTools": ["Bsah"]}, "no tool 'Bsah'"),
        ({"tools": {"read": "yes"}}, "must be true or false"),
        ({"permission": {"edit": "perhaps"}}, "none of allow, ask, deny"),
        ({"permission": ["edit"]}, "must be a verdict or a table"),
        ({"name": ""}, "lower case"),
        ({"tools": 5}, "must be a list of words"),
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
        ({"hive": {"network": "veth"}}, "hive.network: 'veth' has no effect: network profile"),
        ({"hive": {"network": "lan"}}, "hive.network: 'lan' has no effect: network profile"),
    ],
)
def test_what_cannot_be_is_refused(front: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        parse_definition({"name": "a", **front})


@for_each(
    "front, tools",
    [
        ({}, None),
        ({"tools": "."}, None),
        ({"tools": []}, []),
        ({"tools": "read, Bash(git status)"}, ["bash(git status)", "read"]),
        ({"tools": "Read, Write, Bash", "disallowedTools": "Write"}, ["bash", "read"]),
        (
            {"disallowedTools": ["bash"], "hive": {"role": "worker"}},
            ["edit", "list", "mcp", "read", "search", "undo"],
        ),
        ({"tools": "Grep, LS"}, ["list", "search"]),
        ({"disallowedTools": ["hive_spawn"]}, None),
        ({"disallowedTools": "WebFetch"}, None),
        ({"tools": "*"}, None),
        ({"tools": ["WebFetch"]}, []),
        ({"tools": "Glob, MultiEdit, run_shell_command"}, ["bash", "edit", "list"]),
        ({"tools": "Bash(git log:*), Bash(make a,b)"}, ["bash(git log *)", "bash(make a,b)"]),
        ({"tools": ["Read(./src/**)", "Edit(**)"]}, ["edit", "read(src/*)"]),
        (
            {"tools": {"bash": False, "webfetch": True}},
            ["edit", "list", "mcp", "read", "search", "undo"],
        ),
        ({"tools": {"*": False, "read": True}}, ["read"]),
        ({"sandbox_mode": "read-only"}, ["list", "read", "search"]),
        (
            {"tools": "mcp__git__log, mcp__hub, mcp__x__*, Read"},
            ["mcp(git log)", "mcp(hub *)", "mcp(x *)", "read"],
        ),
        ({"tools": "Read, mcp__a__b", "disallowedTools": "mcp__a__c"}, ["read"]),
        ({"permission": {"edit": "deny"}}, ["bash", "list", "mcp", "read", "search", "undo"]),
        (
            {"permission": {"bash": "ask", "read": "allow"}},
            ["edit", "list", "mcp", "read", "search", "undo"],
        ),
        (
            {"permission": {"bash": {"git push *": "deny"}}},
            ["edit", "list", "mcp", "read", "search", "undo"],
        ),
        (
            {"permission": {"*": "deny", "read": "allow", "bash": {"git log *": "allow"}}},
            ["bash(git log *)", "read"],
        ),
        ({"permission": "deny"}, []),
        ({"tools": "Read, Bash", "permission": {"*": "ask", "read": "allow"}}, ["read"]),
    ],
)
def test_lists_of_tools_are_read_as_others_write_them(
    front: dict[str, object], tools: list[str] | None
) -> None:
    assert parse_definition({"name": "a", **front}).agent.get("tools") == tools


def test_a_file_without_a_word_of_ours_is_an_agent_that_works_with_a_model() -> None:
    agent = parse_definition({"name": "a", "permissionMode": "plan"}).agent
    assert agent == {"role": "worker", "runtime": "builtin", "require_plan": True}
    assert parse_definition({"name": "a", "hive": {}}).agent == {}


def test_the_model_of_another_program_counts_only_where_the_host_has_it() -> None:
    front = {"name": "a", "model": "opus", "hive": {}}
    assert parse_definition(front, aliases=["opus"]).agent == {"model": "opus"}
    absent = parse_definition(front, aliases=["hive-small"])
    assert (absent.agent, "model of their tier" in absent.warnings[0]) == ({}, True)
    # A name of ours that is wrong is refused where it is stored.
    assert parse_definition({**front, "model": "smal"}, aliases=["small"]).agent == {
        "model": "smal"
    }


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
WORD = st.sampled_from([
    "Read", "Write", "Bash", "Bash(git:*)", "bash(git *)", "Read(./src/**)", "reed", "WebFetch",
    "Task", "mcp__a__b", "hive_send", "*", ".", "", "(", "Bash(", "read()", "search",
])  # fmt: skip
VERDICT = st.sampled_from(["allow", "ask", "deny"])
RULES = st.dictionaries(
    st.sampled_from(["*", "edit", "bash", "read", "grep", "webfetch"]),
    VERDICT | st.dictionaries(st.sampled_from(["*", "git *", "x y"]), VERDICT, max_size=2),
)
KEYS = st.sampled_from([
    "name", "description", "tools", "disallowedTools", "model", "permissionMode", "permission",
    "sandbox_mode", "maxTurns", "kind", "skills", "hive", "x",
])  # fmt: skip
FRONT = st.dictionaries(KEYS, ANY) | st.fixed_dictionaries(
    {}, optional={
        "tools": st.lists(WORD, max_size=4) | st.dictionaries(WORD, st.booleans(), max_size=3),
        "disallowedTools": st.lists(WORD, max_size=2), "permission": VERDICT | RULES,
        "sandbox_mode": st.sampled_from(["read-only", "workspace-write"]),
    },
)  # fmt: skip


@given(FRONT)
def test_any_front_matter_is_read_or_refused(front: dict[str, object]) -> None:
    try:
        result = parse_definition(front, "a")
    except InvalidArgument:
        return
    assert result.name
    assert all(isinstance(warning, str) for warning in result.warnings)


@given(FRONT, st.lists(WORD | st.text(max_size=6), min_size=1, max_size=3))
def test_whatever_is_added_to_the_removed_tools_allows_no_more(
    front: dict[str, object], more: list[str]
) -> None:
    listed = front.get("disallowedTools")
    removed = [*listed, *more] if isinstance(listed, list) else more
    try:
        before = tools_of(front)
        after = tools_of({**front, "disallowedTools": removed})
    except InvalidArgument:
        return
    assert missing_entries(before, after) == ()


@given(FRONT)
def test_a_list_of_tools_never_allows_what_its_role_does_not_have(front: dict[str, object]) -> None:
    try:
        tools = tools_of(front)
    except InvalidArgument:
        return
    assert missing_entries(ROLE_DEFAULTS[Role.WORKER].tools, tools) == ()


def tools_of(front: dict[str, object]) -> list[str]:
    """The tools of such an agent, which works."""
    agent = parse_definition({**front, "hive": {"role": "worker"}}, "a").agent
    tools = agent.get("tools", ROLE_DEFAULTS[Role.WORKER].tools)
    assert isinstance(tools, list | tuple)
    return [str(tool) for tool in tools]
