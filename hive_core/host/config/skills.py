"""`/etc/hive/skills`: the operator's skills for the agents of this host.

Only the file SKILL.md of each skill is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.config.text_folder import TextFolder, read_text
from hive_core.model.work.skill import SKILL_MOST, check_skill, front_matter

FILE: Final = "SKILL.md"
SKILLS_MOST: Final = 64
BYTES_MOST: Final = 1 << 20
# Every turn of a session reads the front matter of all of them.
HEADS_MOST: Final = 64 << 10


def _read_folder(folder: Path) -> dict[str, str]:
    """The whole SKILL.md of each skill, by name."""
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
    text = read_text(folder / FILE, SKILL_MOST)
    check_skill(str(folder), text)
    return text


SKILLS: Final = TextFolder("skills", "agents have no skills of this host", _read_folder)
