"""The table of tools, and the entries of an allow-list: a tool, perhaps with an argument.

An entry is a tool such as `read`, or a tool with a pattern: `bash(git *)`, `read(docs/*)`.
A pattern is a list of words (of a command, or of a path cut at its slashes). A requested argument
is a list of words too, and the two are compared word by word: a shell never splits a text. A last
word `*` matches any further words, or none; without it the argument must have exactly these words.
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
    """One tool of execution. `path`: its argument is a path; else it is a command.

    `whole`: without a path it works on the whole workspace. `reads`: it changes nothing.
    `parameters`: what a model sets, as properties of a JSON schema; `required`: those that it must
    set.
    """

    name: str
    aliases: tuple[str, ...]
    summary: str
    parameters: Mapping[str, Mapping[str, object]]
    required: tuple[str, ...] = ("path",)
    path: bool = True
    whole: bool = False
    reads: bool = False
    kind: ToolKind = ToolKind.EXECUTION


def _text(description: str) -> Mapping[str, object]:
    return {"type": "string", "description": description}


_PATH: Final = _text("Path below the workspace, such as src/main.py.")
_FOLDER: Final = _text("File or folder below the workspace; absent: the whole workspace.")

TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({
    tool.name: tool for tool in (
        Tool(
            "bash", ("command", "run_command"),
            "Run a command line in the workspace, and return its output and its exit status.",
            {
                "command": _text(
                    "Command line. One with quotes, pipes or other signs of the shell is run by sh."
                ),
                "seconds": {
                    "type": "number", "exclusiveMinimum": 0, "maximum": 3600, "default": 30,
                    "description": "Time limit; the command and all that it started end with it.",
                },
            },
            required=("command",), path=False,
        ),
        Tool(
            "edit", ("edit_file", "write", "write_file"),
            "Change a file, or write a whole one. The result has at most 50 KiB.",
            {
                "path": _PATH,
                "new": _text("The new text."),
                "old": _text(
                    "Text that `new` replaces; it must occur exactly once. Absent: `new` is the"
                    " whole file, and missing folders are made."
                ),
            },
            required=("path", "new"),
        ),
        Tool(
            "list", ("list_directory", "list_files", "ls"),
            "List files and folders with their sizes, at most 1000.",
            {"path": _FOLDER}, required=(), whole=True, reads=True,
        ),
        Tool(
            "mcp", (),
            "Call a tool of one of the agent's own MCP servers: mcp(SERVER TOOL). Its session"
            " calls it; models see the tools of the servers instead.",
            {"server": _text("Name of the server."), "tool": _text("Name of the tool.")},
            required=("server", "tool"), path=False,
        ),
        Tool(
            "read", ("file_reader", "read_file"), "Read a file, at most 50 KiB at a time.",
            {
                "path": _PATH,
                "start": {
                    "type": "integer", "minimum": 0, "default": 0,
                    "description": "Offset in bytes, to go on with a longer file.",
                },
            },
            reads=True,
        ),
        Tool(
            "search", ("grep", "search_files"),
            "Search the lines of text files for a regular expression; at most 200 matches.",
            {
                "pattern": _text("Regular expression, in the syntax of Python."),
                "path": _FOLDER,
            },
            required=("pattern",), whole=True, reads=True,
        ),
        Tool(
            "undo", ("undo_changes", "undo_edit"),
            "Undo the last change of a file that `edit` made; again: the change before it.",
            {"path": _PATH},
        ),
    )
})  # fmt: skip
# Tools of the container that execute nothing and need no grant, so managers have them too.
LOCAL_TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({
    "read_skill": Tool(
        "read_skill", (), "Read the instructions of one of your skills.",
        {"name": _text("Name of the skill.")}, required=("name",), path=False,
        reads=True, kind=ToolKind.PLANNING,
    ),
})  # fmt: skip
# Tools that the session of an agent runs itself. They need no grant: what they start is judged.
SESSION_TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({
    "hive_fork_subagent": Tool(
        "hive_fork_subagent", (),
        "Run a sub-agent in your container for one task, wait for it, and return its result:"
        " status, content, error and metadata. A clone has your whole conversation up to this call;"
        " a named agent of your configuration begins with the task alone.",
        {
            "agent": _text(
                "Name of an agent of your configuration. Absent, empty or clone: a clone of you."
            ),
            "task": _text("The task, and what the result has to contain."),
            "timeout_seconds": {
                "type": "integer", "minimum": 1, "maximum": 86_400,
                "description": "Time limit, within that of your configuration; absent: that one.",
            },
        },
        required=("task",), path=False, kind=ToolKind.PLANNING,
    ),
})  # fmt: skip
_NAMES: Final = {
    name: tool for tool in TOOLS.values() for name in (tool.name, *tool.aliases)
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
        words, size = tuple(argument), len(self.words)
        return words[:size] == self.words and (self.rest or len(words) == size)

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
    """The tool of this name or alias, in upper or lower case; InvalidArgument names the nearest."""
    tool = _NAMES.get(name.lower())
    if tool is None:
        near = difflib.get_close_matches(name.lower(), _NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(TOOLS)}"
        raise InvalidArgument(f"no tool {name[:64]!r}{hint}", field="tool")
    return tool


def parse_entry(text: str) -> ToolEntry:
    """The entry that the text stands for, or InvalidArgument."""
    match = _ENTRY.fullmatch(text.strip()) if len(text) <= ENTRY_MOST else None
    if match is None:
        raise InvalidArgument(f"{text[:64]!r} is neither a tool nor tool(argument)", field="tools")
    tool = find_tool(match[1])
    pattern = match[2]
    if pattern is None:
        return ToolEntry(tool.name)
    words = _split_pattern(tool, pattern.strip())
    rest = bool(words) and words[-1] == _REST
    literal = words[:-1] if rest else words
    for word in literal:
        if not _WORD.fullmatch(word) or (tool.path and word in (".", "..")):
            raise InvalidArgument(
                f"{text!r}: {word!r} is not a plain word; * must stand alone, as the last word",
                field="tools",
            )
    if not literal:
        if not rest:
            raise InvalidArgument(f"{text!r} has an empty argument", field="tools")
        return ToolEntry(tool.name)
    return ToolEntry(tool.name, literal, rest)


def _split_pattern(tool: Tool, pattern: str) -> tuple[str, ...]:
    if tool.path:
        return tuple(pattern.split("/")) if pattern else ()
    return tuple(pattern.split())


def normalized_entries(texts: Iterable[str]) -> tuple[str, ...]:
    """The entries in canonical spelling, sorted, without those that other entries cover."""
    entries = sorted({parse_entry(text) for text in texts}, key=str)
    return tuple(
        str(entry) for entry in entries
        if not any(other != entry and other.covers(entry) for other in entries)
    )  # fmt: skip


def check_argument(tool: Tool, words: Sequence[str]) -> tuple[str, ...]:
    """The words of the argument, as patterns are compared with them; InvalidArgument."""
    if any("\0" in word for word in words):
        raise InvalidArgument("the argument has a NUL in it", field="argument")
    if not tool.path:
        if not words or not words[0]:
            raise InvalidArgument("the argument must start with a program", field="argument")
        return tuple(words)
    if tool.whole and not words:
        return ()
    if len(words) != 1:
        raise InvalidArgument(f"{tool.name} takes one path", field="argument")
    parts = tuple(words[0].split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidArgument(
            f"{words[0][:64]!r} is not a plain path below the workspace", field="argument"
        )
    return parts


def missing_entries(owned_texts: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """The entries of `wanted` that no owned entry covers; empty for a subset."""
    owned = [parse_entry(text) for text in owned_texts]
    return tuple(
        text for text in wanted if not any(other.covers(parse_entry(text)) for other in owned)
    )
