"""One reader serves both folders of the operator's texts: what it refuses, both refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hive_core.host.config.operator_texts import load_texts, text_faults

FILES = ("prompts/system.md", "skills/bees/SKILL.md")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(("make", "reason"), [
    (os.mkfifo, "is not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    (lambda path: path.symlink_to("gone"), "cannot read the file: No such file"),
    (lambda path: path.write_bytes(b"a\xff"), "not UTF-8 at byte 1"),
    (lambda path: path.write_bytes(b"x" * (1 << 20)), "larger than"),
])  # fmt: skip
def test_a_file_that_is_no_text_puts_its_folder_aside_and_the_daemon_starts(
    tmp_path: Path, file: str, make: object, reason: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    assert callable(make)
    make(path)
    texts = load_texts(tmp_path)
    assert {**texts.prompts, **texts.skills} == {}
    [fault] = text_faults(tmp_path)
    assert str(path) in fault
    assert reason in fault
    assert [alarm.partition(": ")[2] for alarm in texts.faults()] == [fault]
