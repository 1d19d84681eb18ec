"""`hive definition`, `hive role` and `hive tools`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import frontmatter
import pytest
from cli.run import Hive
from each import for_each

from hive_core.cli.agents.definitions import load_missing
from hive_core.cli.core.session import Session
from hive_core.errors import InvalidArgument
from hive_core.varlink import Message

GOOD = """---
name: good
description: Fine.
tools: [Read, 'Bash(git:*)']
hive: {role: worker}
---
Do."""
ODD = "---\nname: odd\nrole: worker\n---\n"
BAD = "---\nname: bad\ndisallowedTools: [reed]\n---\nx"
BROKEN = "---\nname: [\n---\nx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "agents"
    place.mkdir()
    for name, text in {"good": GOOD, "odd": ODD, "bad": BAD, "broken": BROKEN}.items():
        (place / f"{name}.md").write_text(text)
    return place


LOADING: dict[str, Callable[[Message], Message]] = {
    "ListModels": lambda _: {"models": [{"alias": "hive-small"}], "next": None},
    "SetDefinition": lambda _: {},
}  # fmt: skip


def test_lint_reports_errors_and_warnings(hive: Hive, folder: Path) -> None:
    done = hive("definition", "lint", str(folder), "-o", "jsonl")
    assert done.status == 1
    assert [line.count('"fail"') for line in done.out.splitlines()] == [1, 1, 0, 0]
    assert "did you mean read" in done.out
    assert "did you mean hive.role?" in done.out
    fine = hive("definition", "lint", str(folder / "good.md"))
    assert (fine.status, fine.out) == (0, "")
    gone = hive("definition", "lint", str(folder / "gone"))
    assert (gone.status, "gone" in gone.err) == (2, True)


def test_load_sends_valid_definitions_to_the_daemon(hive: Hive, folder: Path) -> None:
    hive.peer.answers |= LOADING
    done = hive("definition", "load", str(folder))
    assert done.status == 1
    good, odd = hive.peer.params_of("SetDefinition")
    assert (good["name"], good["body"], good["agent"]) == (
        "good", "Do.", {"role": "worker", "tools": ["bash(git *)", "read"]},
    )  # fmt: skip
    assert odd["name"] == "odd"
    assert "bad.md: no tool 'reed'" in done.err


CLAUDE = """---
name: Code Reviewer
description: Use it after a change. Examples: <example>user: "done"</example>
tools: Read, Grep, Glob, Bash, WebFetch, Task, mcp__github__get_issue
model: sonnet
color: blue
permissionMode: acceptEdits
skills: [review]
mcpServers: [github]
---

