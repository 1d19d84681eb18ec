"""`hive prompt`: the files of the prompts, and the text for a role or an agent."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from cli.run import Hive
from each import for_each

from hive_core.cli.agents.create import ROLES
from hive_core.runtime.prompts import SHIPPED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "prompts"
    (place / "roles").mkdir(parents=True)
    (place / "roles" / "worker.md").write_text("HOST {{ role }}")
    return place


def test_the_files_are_listed_with_their_source(hive: Hive, folder: Path) -> None:
    done = hive("prompt", "list", "--folder", str(folder), "-o", "json")
    assert done.status == 0
    rows = {row["file"]: row for row in json.loads(done.out)}
    assert rows["roles/worker.md"]["source"] == str(folder)
    assert rows["roles/lead.md"]["source"] == "shipped"
    assert rows["system.md"]["overridden_by"] == "operator"
    data = (SHIPPED / "roles/lead.md").read_bytes()
    assert rows["roles/lead.md"]["sha256"] == hashlib.sha256(data).hexdigest()


def test_without_a_folder_the_files_are_those_that_the_daemon_has_read(hive: Hive) -> None:
    hive.peer.answers["GetPrompts"] = lambda _: {"files": {"roles/task.md": "FROM HIVED"}}
    rows = {row["file"]: row for row in json.loads(hive("prompt", "list", "-o", "json").out)}
    assert rows["roles/task.md"]["source"] == "/etc/hive/prompts"
    assert "FROM HIVED" in hive("prompt", "render", "--role", "task").out


@for_each("role", ROLES)
def test_the_prompt_of_a_role_is_the_same_bytes_each_time(hive: Hive, role: str) -> None:
    first, second = (hive("prompt", "render", "--role", role, "--folder", "/none") for _ in "ab")
    assert first.status == 0
    assert first.out == second.out
    assert f"Role: {role}" in first.out
    assert first.err == f"sha256 {hashlib.sha256(first.out.encode()).hexdigest()}\n"


def test_a_profile_and_capabilities_decide_what_is_told(hive: Hive) -> None:
    words = ("prompt", "render", "--role", "daemon", "--folder", "/none")
    assert "You are the queen" in hive(*words, "--profile", "queen").out
    assert "`set_trigger`" in hive(*words).out
    assert "`set_trigger`" not in hive(*words, "--capability", "spawn").out


def test_the_operator_s_own_file_is_used(hive: Hive, folder: Path) -> None:
    done = hive("prompt", "render", "--role", "worker", "--folder", str(folder))
    assert "HOST worker" in done.out


@for_each("words, reason", [
    ((), "name an agent"),
    (("bob", "--role", "worker"), "name an agent"),
    (("--role", "worker", "--profile", "queen"), "profile of the role daemon"),
    (("--role", "worker", "--capability", "flying"), "not a capability"),
])  # fmt: skip
def test_what_cannot_be_rendered_is_refused(
    hive: Hive, words: tuple[str, ...], reason: str
) -> None:
    done = hive("prompt", "render", "--folder", "/none", *words)
    assert done.status != 0
    assert reason in done.err


def test_a_broken_file_is_named_with_its_line(hive: Hive, folder: Path) -> None:
    (folder / "roles" / "worker.md").write_text("one\n{{ nothing_like_it }}")
    done = hive("prompt", "render", "--role", "worker", "--folder", str(folder))
    assert done.status == 2
    assert "roles/worker.md" in done.err
    assert "nothing_like_it" in done.err
    (folder / "Bad Name.md").write_text("x")
    assert "Bad Name.md" in hive("prompt", "list", "--folder", str(folder)).err
