"""`hive config`: what would be refused is said beforehand, and the template passes."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from cli.run import Hive

from hive_core.host.git import seed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with nothing in it."""
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


def faults(hive: Hive, folder: Path) -> dict[str, str]:
    """What lint says of each place."""
    done = hive("config", "lint", str(folder), "-o", "json")
    result = {row["place"]: row["fault"] for row in json.loads(done.out)}
    assert done.status == bool(result)
    return result


@pytest.mark.parametrize("kind", seed.LAYERS)
def test_the_installed_template_passes_lint(hive: Hive, tmp_path: Path, kind: str) -> None:
    """H8: the seed has no fault; git's own folder and stored copies are not checked."""
    seed.write_clone(kind, tmp_path / "config")
    (tmp_path / "config/.before").mkdir()
    (tmp_path / "config/.before/link").symlink_to("/")
    assert faults(hive, tmp_path / "config") == {}
    done = hive("config", "lint", str(tmp_path / "config"))
    assert (done.status, done.out) == (0, "")
    assert "no faults" in done.err


def test_every_fault_of_agent_toml_is_reported_with_its_key(hive: Hive, folder: Path) -> None:
    (folder / "agent.toml").write_text(
        '[harness]\nskills = "talents"\n[request]\ncapabilites = []\nboot = "perhaps"\n'
    )
    assert faults(hive, folder) == {
        "agent.toml:4: request.capabilites": "unknown key; did you mean capabilities?",
        "agent.toml:5: request.boot": '"perhaps" does not fit; allowed is true or false',
    }
    (folder / "agent.toml").write_text('[harness]\nskills = "talents"\n')
    assert faults(hive, folder) == {"agent.toml: harness.skills": "talents does not exist"}
    (folder / "agent.toml").write_text("[harness\n")
    assert "Expected ']'" in faults(hive, folder)["agent.toml"]


def test_files_that_would_be_refused_are_reported(hive: Hive, folder: Path) -> None:
    """Attack 19: the rules of the walk, before anybody commits."""
    (folder / "link").symlink_to("/etc/shadow")
    (folder / "sub/.GIT").mkdir(parents=True)
    (folder / "caf\u00e9").touch()
    for name in ("a", "A"):
        (folder / name).touch()
    with (folder / "large").open("wb") as file:
        file.truncate(6 << 20)
    assert faults(hive, folder) == {
        "a": "differs from 'A' only in case",
        "caf\u00e9": "is not plain ASCII",
        "large": "is larger than 5242880 bytes",
        "link": "is a symbolic link",
        "sub/.GIT": "is reserved by git, or some file systems treat it as such",
    }


def test_a_hostile_folder_is_checked_and_not_entered(hive: Hive, folder: Path) -> None:
    """Attack 13: a FIFO, a device or a link where agent.toml should be."""
    os.mkfifo(folder / "agent.toml")
    assert faults(hive, folder)["agent.toml"] == "is not a plain file"
    (folder / "agent.toml").unlink()
    (folder / "agent.toml").symlink_to("/etc/hostname")
    assert set(faults(hive, folder)) == {"agent.toml"}
    (folder / "agent.toml").unlink()
    (folder / "agent.toml").write_bytes(b"a" * 100_000)
    assert "larger than" in faults(hive, folder)["agent.toml"]


def test_a_missing_file_is_valid_and_a_missing_folder_is_an_error(hive: Hive, folder: Path) -> None:
    assert faults(hive, folder) == {}
    assert hive("config", "lint", str(folder / "nowhere")).status == 4


def test_every_file_of_the_template_can_be_printed(hive: Hive) -> None:
    for name, (_, content) in seed.seed("nix").files.items():
        assert hive("config", "template", name).out == content.decode()


def test_template_and_schema_are_printed_for_editors(hive: Hive) -> None:
    assert tomllib.loads(hive("config", "template").out)
    assert "{ ... }" in hive("config", "template", "agent.nix").out
    assert hive("config", "template", "../secret").status == 2
    schema = json.loads(hive("config", "schema").out)
    assert set(schema["properties"]) == {
        "acp", "harness", "judge", "mcp", "memory", "request", "session", "settings", "subagents",
    }  # fmt: skip
    assert schema["additionalProperties"] is False


def test_host_settings_are_checked(hive: Hive, tmp_path: Path) -> None:
    file = tmp_path / "hive.toml"
    file.write_text("[limits]\ndepht = 3\n[waits]\nopen = 0\n")
    done = hive("config", "check", str(file))
    assert (done.status, done.out) == (
        1, f"{file}:2: limits.depht: unknown key; did you mean depth?\n"
        f"{file}:4: waits.open: 0 does not fit; allowed is a whole number from 1\n",
    )  # fmt: skip
    rows = json.loads(hive("config", "check", str(file), "-o", "json").out)
    assert [(row["line"], row["key"]) for row in rows] == [
        (2, "limits.depht"),
        (4, "waits.open"),
    ]
    file.write_text("")
    done = hive("config", "check", str(file))
    assert (done.status, done.out, done.err) == (0, "", f"{file}: no faults\n")
    assert hive("config", "check", str(tmp_path / "none.toml")).status == 4


def test_agent_toml_takes_sizes_and_reports_invalid_values(hive: Hive, folder: Path) -> None:
    """`memory_max = "2G"` or `command = "ls"` were answered with pydantic's own words."""
    text = '[request]\ncommand = "ls -l"\n[request.limits]\nmemory_max = "2G"\n'
    (folder / "agent.toml").write_text(text)
    assert faults(hive, folder) == {}
    (folder / "agent.toml").write_text(text.replace("2G", "much").replace("ls -l", "ls '"))
    assert faults(hive, folder) == {
        "agent.toml:2: request.command": 'cannot split "ls \'" into words: No closing quotation',
        "agent.toml:4: request.limits.memory_max":
            "'much' is not a size; write 512M, 2G or a number of bytes",
    }  # fmt: skip
    (folder / "agent.toml").write_text('[request]\nnetwork = "internet"\n')
    ((place, fault),) = faults(hive, folder).items()
    assert place == "agent.toml:2: request.network"
    assert "network profile internet does not exist" in fault
