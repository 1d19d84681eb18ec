"""`/etc/hive/skills`: the operator's skills for the agents of this host, read when hived starts.

A folder with a fault has no effect, and the operator gets an alarm; a reload with a fault is
refused. Only the file SKILL.md of each skill is read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.work.skill import SKILL_MOST, check_skill, front_matter

log = logging.getLogger(__name__)
SKILLS: Final = "skills"
FILE: Final = "SKILL.md"
SKILLS_MOST: Final = 64
BYTES_MOST: Final = 1 << 20
# Every turn of a session reads the front matter of all of them.
HEADS_MOST: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class LoadedSkills:
    """The texts by the names of the skills. With a `fault` there are none."""

    texts: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""

    def faults(self) -> list[str]:
        """What the operator has to mend."""
        return [f"agents have no skills of this host: {self.fault}"] if self.fault else []


def load_skills(folder: Path) -> LoadedSkills:
    """The skills in the folder; none if it does not exist."""
    try:
        return LoadedSkills(_read_folder(folder))
    except InvalidArgument as error:
        log.critical("Cannot use the skills: %s", error)
        return LoadedSkills(fault=str(error))


def skills_faults(folder: Path) -> list[str]:
    """Why the folder cannot be used; empty if it can."""
    try:
        _read_folder(folder)
    except InvalidArgument as error:
        return [str(error)]
    return []


def _read_folder(folder: Path) -> dict[str, str]:
    texts = {path.name: _read_skill(path) for path in _folders_in(folder)}
    heads = sum(len(front_matter(text).encode()) for text in texts.values())
    size = sum(len(text.encode()) for text in texts.values())
    if len(texts) > SKILLS_MOST or size > BYTES_MOST or heads > HEADS_MOST:
        raise InvalidArgument(
            f"{folder}: has more than {SKILLS_MOST} skills, {BYTES_MOST} bytes, or {HEADS_MOST}"
            " bytes of front matter"
        )
    return texts


def _folders_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidArgument(f"{folder}: cannot read the folder: {error.strerror}") from error


def _read_skill(folder: Path) -> str:
    path = folder / FILE
    try:
        with path.open("rb") as file:
            data = file.read(SKILL_MOST + 1)
        text = data.decode()
    except OSError as error:
        raise InvalidArgument(f"{path}: cannot read the file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: not UTF-8 at byte {error.start}") from error
    if len(data) > SKILL_MOST:
        raise InvalidArgument(f"{path}: larger than {SKILL_MOST} bytes")
    check_skill(str(folder), text)
    return text
