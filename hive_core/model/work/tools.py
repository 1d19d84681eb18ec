"""The one table of tools, and the entries of an allow-list: a tool, perhaps with an argument.

An entry is `read`, `bash` or `edit`, or one of them with a pattern: `bash(git *)`, `read(docs/*)`.
A pattern is a list of words (of a command, or of a path cut at its slashes). What is asked for is
a list of words too, and the two are compared word by word: no text is ever taken apart by a shell.
A last word `*` stands for anything further, also nothing; without it the words are all there may
be.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from typing_extensions import override

from hive_core.errors import InvalidArgument

WORDS_MOST: Final = 64
ENTRY_MOST: Final = 400
_ENTRY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})(?:\((.*)\))?", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z0-9._/+=:@,%~-]+", re.ASCII)
_REST: Final = "*"


class ToolKind(StrEnum):
    """What a tool is for. Only execution is done by a program of the agent's own container."""

    EXECUTION = "execution"
    PLANNING = "planning"
    CONVERSATION = "conversation"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of execution. `path`: its argument is a path; else it is a command."""

    name: str
    aliases: tuple[str, ...]
    path: bool
    summary: str
    kind: ToolKind = ToolKind.EXECUTION


TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({
    each.name: each for each in (
        Tool("bash", ("command", "run_command"), False, "Run a program."),  # noqa: FBT003
        Tool("edit", ("edit_file", "write", "write_file"), True, "Write or change a file."),  # noqa: FBT003
        Tool("read", ("file_reader", "read_file"), True, "Read a file."),  # noqa: FBT003
    )
})  # fmt: skip
_NAMES: Final = {
    name: each for each in TOOLS.values() for name in (each.name, *each.aliases)
}  # fmt: skip


class ToolEntry(NamedTuple):
    """One line of an allow-list. `words` None: any argument; `rest`: anything further."""

    tool: str
    words: tuple[str, ...] | None = None
    rest: bool = False

    def matches(self, argument: Sequence[str]) -> bool:
        """Whether it allows the tool with this argument."""
        if self.words is None:
            return True
        given, size = tuple(argument), len(self.words)
        return given[:size] == self.words and (self.rest or len(given) == size)

    def covers(self, other: ToolEntry) -> bool:
        """Whether everything that the other allows is allowed by this one."""
        if self.tool != other.tool or self.words is None:
            return self.tool == other.tool
        if other.words is None or (other.rest and not self.rest):
            return False
        return self.matches(other.words)

    @override
    def __str__(self) -> str:
        if self.words is None:
            return self.tool
        words = (*self.words, _REST) if self.rest else self.words
        return f"{self.tool}({('/' if TOOLS[self.tool].path else ' ').join(words)})"


def find_tool(name: str) -> Tool:
    """The tool of this name or alias, in any case; InvalidArgument names the nearest."""
    found = _NAMES.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), _NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(TOOLS)}"
        raise InvalidArgument(f"no tool {name[:64]!r}{hint}", field="tool")
    return found


def parse_entry(text: str) -> ToolEntry:
    """The entry that the text says, or InvalidArgument."""
    found = _ENTRY.fullmatch(text.strip()) if len(text) <= ENTRY_MOST else None
    if found is None:
        raise InvalidArgument(f"{text[:64]!r} is no tool and no tool(argument)", field="tools")
    named = find_tool(found[1])
    pattern = found[2]
    if pattern is None:
        return ToolEntry(named.name)
    words = _split_pattern(named, pattern.strip())
    rest = bool(words) and words[-1] == _REST
    literal = words[:-1] if rest else words
    for word in literal:
        if not _WORD.fullmatch(word) or (named.path and word in (".", "..")):
            raise InvalidArgument(
                f"{text!r}: {word!r} is no plain word; * stands alone, and last", field="tools"
            )
    if not literal:
        if not rest:
            raise InvalidArgument(f"{text!r} has an empty argument", field="tools")
        return ToolEntry(named.name)
    return ToolEntry(named.name, literal, rest)


def _split_pattern(named: Tool, pattern: str) -> tuple[str, ...]:
    if named.path:
        return tuple(pattern.split("/")) if pattern else ()
    return tuple(pattern.split())


def normalized_entries(texts: Iterable[str]) -> tuple[str, ...]:
    """The entries in their one spelling, sorted, without those that others cover."""
    found = sorted({parse_entry(text) for text in texts}, key=str)
    return tuple(
        str(each) for each in found
        if not any(other != each and other.covers(each) for other in found)
    )  # fmt: skip


def check_argument(named: Tool, words: Sequence[str]) -> tuple[str, ...]:
    """What is asked for, as the words that patterns are compared with; InvalidArgument."""
    if any("\0" in word for word in words):
        raise InvalidArgument("the argument has a NUL in it", field="argument")
    if not named.path:
        if not words or not words[0]:
            raise InvalidArgument("the argument must start with a program", field="argument")
        return tuple(words)
    if len(words) != 1:
        raise InvalidArgument(f"{named.name} takes one path", field="argument")
    parts = tuple(words[0].split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidArgument(
            f"{words[0][:64]!r} is no plain path below the workspace", field="argument"
        )
    return parts


def missing_entries(held: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """What of `wanted` no entry of `held` covers; empty for a subset."""
    owned = [parse_entry(each) for each in held]
    return tuple(
        each for each in wanted if not any(other.covers(parse_entry(each)) for other in owned)
    )
