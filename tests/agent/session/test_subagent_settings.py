"""`[subagents]` of agent.toml: every field, its bounds, refusals that name the key (Z9, Z15)."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from each import for_each

from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.config.agent_config import SubagentsConfig, parse_agent_config

EXAMPLE = Path(__file__).parents[3] / "examples/subagents/agent.toml"
DEFAULTS = ForkSettings()


def test_the_example_has_every_field_and_is_a_whole_configuration() -> None:
    """Z16."""
    data = tomllib.loads(EXAMPLE.read_text())
    assert data["subagents"].keys() == SubagentsConfig.model_fields.keys()
    parsed = parse_agent_config(data).subagents.model_dump()
    assert asdict(ForkSettings.read(EXAMPLE)) == parsed


@for_each("key, value", [
        ("max_clones", 1), ("enabled", "yes"), ("agents_dir", "/etc"), ("max_depth", 0),
        ("max_depth", True), ("ipc_mode", "socket"), ("default_model", "A b"),
        ("timeout_seconds", 0), ("cleanup_temp_files", 1), ("allow_clones", None),
        ("max_clone_fork_depth", -1), ("clone_sysprompt_followup", ""),
        ("clone_userprompt_prefix", 3), ("clone_disable_tools", "bash"),
        ("clone_disable_tools", ["seek:bash"]),
    ])  # fmt: skip
def test_a_wrong_setting_is_refused_with_its_key_by_both_readers(key: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=rf"\[subagents\].*{key}") as caught:
        ForkSettings.of({key: value})
    assert caught.value.parameters["field"] == key
    if value is not None:  # a file cannot say it
        with pytest.raises(InvalidArgument, match=rf"subagents\.{key}"):
            parse_agent_config({"subagents": {key: value}})


def test_a_folder_outside_of_the_configuration_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="agents_dir"):
        ForkSettings.of({"agents_dir": "agents/../../etc"})


@for_each(
    "change, kind, depth, clone_depth, key",
    [
        ({"enabled": False}, "named", 0, 0, "enabled"),
        ({"allow_clones": False}, "clone", 0, 0, "allow_clones"),
        ({}, "clone", 1, 1, "max_clone_fork_depth"),
        ({"max_clone_fork_depth": 0}, "clone", 0, 0, "max_clone_fork_depth"),
        ({}, "named", 3, 0, "max_depth"),
        ({"max_clone_fork_depth": 9}, "clone", 3, 2, "max_depth"),
    ],
)
def test_a_fork_that_the_settings_exclude_is_refused_with_the_key(
    change: dict[str, object], kind: str, depth: int, clone_depth: int, key: str
) -> None:
    """Z4, Z15."""
    settings = replace(DEFAULTS, **change)  # type: ignore[arg-type]
    with pytest.raises(NotAllowed, match=key) as caught:
        settings.check_fork(is_clone=kind == "clone", depth=depth, clone_depth=clone_depth)
    assert caught.value.parameters["rule"] == f"subagents.{key}"


def test_what_the_settings_allow_passes_and_clones_are_judged_by_their_own_depth() -> None:
    """Z4, Z10: a named sub-agent is judged by its depth alone."""
    DEFAULTS.check_fork(is_clone=True, depth=0, clone_depth=0)
    DEFAULTS.check_fork(is_clone=False, depth=2, clone_depth=1)
    replace(DEFAULTS, allow_clones=False).check_fork(is_clone=False, depth=0, clone_depth=0)


def test_a_ban_hides_a_tool_only_where_it_says_so() -> None:
    """Z5."""
    settings = ForkSettings.of({"clone_disable_tools": ["bash", "hide:edit"]})
    assert settings.disabled == {"bash", "edit"}
    assert settings.hidden == {"edit"}
