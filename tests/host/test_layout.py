"""Row R20 for the storage: numbered steps, resumed after a kill anywhere, refused when newer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hive_core.errors import Internal
from hive_core.host.storage import layout
from hive_core.host.storage.stores import Stores
from hive_core.ledger.core.connection import TooNew
from hive_core.ledger.core.ledger import MIGRATIONS
from hive_core.model.config.settings import Paths, Settings


class Killed(Exception):
    """Instead of a kill."""


@pytest.fixture
def paths(folder: Path) -> Paths:
    return Paths(state=folder / "state", runtime=folder / "run")


def end_at(wanted: int) -> Callable[[str], None]:
    count = iter(range(1000))

    def step(_: str) -> None:
        if next(count) == wanted:
            raise Killed

    return step


def tree(paths: Paths) -> set[tuple[str, int]]:
    path = paths.state.rglob("*")
    return {(path.name, path.stat().st_mode & 0o7777) for path in path}


def test_a_storage_of_before_there_were_numbers_is_brought_up_to_date(paths: Paths) -> None:
    paths.state.mkdir()
    paths.work.mkdir(mode=0o755)
    (paths.work / "kept").touch()
    layout.migrate(paths)
    assert layout.read(paths.layout) == {layout.STORAGE: len(layout.STEPS)}
    assert {(folder_name, 0o700) for folder_name in ("work", "secrets")} <= tree(paths)
    assert (paths.work / "kept").exists()
    before = paths.layout.stat().st_mtime_ns
    layout.migrate(paths)
    assert paths.layout.stat().st_mtime_ns == before


@pytest.mark.parametrize("at", range(3 * len(layout.STEPS)))
def test_a_kill_between_any_two_parts_is_made_good_by_the_next_start(paths: Paths, at: int) -> None:
    paths.state.mkdir()
    with pytest.raises(Killed):
        layout.migrate(paths, end_at(at))
    layout.migrate(paths)
    assert layout.read(paths.layout) == {layout.STORAGE: len(layout.STEPS)}
    assert tree(paths) == {("layout", 0o644), ("work", 0o700), ("secrets", 0o700)}


def test_an_older_hived_refuses_a_newer_storage_and_touches_nothing(folder: Path) -> None:
    settings = Settings(paths=Paths(state=folder / "state", runtime=folder / "run"))
    settings.paths.state.mkdir()
    newer = len(layout.STEPS) + 1
    settings.paths.layout.write_text(f"storage {newer}\nledger 9\n")
    with pytest.raises(TooNew, match=f"has layout {newer}, but this hived knows only {newer - 1}"):
        Stores.open(settings)
    assert [path.name for path in settings.paths.state.iterdir()] == ["layout"]


def test_the_marker_says_the_schema_of_the_ledger_too(folder: Path) -> None:
    settings = Settings(paths=Paths(state=folder / "state", runtime=folder / "run"))
    settings.paths.state.mkdir()
    Stores.open(settings).ledger.close()
    ledger = len(list(MIGRATIONS.glob("*.sql")))
    assert layout.read(settings.paths.layout) == {
        layout.STORAGE: len(layout.STEPS), layout.LEDGER: ledger
    }  # fmt: skip


def test_a_marker_that_cannot_be_read_is_no_reason_to_begin_anew(paths: Paths) -> None:
    paths.state.mkdir()
    paths.layout.write_text("storage two\n")
    with pytest.raises(Internal, match="cannot read"):
        layout.migrate(paths)


def lay_out_older(paths: Paths) -> Path:
    """What the group could write to, and did; the repository of a destroyed agent."""
    paths.state.mkdir()
    applied = paths.applied / ".archive/11111111-1111-4111-8111-111111111111.git"
    for git in (paths.meta / ".git", applied):
        (git / "hooks").mkdir(parents=True)
        (git / "hooks/post-checkout").write_text("#!/bin/sh\n")
        (git / "config").write_text("[core]\n\tsharedRepository = group\n\tfsmonitor = /bin/evil\n")
        (git / "refs/tags").mkdir(parents=True)
        (git / "refs/tags/one").write_text("1" * 40)
        (git / "objects/11").mkdir(parents=True)
        (git / "objects/11/22").write_bytes(b"an object")
        for path in (git, *git.rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, -1, 65534)
            path.chmod(0o2775 if path.is_dir() else 0o664)
        os.mkfifo(git / "refs/pipe")
    (applied / "refs/link").symlink_to("/etc/passwd")
    return applied


def test_attack_59_repositories_of_an_older_version_become_the_daemons_alone(paths: Paths) -> None:
    """Operators' git could write there: settings, hooks and files that are open somewhere."""
    applied = lay_out_older(paths)
    theirs = [applied / "objects/11", applied / "objects/11/22", applied / "refs/tags/one"]
    if os.geteuid() == 0:
        for theirs_path in theirs:
            os.chown(theirs_path, 65534, 65534)
    held = (applied / "refs/tags/one").open("r+")
    layout.migrate(paths)
    held.write("2" * 40)
    held.close()
    for top in (paths.meta, paths.applied):
        for theirs_path in (top, *top.rglob("*")):
            facts = theirs_path.lstat()
            assert facts.st_uid == os.geteuid(), theirs_path
            assert theirs_path.is_symlink() or (facts.st_gid, facts.st_mode & 0o7077) == (
                os.getegid(),
                0,
            )
    for git in (paths.meta / ".git", applied):
        assert "fsmonitor" not in (git / "config").read_text()
        assert not (git / "hooks").exists()
        assert not (git / "refs/pipe").exists()
        assert (git / "objects/11/22").read_bytes() == b"an object"
        assert (git / "refs/tags/one").read_text() == "1" * 40
