"""/etc/hive/skills as hived reads it: whole, or not at all and said so (Q47)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_core.host.config.skills import HEADS_MOST, SKILLS, SKILLS_MOST
from hive_core.model.work.skill import SKILL_MOST, front_matter

HEAD = "---\nname: {name}\ndescription: {text}\nallowed-tools: Read\n---\n"


def write(folder: Path, name: str, text: str = "Use it.", body: str = "Do it so.\n") -> str:
    content = HEAD.format(name=name, text=text) + body
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "SKILL.md").write_text(content)
    return content


def test_skills_are_read_by_their_names_and_other_files_are_not(tmp_path: Path) -> None:
    content = write(tmp_path, "bees")
    (tmp_path / "README.md").write_text("what is here")
    (tmp_path / "bees" / "more.txt").write_bytes(b"\xff")
    loaded = SKILLS.load(tmp_path)
    assert loaded.texts == {"bees": content}
    assert loaded.faults() == SKILLS.faults(tmp_path) == []
    assert front_matter(content) + "Do it so.\n" == content
    assert SKILLS.load(tmp_path / "none").texts == {}


@pytest.mark.parametrize(("name", "data", "reason"), [
    ("Bad", b"x", "is not the name of a skill"),
    ("b", b"x", "no front matter"),
    ("b", b"---\nname: c\ndescription: x\n---\nx", "its name must be that of the folder"),
    ("b", b"\xff", "not UTF-8 at byte 0"),
    ("b", b"x" * (SKILL_MOST + 1), "larger than"),
    ("b", None, "cannot read the file"),
])  # fmt: skip
def test_one_fault_puts_the_whole_folder_aside_and_is_an_alarm(
    tmp_path: Path, name: str, data: bytes | None, reason: str
) -> None:
    write(tmp_path, "bees")
    (tmp_path / name).mkdir()
    if data is not None:
        (tmp_path / name / "SKILL.md").write_bytes(data)
    loaded = SKILLS.load(tmp_path)
    assert loaded.texts == {}
    assert reason in loaded.fault
    assert loaded.faults()
    assert SKILLS.faults(tmp_path) == [loaded.fault]


def test_the_folder_is_bounded_in_skills_and_in_what_every_turn_reads(tmp_path: Path) -> None:
    for number in range(SKILLS_MOST):
        write(tmp_path, f"s{number}")
    assert not SKILLS.load(tmp_path).fault
    write(tmp_path, "one-more")
    assert "more than 64 skills" in SKILLS.load(tmp_path).fault
    for number in range(SKILLS_MOST):
        write(tmp_path, f"s{number}", "x" * (HEADS_MOST // SKILLS_MOST))
    (tmp_path / "one-more" / "SKILL.md").unlink()
    (tmp_path / "one-more").rmdir()
    assert "bytes of front matter" in SKILLS.load(tmp_path).fault
