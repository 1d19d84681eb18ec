"""The words for tools in `agents/NAME.md` and in skills: those of hive or of another program.

They choose among the tools of the agent and never add one. A word of another program that stands
for nothing the agent could give is left out, and the fork says so; a tool of hive that the agent
lacks is an error, since the definition was written for an agent that has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hive_core.agent.tool_input import TOOLS, tool_name
from hive_core.errors import InvalidArgument
from hive_core.model.agents.foreign_words import MCP_PREFIX, MISSING_TOOLS, TOOL_NAMES

# A word, with what stands in brackets behind it: Bash(git log:*).
_WORD: Final = re.compile(r"[A-Za-z_*][A-Za-z0-9_.*-]*(?:\([^)]*\))?", re.ASCII)
_EVERYTHING: Final = ("*", "all")
_SERVERS: Final = "the agent's own MCP servers do not serve sub-agents"
_PART: Final = "a sub-agent has a whole tool or none; list it without brackets"
_UNKNOWN: Final = "hive has no such tool"


@dataclass(frozen=True, slots=True)
class ChosenTools:
    """The tools of a sub-agent, in the order of its agent's, and what was left out and why."""

    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def split_tool_words(text: str) -> tuple[str, ...]:
    """The words of a list, however it is written: with commas, spaces, brackets or hyphens."""
    return tuple(_WORD.findall(text))


def choose_tools(
    owned: Iterable[str], words: Iterable[str] | None, removed: Iterable[str] = ()
) -> ChosenTools:
    """Those of the agent's tools that the words name; None: all but those that are removed.

    InvalidArgument names a tool of hive that the agent lacks, or says why none is left.
    """
    names = list(owned)
    gone = {hive_name(word.partition("(")[0], names) for word in removed}
    if not gone.isdisjoint(_EVERYTHING):
        gone = set(names)
    listed = None if words is None else list(words)
    if listed is None or any(word.lower() in _EVERYTHING for word in listed):
        return ChosenTools(tuple(name for name in names if name not in gone))
    chosen: set[str] = set()
    warnings: list[str] = []
    for word in listed:
        if reason := missing_reason(word, names):
            warnings.append(f"tools: {word[:64]}: left out: {reason}")
        else:
            chosen.add(_owned_name(word, names))
    remaining = tuple(name for name in names if name in chosen and name not in gone)
    if listed and not remaining:
        why = "; ".join(warnings) or "disallowedTools takes them all away"
        raise InvalidArgument(f"none of its tools is left: {why}", field="tools")
    return ChosenTools(remaining, tuple(warnings))


def hive_name(word: str, owned: Collection[str]) -> str:
    """The name that hive has for the tool; an owned name stands for itself."""
    if word in owned:
        return word
    name = tool_name(word.lower())
    return TOOL_NAMES.get(name, name)


def _owned_name(word: str, owned: Collection[str]) -> str:
    name = hive_name(word, owned)
    if name not in owned:
        raise InvalidArgument(f"tools: you have no tool {name[:64]}", field="tools")
    return name


def missing_reason(word: str, owned: Collection[str]) -> str:
    """Why the word of another program stands for no tool here; empty where it may stand for one."""
    name, bracket, _ = word.partition("(")
    here = hive_name(name, owned)
    if bracket:
        return _PART
    if here in owned or here in TOOLS:
        return ""
    if name.lower().startswith(MCP_PREFIX):
        return _SERVERS
    return MISSING_TOOLS.get(name.lower(), "" if name == name.lower() else _UNKNOWN)
