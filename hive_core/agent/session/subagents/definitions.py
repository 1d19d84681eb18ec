"""Named sub-agents: `agents/NAME.md` of the deployed configuration, front matter and instructions.

`tools` is a list of the agent's own tools; absent: all of them; `"."`: the name stands for a clone.
`disallowedTools` takes some away. `skills` is a list of the agent's skills; absent: all of them.
Files of other programs are read as far as they fit, as `tool_words` says.
`network` is a list of rules `NAME:PORT`, or `inherit`; absent: it has no network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.agent.session.tool_words import (
    ChosenTools,
    choose_tools,
    split_tool_words,
)
from hive_core.agent.skills import BODY_MOST, split_front_matter
from hive_core.errors import InvalidArgument, NotFound

SELF: Final = "."
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_SKILL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_RULE: Final = re.compile(r"[A-Za-z0-9_*.:-]*[A-Za-z0-9]", re.ASCII)
_INHERIT: Final = ("", "inherit")


@dataclass(frozen=True, slots=True)
class SubagentDefinition:
    """One file. `tools` None: all of the agent; `model` empty: the default.

    `removed`: tools that it is not to have. `skills` None: all of the agent that its tools allow.
    `network`: rules of its connections, or `inherit`; empty: none.
    """

    name: str
    instructions: str
    tools: tuple[str, ...] | None = None
    removed: tuple[str, ...] = ()
    model: str = ""
    network: tuple[str, ...] = ()
    is_clone: bool = False
    skills: tuple[str, ...] | None = None

    def choose_tools(self, owned: Iterable[str]) -> ChosenTools:
        """Its tools among those of the agent; InvalidArgument says why it cannot have them."""
        try:
            return choose_tools(owned, self.tools, self.removed)
        except InvalidArgument as error:
            raise InvalidArgument(
                f"cannot fork {self.name}: {error.reason}", field="tools"
            ) from None


def read_definition(folder: Path, name: str) -> SubagentDefinition:
    """The definition of this name; NotFound lists those that are there."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name[:64]!r} is not the name of a sub-agent: lower case words joined by hyphens",
            field="agent",
        )
    try:
        data = (folder / f"{name}.md").read_bytes()[:BODY_MOST]
    except (FileNotFoundError, NotADirectoryError):
        names = ", ".join(sorted(file.stem for file in folder.glob("*.md"))) or "none"
        raise NotFound(f"no sub-agent {name} in {folder.name}/; there are: {names}") from None
    fields, body = split_front_matter(data)
    if _plain_name(fields.get("name", name)) != name:
        raise InvalidArgument(f"{name}.md: name: it is {fields['name'][:64]!r}", field="name")
    network = tuple(_RULE.findall(fields.get("network", "")))
    tools, model = fields.get("tools"), fields.get("model", "")
    if tools == SELF:
        return SubagentDefinition(name, body, network=network, is_clone=True)
    return SubagentDefinition(
        name, body, None if tools is None else split_tool_words(tools),
        split_tool_words(fields.get("disallowedTools", "")),
        "" if model in _INHERIT else model, network,
        skills=tuple(_SKILL.findall(fields["skills"])) if "skills" in fields else None,
    )  # fmt: skip


def _plain_name(name: str) -> str:
    """A name with capitals, spaces or underscores as hive writes names."""
    return "-".join(name.lower().replace("_", " ").split())
