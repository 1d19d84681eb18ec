"""A skill as it is handed over: the text of one SKILL.md, checked before anything is made of it.

The form is that of https://agentskills.io. Only `name` and `description` of the front matter are
read, as plain lines: the text comes from an agent.
"""

from __future__ import annotations

import re
from typing import Final

from hive_core.errors import InvalidArgument

SKILL_MOST: Final = 64 << 10
DESCRIPTION_MOST: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_FIELD: Final = "skill"


def check_skill(folder: str, text: str) -> str:
    """The name of the skill in this folder; InvalidArgument says what is wrong with it."""
    name = folder.rstrip("/").rpartition("/")[2]
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name[:64]!r} is not the name of a skill: small letters, digits and hyphens, at most"
            " 64", field="skill_path",
        )  # fmt: skip
    if not text.startswith("---\n"):
        raise InvalidArgument(f"{folder}/SKILL.md has no front matter", field=_FIELD)
    head, end, body = text[4:].partition("\n---\n")
    if not end or not body.strip():
        raise InvalidArgument(f"{folder}/SKILL.md has no instructions", field=_FIELD)
    if _value(head, "name") != name:
        raise InvalidArgument(
            f"{folder}/SKILL.md: its name must be that of the folder, {name}", field=_FIELD
        )
    if not 1 <= len(_value(head, "description")) <= DESCRIPTION_MOST:
        raise InvalidArgument(
            f"{folder}/SKILL.md: its description must have 1 to {DESCRIPTION_MOST} characters",
            field=_FIELD,
        )
    return name


def front_matter(text: str) -> str:
    """The lines before the instructions of a skill, with those of `---` around them."""
    head, end, _ = text.partition("\n---\n")
    return f"{head}{end}"


def _value(head: str, key: str) -> str:
    """The value of `key: value`, on one line or folded onto indented ones."""
    match = re.search(rf"^{key}:[ \t]*(.*(?:\n[ \t]+.*)*)", head, re.MULTILINE)
    text = " ".join(match[1].split()) if match else ""
    text = re.sub(r"^[>|][+-]? ?", "", text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
