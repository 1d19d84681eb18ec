"""What hive-git tells the git of operators, and what it does not."""

import os
import subprocess
from pathlib import Path

import hive_core

SCRIPT = Path(hive_core.__file__).parent / "privd" / "hive-git"
UUID = "0b5c7a52-8f0c-4a58-9b43-7d1f7a6f3c10"


def listed(machine: Path) -> list[str]:
    """Run the script with a folder in place of `/`; the paths that git is told of."""
    text = SCRIPT.read_text()
    for place in ("/var/lib/hive", "/run/hive", "/etc/hive"):
        (machine / place[1:]).mkdir(parents=True, exist_ok=True)
        text = text.replace(place, f"{machine}{place}")
    subprocess.run(["sh", "-c", text], check=True)
    ask = ["git", "config", "--file", f"{machine}/etc/hive/gitconfig", "--get-all",
           "safe.directory"]  # fmt: skip
    said = subprocess.run(ask, capture_output=True, text=True, check=False).stdout
    return [line.removeprefix(f"{machine}/var/lib/hive/") for line in said.splitlines()]


def test_only_the_daemons_repositories_are_named(tmp_path: Path) -> None:
    applied = tmp_path / "var/lib/hive/applied"
    for name in (f"{UUID}.git", "alice.git", f"{UUID}.git.git", "x\n[core]\n\tfsmonitor = sh.git"):
        (applied / name).mkdir(parents=True)
    (applied / "alice").symlink_to(f"{UUID}.git")
    (applied.parent / "meta").mkdir()
    assert listed(tmp_path) == [f"applied/{UUID}.git", "meta"]
    assert "fsmonitor" not in (tmp_path / "etc/hive/gitconfig").read_text()


def test_before_there_is_any_none_is_named(tmp_path: Path) -> None:
    assert listed(tmp_path) == []


def test_the_request_is_taken_away_whatever_it_is(tmp_path: Path) -> None:
    """Else the path unit would ask for ever."""
    asked = tmp_path / "run/hive/applied.changed"
    asked.mkdir(parents=True)
    (asked / "more").touch()
    listed(tmp_path)
    assert not asked.exists()


def test_git_believes_the_file_by_an_include(tmp_path: Path) -> None:
    """Without the line the repository of somebody else is refused."""
    repo = tmp_path / f"var/lib/hive/applied/{UUID}.git"
    subprocess.run(["git", "init", "-q", "--bare", str(repo)], check=True)
    for path in (repo, *repo.rglob("*")):
        os.chown(path, 65534, 65534)
    system = tmp_path / "gitconfig"
    system.write_text(f"[include]\n\tpath = {tmp_path}/etc/hive/gitconfig\n")
    variables = {**os.environ, "GIT_CONFIG_SYSTEM": str(system), "GIT_CONFIG_GLOBAL": os.devnull}
    ask = ["git", "-C", str(repo), "rev-parse", "--git-dir"]
    assert subprocess.run(ask, env=variables, capture_output=True, check=False).returncode == 128
    assert f"applied/{UUID}.git" in listed(tmp_path)
    assert subprocess.run(ask, env=variables, capture_output=True, check=False).returncode == 0
