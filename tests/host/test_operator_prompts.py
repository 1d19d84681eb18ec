"""/etc/hive/prompts as hived reads it: whole, or not at all and said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_core.host.config.prompts import BYTES_MOST, FILES_MOST, PROMPTS
from hive_core.model.config.prompts import FILE_MOST


def test_files_are_read_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "worker.md").write_text("täglich")
    (tmp_path / "manifest.toml").write_text("")
    loaded = PROMPTS.load(tmp_path)
    assert loaded.texts == {"manifest.toml": "", "roles/worker.md": "täglich"}
    assert loaded.faults() == PROMPTS.faults(tmp_path) == []


def test_a_folder_that_is_not_there_has_no_prompts(tmp_path: Path) -> None:
    loaded = PROMPTS.load(tmp_path / "none")
    assert (loaded.texts, loaded.fault) == ({}, "")


@pytest.mark.parametrize(("name", "data", "reason"), [
    ("README.md", b"x", "README.md"),
    ("a.txt", b"x", "a.txt"),
    ("other.toml", b"x", "other.toml"),
    ("a.md", b"\xff", "not UTF-8 at byte 0"),
    ("a.md", b"x" * (FILE_MOST + 1), "larger than"),
])  # fmt: skip
def test_one_fault_puts_the_whole_folder_aside_and_is_an_alarm(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    (tmp_path / "system.md").write_text("fine")
    (tmp_path / name).write_bytes(data)
    loaded = PROMPTS.load(tmp_path)
    assert loaded.texts == {}
    assert reason in loaded.fault
    assert loaded.faults()
    assert PROMPTS.faults(tmp_path) == [loaded.fault]


def test_the_folder_is_bounded_in_files_and_in_bytes(tmp_path: Path) -> None:
    for number in range(FILES_MOST + 1):
        (tmp_path / f"f{number}.md").touch()
    assert "more than 64 files" in PROMPTS.load(tmp_path).fault
    for path in tmp_path.iterdir():
        path.unlink()
    for number in range(BYTES_MOST // FILE_MOST + 1):
        (tmp_path / f"f{number}.md").write_bytes(b"x" * FILE_MOST)
    assert "bytes of prompts" in PROMPTS.load(tmp_path).fault


def test_a_link_that_leads_nowhere_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to(tmp_path / "gone")
    assert "cannot read the file" in PROMPTS.load(tmp_path).fault
