"""What an agent sees of its deployed configuration: plain files, changed in one step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from hive_core.errors import Internal, NotFound
from hive_core.host.config.deployed_configs import ROOM, show_config, shown_commit
from hive_core.plan import nar

ONE, TWO, THREE = "1" * 40, "2" * 40, "3" * 40


def archive(text: str) -> bytes:
    return nar.pack({"AGENTS.md": (False, text.encode()), "bin/run": (True, b"#!/bin/sh\n")})


def never() -> NoReturn:
    raise AssertionError("it is there already")


def test_files_are_shown_to_every_user_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        show_config(tmp_path, ONE, lambda: archive("one"))
    finally:
        os.umask(before)
    assert (tmp_path / "config/AGENTS.md").read_text() == "one"
    modes = {
        str(path.relative_to(tmp_path / ROOM / ONE)): path.stat().st_mode & 0o777
        for path in (tmp_path / ROOM / ONE).rglob("*")
    }
    assert modes == {"AGENTS.md": 0o644, "bin": 0o755, "bin/run": 0o755}
    assert (tmp_path / ROOM).stat().st_mode & 0o777 == 0o755
    assert shown_commit(tmp_path) == ONE


def test_a_new_version_takes_its_place_and_the_old_one_stays_for_its_readers(
    tmp_path: Path,
) -> None:
    for commit, text in ((ONE, "one"), (TWO, "two"), (THREE, "three")):
        show_config(tmp_path, commit, lambda text=text: archive(text))  # type: ignore[misc]
    assert (tmp_path / "config/AGENTS.md").read_text() == "three"
    assert {path.name for path in (tmp_path / ROOM).iterdir()} == {TWO, THREE}
    show_config(tmp_path, TWO, never)
    assert (tmp_path / "config/AGENTS.md").read_text() == "two"


def test_what_a_killed_daemon_left_half_written_is_not_shown(tmp_path: Path) -> None:
    half = tmp_path / ROOM / ".new"
    half.mkdir(parents=True)
    (half / "AGENTS.md").write_text("half")
    show_config(tmp_path, ONE, lambda: archive("one"))
    assert (tmp_path / "config/AGENTS.md").read_text() == "one"
    assert [path.name for path in (tmp_path / ROOM).iterdir()] == [ONE]


def test_none_is_shown_when_there_is_none(tmp_path: Path) -> None:
    show_config(tmp_path, ONE, lambda: archive("one"))
    show_config(tmp_path, "", never)
    assert not (tmp_path / "config").is_symlink()
    assert shown_commit(tmp_path) == ""


def test_what_cannot_be_read_or_has_no_socket_directory_changes_nothing(tmp_path: Path) -> None:
    show_config(tmp_path, ONE, lambda: archive("one"))
    with pytest.raises(Internal):
        show_config(tmp_path, TWO, lambda: b"no archive")
    assert shown_commit(tmp_path) == ONE
    with pytest.raises(NotFound):
        show_config(tmp_path / "none", ONE, lambda: archive("one"))
