"""Skills: folders with a SKILL.md, of which a model sees name and description until it needs more.

The form is that of https://agentskills.io: front matter between lines of `---`, with `name` (that
of the folder) and `description`; the instructions follow. The front matter is read as plain
`key: value` lines, without a YAML parser, which a container may not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument, NotFound

FILE: Final = "SKILL.md"
SKILLS_MOST: Final = 64
BODY_MOST: Final = 64 << 10
DESCRIPTION_MOST: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_CONTINUES: Final = re.compile(r"\s|- ")
_LINE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)")


def catalog(*folders: Path) -> list[dict[str, str]]:
    """Name and description of each skill in the folders, by name; others are passed over.

    Of two skills of one name the first counts.
    """
    rows: dict[str, dict[str, str]] = {}
    for folder in folders:
        for row in _rows(folder):
            rows.setdefault(row["name"], row)
    return [rows[name] for name in sorted(rows)]


def check_name(name: str) -> str:
    """The name, if it can be that of a skill; InvalidArgument."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name[:64]!r} is not the name of a skill", field="name")
    return name


def read_skill(name: str, *folders: Path) -> str:
    """The instructions of one skill, without its front matter."""
    check_name(name)
    for folder in folders:
        if any(row["name"] == name for row in _rows(folder)):
            return split_front_matter((folder / name / FILE).read_bytes())[1]
    names = ", ".join(row["name"] for row in catalog(*folders)) or "none"
    raise NotFound(f"no skill {name}; there are: {names}")


def _rows(folder: Path) -> Iterator[dict[str, str]]:
    places = sorted(folder.glob(f"*/{FILE}"))
    for place in places[:SKILLS_MOST]:
        name = place.parent.name
        fields, _ = split_front_matter(place.read_bytes()[:BODY_MOST])
        description = fields.get("description", "")
        if _NAME.fullmatch(name) and fields.get("name", name) == name and description:
            yield {"name": name, "description": description[:DESCRIPTION_MOST]}


def split_front_matter(data: bytes) -> tuple[dict[str, str], str]:
    """The fields of the front matter, and the text after it."""
    text = data[:BODY_MOST].decode(errors="replace").replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return {}, text
    head, end, body = text[4:].partition("\n---\n")
    return dict(_fields(head)) if end else {}, body.lstrip("\n") if end else text


def _fields(head: str) -> Iterator[tuple[str, str]]:
    """`key: value` lines; a value may go on in indented lines or in a list, as in YAML."""
    key, value = "", ""
    for line in (*head.split("\n"), "end:"):
        match = _LINE.fullmatch(line)
        if match is None:
            value = f"{value} {line.strip()}" if _CONTINUES.match(line) else value
            continue
        if key:
            yield key, _plain(value)
        key, value = match[1], match[2]


def _plain(value: str) -> str:
    """A scalar: without quotes around it, and without the signs of a folded text."""
    text = re.sub(r"^[>|][+-]?\s*", "", value.strip()).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return " ".join(text.split())
