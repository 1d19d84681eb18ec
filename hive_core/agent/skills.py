"""Skills: folders with a SKILL.md, of which a model sees name and description until it needs more.

The form is that of https://agentskills.io: front matter between lines of `---`, with `name` (that
of the folder) and `description`; the instructions follow. The front matter is read as plain
`key: value` lines, without a YAML parser, which a container may not have.

`roles`, `phases` and `tools` say who sees a skill. `allowed-tools` is for the session: while the
skill is followed, it takes tools away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from hive_core.errors import InvalidArgument, NotFound
from hive_core.varlink import Message

FILE: Final = "SKILL.md"
SKILLS_MOST: Final = 64
BODY_MOST: Final = 64 << 10
DESCRIPTION_MOST: Final = 1024
# The scopes, in the order in which the first one that has a name counts.
CONFIGURATION, COLONY, HOST = "configuration", "colony", "host"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_CONTINUES: Final = re.compile(r"\s|- ")
_LINE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class SkillFolder(NamedTuple):
    """A folder of skills. A file that a link leads to outside of `root` is none of its skills."""

    scope: str
    place: Path
    root: Path


@dataclass(frozen=True, slots=True)
class SkillReader:
    """An agent that skills are for; `phase` is that of a queen."""

    role: str = ""
    profile: str = ""
    phase: str = ""
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Skill:
    """The front matter of one skill. `roles`, `phases`: None for all; `file` None: of the host."""

    name: str
    description: str
    scope: str
    roles: frozenset[str] | None = None
    phases: frozenset[str] | None = None
    tools: frozenset[str] = frozenset()
    allowed_tools: str | None = None
    file: Path | None = None

    def is_for(self, reader: SkillReader) -> bool:
        """Whether this agent sees the skill: by its role or profile, its phase and its tools."""
        has_role = self.roles is None or not self.roles.isdisjoint({reader.role, reader.profile})
        has_phase = self.phases is None or reader.phase in self.phases
        return has_role and has_phase and self.tools <= reader.tools

    @property
    def is_for_all(self) -> bool:
        """Whether it is for every agent that has it."""
        return self.roles is None and self.phases is None and not self.tools

    @property
    def row(self) -> Message:
        """What prompts and the session know of it."""
        limits: Message = (
            {} if self.allowed_tools is None else {"allowed_tools": self.allowed_tools}
        )
        return {
            "name": self.name, "description": self.description, "scope": self.scope,
            "tools": sorted(self.tools), **limits,
        }  # fmt: skip

    @classmethod
    def of(cls, name: str, scope: str, data: bytes, file: Path | None = None) -> Skill | None:
        """The skill of this name in the text of its file; None where it is none."""
        fields, _ = split_front_matter(data)
        description = fields.get("description", "")
        if not (_NAME.fullmatch(name) and fields.get("name", name) == name and description):
            return None
        return cls(
            name, description[:DESCRIPTION_MOST], scope, _words(fields, "roles"),
            _words(fields, "phases"), _words(fields, "tools") or frozenset(),
            fields.get("allowed-tools"), file,
        )  # fmt: skip


def find_skills(
    folders: Iterable[SkillFolder], host: Mapping[str, str] | None = None
) -> dict[str, Skill]:
    """The skills by name. Of several of one name the first counts; those of the host come last.

    `host`: the front matter of the operator's skills, by name.
    """
    skills: dict[str, Skill] = {}
    for folder in folders:
        for skill in _skills_in(folder):
            skills.setdefault(skill.name, skill)
    for name, text in (host or {}).items():
        shared = Skill.of(name, HOST, text.encode(errors="replace"))
        if shared is not None:
            skills.setdefault(name, shared)
    return {name: skills[name] for name in sorted(skills)}


def check_name(name: str) -> str:
    """The name, if it can be that of a skill; InvalidArgument."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name[:64]!r} is not the name of a skill", field="name")
    return name


def missing_skill(name: str, names: Iterable[str]) -> NotFound:
    """The error for a skill that the agent does not have."""
    return NotFound(f"no skill {name[:64]}; there are: {', '.join(names) or 'none'}")


def instructions(data: bytes) -> str:
    """The text of a skill, without its front matter."""
    return split_front_matter(data)[1]


def _skills_in(folder: SkillFolder) -> Iterator[Skill]:
    root = folder.root.resolve()
    for file in sorted(folder.place.glob(f"*/{FILE}"))[:SKILLS_MOST]:
        if not file.resolve().is_relative_to(root):
            continue  # nobody approved what stands there
        skill = Skill.of(
            file.parent.name, folder.scope, file.read_bytes()[:BODY_MOST], file
        )  # fmt: skip
        if skill is not None:
            yield skill


def _words(fields: Mapping[str, str], key: str) -> frozenset[str] | None:
    """The words of a list; None where the front matter does not have it."""
    return frozenset(_WORD.findall(fields[key])) if key in fields else None


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
