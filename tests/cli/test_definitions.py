"""`hive definition`, `hive role` and `hive tools`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import frontmatter
import pytest
from cli.run import Hive

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
BAD = "---\nname: bad\ntools: [reed]\n---\nx"
BROKEN = "---\nname: [\n---\nx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "agents"
    place.mkdir()
    for name, text in {"good": GOOD, "odd": ODD, "bad": BAD, "broken": BROKEN}.items():
        (place / f"{name}.md").write_text(text)
    return place


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
    hive.peer.answers["SetDefinition"] = lambda _: {}
    done = hive("definition", "load", str(folder))
    assert done.status == 1
    good, odd = hive.peer.params_of("SetDefinition")
    assert (good["name"], good["body"], good["agent"]) == (
        "good", "Do.", {"role": "worker", "tools": ["bash(git *)", "read"]},
    )  # fmt: skip
    assert odd["name"] == "odd"
    assert "bad.md: no tool 'reed'" in done.err


def refuse(_: Message) -> Message:
    raise InvalidArgument("no such image", field="image")


def test_a_refused_definition_is_reported_with_its_file(hive: Hive, folder: Path) -> None:
    hive.peer.answers["SetDefinition"] = refuse
    done = hive("definition", "load", str(folder / "good.md"))
    assert (done.status, "good.md: no such image" in done.err) == (1, True)


def test_a_folder_without_definitions_is_an_error(hive: Hive, tmp_path: Path) -> None:
    assert hive("definition", "load", str(tmp_path)).status == 2


KEPT: Message = {
    "name": "good", "description": "Fine.", "role": "worker", "set_at": 1.0, "body": "Do.",
    "agent": {"role": "worker", "tools": ["bash(git *)", "read"]},
}  # fmt: skip


def test_an_export_can_be_loaded_again(hive: Hive, tmp_path: Path) -> None:
    hive.peer.answers["GetDefinition"] = lambda _: KEPT
    hive.peer.answers["SetDefinition"] = lambda _: {}
    file = tmp_path / "again.md"
    file.write_text(hive("definition", "export", "good").out)
    assert hive("definition", "load", str(file)).status == 0
    (asked,) = hive.peer.params_of("SetDefinition")
    assert {key: asked[key] for key in ("name", "description", "agent", "body")} == {
        key: KEPT[key] for key in ("name", "description", "agent", "body")
    }


def test_an_export_for_claude_uses_its_format(hive: Hive) -> None:
    hive.peer.answers["GetDefinition"] = lambda _: KEPT
    post = frontmatter.loads(hive("definition", "export", "good", "--format", "claude").out)
    assert post.metadata == {
        "name": "good", "description": "Fine.", "tools": ["Bash(git:*)", "Read"],
    }  # fmt: skip
    assert post.content == "Do."


def test_a_definition_is_shown_as_a_page_and_by_name(hive: Hive) -> None:
    hive.peer.answers["GetDefinition"] = lambda _: KEPT
    assert "tools         bash(git *), read" in hive("definition", "show", "good").out
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
        "SetDefinition": lambda _: {},
    }  # fmt: skip
    with closing(Session(hive.peer.path)) as session:
        assert load_missing(session) == ["architect", "lead", "maid", "queen"]
    stored = [params["name"] for params in hive.peer.params_of("SetDefinition")]
    assert stored == ["architect", "lead", "maid", "queen"]
    done = hive("definition", "load", "--shipped")
    assert done.status == 0
    assert "loaded worker" in done.err
