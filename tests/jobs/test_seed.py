"""H8: a template takes the place of a configuration, and nothing that was there is lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fixtures.jobs import Bench

from hive_core.host.git import seed
from hive_core.jobs import seed as job


@pytest.fixture
def place(bench: Bench) -> Path:
    """A configuration that an agent has worked in, and a template beside it."""
    bench.repo.write({"mine": b"work\n", "prompts/a.md": b"p\n"})
    (bench.repo.folder / "notes").write_text("not committed\n")
    (bench.repo.folder / "link").symlink_to("/etc/shadow")
    seed.write_clone("host", bench.root / "in/seed")
    return bench.repo.folder


def content(folder: Path) -> dict[str, str]:
    """Every file below, without the copies of earlier versions."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes().hex()
        for path in folder.rglob("*")
        if (path.is_symlink() or path.is_file()) and job.KEPT not in path.relative_to(folder).parts
    }


def test_a_template_is_put_in_place_and_what_was_there_is_kept_whole(
    bench: Bench, place: Path
) -> None:
    before = content(place)
    assert bench.run("seed", "123").ok
    assert content(place / job.KEPT / "123") == before
    assert content(place) == content(bench.root / "in/seed")
    assert bench.repo.git("status", "--porcelain") == ""
    assert bench.repo.git("rev-parse", "HEAD") == seed.seed("host").commit
    assert [path.name for path in (place / job.KEPT).iterdir()] == ["123"]


def test_a_second_time_keeps_both(bench: Bench, place: Path) -> None:
    assert bench.run("seed", "1").ok
    (place / "agent.toml").write_text("[harness]\n")
    assert bench.run("seed", "2").ok
    assert (place / job.KEPT / "1/mine").read_text() == "work\n"
    assert (place / job.KEPT / "2/agent.toml").read_text() == "[harness]\n"


def test_a_repeat_of_the_same_job_changes_nothing(bench: Bench, place: Path) -> None:
    assert bench.run("seed", "1").ok
    (place / "agent.toml").write_text("[harness]\n")
    assert bench.run("seed", "1").ok
    assert (place / "agent.toml").read_text() == "[harness]\n"
    assert sorted(path.name for path in (place / job.KEPT).iterdir()) == ["1"]


def test_a_job_that_dies_at_any_step_is_finished_by_the_next(
    bench: Bench, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R18: after each rename that there is; nothing is lost, and nothing is doubled."""
    before, wanted = content(place), content(bench.root / "in/seed")
    shutil.copytree(place, tmp_path / "copy", symlinks=True)
    rename = os.rename
    for step in range(100):
        shutil.rmtree(place)
        shutil.copytree(tmp_path / "copy", place, symlinks=True)
        left = step

        def dies(source: str | Path, target: str | Path) -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            rename(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", dies)
            try:
                job.run(["7"], bench.root)
                ended = True
            except KeyboardInterrupt:
                ended = False
        job.run(["7"], bench.root)
        assert content(place) == wanted, step
        assert content(place / job.KEPT / "7") == before, step
        if ended:
            break
    assert step > 8


def test_what_stands_where_things_are_kept_is_kept_too(
    bench: Bench, place: Path, tmp_path: Path
) -> None:
    """Attack 10: `.before` is a symlink of the agent's."""
    away = tmp_path / "away"
    away.mkdir()
    (place / job.KEPT).symlink_to(away)
    assert bench.run("seed", "5").ok
    assert list(away.iterdir()) == []
    assert (place / job.KEPT / "5" / f"{job.KEPT}.1").is_symlink()
    assert (place / "agent.toml").exists()


def test_a_time_is_a_number(bench: Bench, place: Path) -> None:
    assert not bench.run("seed", "../x").ok
    assert (place / "mine").exists()