You review code.
"""


def test_a_file_of_claude_code_is_loaded_and_says_what_it_lost(hive: Hive, tmp_path: Path) -> None:
    hive.peer.answers |= LOADING
    (tmp_path / "code-reviewer.md").write_text(CLAUDE)
    done = hive("definition", "load", str(tmp_path))
    assert done.status == 0
    (asked,) = hive.peer.params_of("SetDefinition")
    assert {key: asked[key] for key in ("name", "description", "agent", "body")} == {
        "name": "code-reviewer", "body": "You review code.",
        "description": 'Use it after a change. Examples: <example>user: "done"</example>',
        "agent": {
            "role": "worker", "runtime": "builtin", "tools": [
                "bash", "list", "mcp(github get_issue)", "read", "search",
            ],
        },
    }  # fmt: skip
    warnings = asked["warnings"]
    assert isinstance(warnings, list)
    assert [str(text).partition(":")[0] for text in warnings] == [
        "the front matter is not YAML; each line of it was read as a text", "name", "color",
        "mcpServers", "skills", "permissionMode", "model", "WebFetch", "Task",
    ]  # fmt: skip
    assert all(str(text) in done.err for text in warnings)


def test_two_files_of_one_name_are_not_loaded_over_each_other(hive: Hive, tmp_path: Path) -> None:
    hive.peer.answers |= LOADING
    for file in ("a.md", "b.md"):
        (tmp_path / file).write_text(GOOD)
    done = hive("definition", "load", str(tmp_path))
    assert (done.status, "a.md defines good already" in done.err) == (1, True)
    assert len(hive.peer.params_of("SetDefinition")) == 1


@for_each("text", ["---\n- a\n---\n", "---\na: &a [*a]\n---\n", "\0", "---\n? \n---\n"])
def test_a_file_that_is_no_definition_is_refused_or_read(
    hive: Hive, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "x.md"
    file.write_text(text)
    assert hive("definition", "lint", str(file)).status in (0, 1)


def refuse(_: Message) -> Message:
    raise InvalidArgument("no such image", field="image")


def test_a_refused_definition_is_reported_with_its_file(hive: Hive, folder: Path) -> None:
    hive.peer.answers |= {**LOADING, "SetDefinition": refuse}
    done = hive("definition", "load", str(folder / "good.md"))
    assert (done.status, "good.md: no such image" in done.err) == (1, True)


def test_a_folder_without_definitions_is_an_error(hive: Hive, tmp_path: Path) -> None:
    assert hive("definition", "load", str(tmp_path)).status == 2


KEPT: Message = {
    "name": "good", "description": "Fine.", "role": "worker", "set_at": 1.0, "body": "Do.",
    "agent": {"role": "worker", "tools": ["bash(git *)", "read"]},
}  # fmt: skip


def test_an_export_can_be_loaded_again(hive: Hive, tmp_path: Path) -> None:
    hive.peer.answers |= {**LOADING, "GetDefinition": lambda _: KEPT}
    file = tmp_path / "again.md"
    file.write_text(hive("definition", "export", "good").out)
    assert hive("definition", "load", str(file)).status == 0
    (asked,) = hive.peer.params_of("SetDefinition")
    assert {key: asked[key] for key in ("name", "description", "agent", "body")} == {
        key: KEPT[key] for key in ("name", "description", "agent", "body")
    }


PORTABLE: Message = {
    **KEPT, "body": 'Say "done".\n\n\\ and \t tabs \x7f',
    "agent": {
        "role": "worker", "runtime": "builtin", "max_turns": 9, "tools": ["bash(git *)", "read"],
    },
}  # fmt: skip
# What of the agent each format says; Gemini has no patterns of commands, Codex no tools and turns.
SAID: dict[str, dict[str, object]] = {
    "hive": {}, "claude": {}, "opencode": {},
    "gemini": {"tools": ["read"]},
    "codex": {"tools": None, "max_turns": None},
}  # fmt: skip


@for_each("kind", list(SAID))
def test_a_definition_comes_back_from_every_format_with_no_more_than_it_had(
    hive: Hive, tmp_path: Path, kind: str
) -> None:
    hive.peer.calls.clear()
    hive.peer.answers |= {**LOADING, "GetDefinition": lambda _: PORTABLE}
    file = tmp_path / f"good.{'toml' if kind == 'codex' else 'md'}"
    done = hive("definition", "export", "good", "--format", kind)
    file.write_text(done.out)
    assert hive("definition", "load", str(file)).status == 0
    (asked,) = hive.peer.params_of("SetDefinition")
    agent = PORTABLE["agent"]
    assert isinstance(agent, dict)
    wanted = {key: value for key, value in {**agent, **SAID[kind]}.items() if value is not None}
    assert {key: asked[key] for key in ("name", "description", "agent", "body")} == {
        "name": "good", "description": "Fine.", "agent": wanted, "body": PORTABLE["body"],
    }  # fmt: skip
    assert ("without bash(git *)" in done.err) == (kind in ("gemini", "codex"))


def test_an_export_for_claude_uses_its_format(hive: Hive) -> None:
    agent = {
        "role": "worker", "tools": ["bash(git *)", "edit", "undo"], "model": "hive-small",
        "require_plan": True, "max_depth": 1,
    }  # fmt: skip
    hive.peer.answers["GetDefinition"] = lambda _: {**KEPT, "agent": agent}
    done = hive("definition", "export", "good", "--format", "claude")
    post = frontmatter.loads(done.out)
    assert post.metadata == {
        "name": "good", "description": "Fine.", "tools": ["Bash(git:*)", "Edit", "Write"],
        "permissionMode": "plan",
    }  # fmt: skip
    assert post.content == "Do."
    for note in ("without undo", "without model hive-small", "without max_depth"):
        assert note in done.err


def test_an_export_for_codex_that_may_not_write_is_read_only(hive: Hive) -> None:
    agent = {"role": "worker", "tools": ["read"]}
    hive.peer.answers["GetDefinition"] = lambda _: {**KEPT, "agent": agent}
    done = hive("definition", "export", "good", "--format", "codex")
    assert tomllib.loads(done.out) == {
        "name": "good", "description": "Fine.", "sandbox_mode": "read-only",
        "developer_instructions": "Do.\n",
    }  # fmt: skip


def test_a_definition_is_shown_as_a_page_and_by_name(hive: Hive) -> None:
    hive.peer.answers["GetDefinition"] = lambda _: KEPT
    assert "tools         bash(git *), read" in hive("definition", "show", "good").out
    hive.peer.answers["GetDefinition"] = lambda _: {**KEPT, "warnings": ["color: no effect"]}
    assert "warning       color: no effect" in hive("definition", "show", "good").out
    hive.peer.answers["ListDefinitions"] = lambda _: {"definitions": [KEPT], "next": None}
    assert hive("definition", "list", "-o", "name").out == "good\n"


ROLE: Message = {
    "role": "worker", "lifetime": "its parent decides", "behaviour": "worker",
    "creates": ["task"], "actions": ["send"], "capabilities": [], "tools": ["bash"],
    "restarts": False, "after_task": "stays", "tier": "operational", "highest_tier": "strategic",
}  # fmt: skip


def test_roles_and_tools_are_listed(hive: Hive) -> None:
    hive.peer.answers["ListRoles"] = lambda _: {"roles": [ROLE]}
    assert hive("role", "list", "-o", "name").out == "worker\n"
    assert "highest tier  strategic" in hive("role", "show", "worker").out
    assert hive.peer.params_of("ListRoles")[-1] == {"role": "worker"}
    row = {"tool": "bash", "kind": "execution", "allowed": False, "entries": [], "why": "not now"}
    hive.peer.answers["ListTools"] = lambda _: {"behaviour": "worker", "tools": [row]}
    assert "not now" in hive("tools", "bob").out
    assert hive.peer.params_of("ListTools") == [{"agent": "bob"}]


def test_setup_stores_what_comes_with_hive_where_there_is_none_of_that_name(hive: Hive) -> None:
    hive.peer.answers = {
        "ListDefinitions": lambda _: {"definitions": [{"name": "worker"}], "next": None},
        "ListModels": LOADING["ListModels"], "SetDefinition": lambda _: {},
    }  # fmt: skip
    with closing(Session(hive.peer.path)) as session:
        assert load_missing(session) == ["architect", "lead", "maid", "queen"]
    stored = [params["name"] for params in hive.peer.params_of("SetDefinition")]
    assert stored == ["architect", "lead", "maid", "queen"]
    done = hive("definition", "load", "--shipped")
    assert done.status == 0
    assert "loaded worker" in done.err
