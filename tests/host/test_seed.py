"""The template as a commit: known beforehand, the same everywhere, a clone that git likes."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from hive_core.host.git import seed
from hive_core.model.config.seed import SEEDS, template_name
from hive_core.plan import nar

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.check_output(command, env=ENVIRONMENT, text=True).strip()


@pytest.mark.parametrize("kind", seed.LAYERS)
def test_git_finds_in_the_clone_what_the_daemon_says_of_it(kind: str, tmp_path: Path) -> None:
    """H8: what spawn says that the configuration starts with is what the agent finds."""
    seed.write_clone(kind, tmp_path / "seed")
    expected = seed.seed(kind)
    assert (expected.commit, expected.nar) == SEEDS[kind]
    assert git(tmp_path / "seed", "rev-parse", "main", "main^{tree}").split() == [
        expected.commit, expected.tree,
    ]  # fmt: skip
    assert git(tmp_path / "seed", "status", "--porcelain") == ""
    assert git(tmp_path / "seed", "fsck", "--strict") == ""
    listed = git(tmp_path / "seed", "ls-tree", "-r", "--name-only", "main").split("\n")
    assert sorted(listed) == sorted(expected.files)
    assert nar.digest(nar.pack(expected.files)) == expected.nar


def test_a_clone_that_is_right_stays_and_a_broken_one_is_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "seed"
    seed.write_clone("host", place)
    before = place.stat().st_ino
    seed.write_clone("host", place)
    assert place.stat().st_ino == before
    (place / ".git/refs/heads/main").write_text("torn")
    seed.write_clone("host", place)
    assert git(place, "status", "--porcelain") == ""
    assert git(place, "rev-parse", "HEAD") == SEEDS["host"].commit


def test_every_user_may_read_the_clone_and_it_runs_nothing(tmp_path: Path) -> None:
    seed.write_clone("nix", tmp_path / "seed")
    assert not (tmp_path / "seed/.git/hooks").exists()
    for path in (tmp_path / "seed").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def test_only_the_nix_image_starts_with_a_module() -> None:
    assert set(seed.seed("nix").files) - set(seed.seed("host").files) == {"agent.nix"}
    assert [template_name(image) for image in ("nix", "host", "debian")] == ["nix", "host", "host"]


def test_the_template_is_part_of_the_package() -> None:
    root = Path(seed.__file__).parents[3]
    setuptools_table = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = setuptools_table["package-data"]["hive_core"]
    packed = {path for pattern in patterns for path in (root / "hive_core").glob(pattern)}
    there = {path for path in seed.ROOM.rglob("*") if path.is_file()}
    assert there
    assert there <= packed
