"""`hive runtime`: the CLIs that run models, installed by an npm that this test plays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from each import for_each

from hive_core.cli.host.runtime import COMPLETE, NAMES, RuntimePackage
from hive_core.cli.main import run

# It does what `npm ci` does for a lock file of ours: it puts the program into its package.
NPM = """#!/bin/sh
[ "$1 $2" = "ci --ignore-scripts" ] || exit 9
[ -f package-lock.json ] || exit 8
[ "$(stat -c %a .)" = 700 ] || exit 7
umask "${UMASK:-077}"
[ -z "$FAIL" ] || { echo "npm warn Unknown user config x" >&2; printf "one\\ntwo\\n" >&2; exit 1; }
for cpu in x64 arm64; do
    place=node_modules/@anthropic-ai/claude-code-linux-$cpu
    mkdir -p "$place"
    printf '#!/bin/sh\\necho "%s (Claude Code)"\\n' "${VERSION:-2.1.330}" >"$place/claude"
    chmod "${MODE:-700}" "$place/claude"
done
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the CLIs go; npm is ours."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "npm").write_text(NPM)
    (programs / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return tmp_path / "clis"


def hive(folder: Path, *words: str) -> int:
    return run(["runtime", *words, "--folder", str(folder)])


@for_each("name", NAMES)
def test_the_lock_file_has_a_hash_for_every_package(name: str) -> None:
    package = RuntimePackage(name, Path("/nowhere"))
    lock = json.loads((package.locks / "package-lock.json").read_text())
    packages = {place: row for place, row in lock["packages"].items() if place}
    assert packages
    assert all(row["integrity"].startswith("sha512-") for row in packages.values())
    # The registry is that of the host: no address of a mirror is in the file.
    assert not any("resolved" in row for row in packages.values())
    assert lock["version"] == package.version
    assert all(row["version"].startswith(package.version) for row in packages.values())
    assert any(package.program("x64").startswith(place) for place in packages)


def test_a_cli_is_installed_readable_for_containers_and_listed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hive(folder, "install", "claude") == 0
    program = folder / "claude/bin/claude"
    assert program.resolve().stat().st_mode & 0o777 == 0o755
    assert (folder / "claude").stat().st_mode & 0o777 == 0o755
    assert (folder / "claude" / COMPLETE).read_text() == "2.1.330\n"
    capsys.readouterr()
    assert hive(folder, "list", "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["runtime"]: row["installed"] for row in rows} == {
        "claude": "2.1.330", "codex": "-", "opencode": "-",
    }  # fmt: skip
    assert hive(folder, "install", "claude") == 0
    assert "installed already" in capsys.readouterr().err
    assert hive(folder, "rm", "claude") == 0
    assert list(folder.iterdir()) == []
    assert hive(folder, "remove", "claude") == 4
    assert "it is not installed" in capsys.readouterr().err


def test_only_root_can_write_what_is_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UMASK", "000")
    monkeypatch.setenv("MODE", "6777")
    before = os.umask(0)
    try:
        assert hive(folder, "install", "claude") == 0
    finally:
        os.umask(before)
    place = folder / "claude"
    modes = {path.lstat().st_mode & 0o7777 for path in (place, *place.rglob("*"))
             if not path.is_symlink()}  # fmt: skip
    assert modes <= {0o755, 0o644}


def test_an_install_that_fails_says_what_npm_said_and_leaves_the_old_version(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hive(folder, "install", "claude") == 0
    (folder / "claude" / COMPLETE).write_text("2.0.0\n")
    monkeypatch.setenv("FAIL", "1")
    assert hive(folder, "install", "claude") == 1
    said = capsys.readouterr().err
    assert "cannot install claude: npm ended with 1" in said
    assert "one" in said
    assert "two" in said
    assert "Unknown user config" not in said
    assert [place.name for place in folder.iterdir()] == ["claude"]
    monkeypatch.delenv("FAIL")
    monkeypatch.setenv("VERSION", "9.9.9")
    assert hive(folder, "install", "claude") == 1
    assert "--version ended with 0: 9.9.9 (Claude Code)" in capsys.readouterr().err
    assert (folder / "claude" / COMPLETE).read_text() == "2.0.0\n"


def test_without_npm_or_a_build_for_this_machine_it_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hive(folder, "install", "codex") == 2  # our npm brings no codex
    assert "it is not built for" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "/nowhere")
    assert hive(folder, "install", "claude") == 4
    assert "npm is not installed" in capsys.readouterr().err
