"""What `hive-agent tool` is asked to do: from its command line, or as a model writes it.

A model writes one JSON object with the parameters of the tool (`hive-agent list-toolset`). Its
command line becomes words, since the daemon compares the words of a command with the agent's list,
and no shell may change them afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hive_core.errors import InvalidArgument

SECONDS: Final = 30.0
SECONDS_MOST: Final = 3600.0
INPUT_MOST: Final = 1 << 20
_ALIASES: Final = {
    "file_reader": "read", "read_file": "read", "edit_file": "edit", "write": "edit",
    "write_file": "edit", "command": "bash", "run_command": "bash", "list_directory": "list",
    "list_files": "list", "ls": "list", "grep": "search", "search_files": "search",
    "undo_changes": "undo", "undo_edit": "undo",
}  # fmt: skip
TOOLS: Final = ("bash", "edit", "list", "read", "search", "undo")
READ_SKILL: Final = "read_skill"
NAMES: Final = (*TOOLS, *_ALIASES, READ_SKILL)
# What a shell would not take as it is: it splits, expands, redirects or joins commands.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@%,+\- ]+", re.ASCII)
_ASSIGNMENT: Final = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)


class ToolInput(NamedTuple):
    """One use of a tool. `tool`: as the caller named it; `new`: what an edit writes."""

    tool: str
    path: str = ""
    words: tuple[str, ...] = ()
    start: int = 0
    old: str | None = None
    new: bytes = b""
    pattern: str = ""
    skill: str = ""
    seconds: float = SECONDS

    @property
    def name(self) -> str:
        """The name of the tool."""
        return tool_name(self.tool)

    @property
    def argument(self) -> list[str]:
        """The argument that the daemon judges: words of a command, or a path."""
        if self.name == "bash":
            return list(self.words)
        return [self.path] if self.path else []


def tool_name(name: str) -> str:
    """The name of a tool that may be an alias."""
    return _ALIASES.get(name, name)


def command_words(line: str) -> tuple[str, ...]:
    """The words of a command line: its own where no shell is needed, otherwise those of sh."""
    if not line.strip() or (_PLAIN.fullmatch(line) and not _ASSIGNMENT.match(line)):
        return tuple(line.split())
    return ("sh", "-c", line)


def parse_input(tool: str, data: bytes) -> ToolInput:
    """The use that a model asks for; InvalidArgument names the wrong parameter."""
    values = _object(data)
    name = tool_name(tool)
    readers = _PARAMETERS[name]
    for key in values:
        if key not in readers:
            raise InvalidArgument(
                f"{name} has no parameter {key[:64]!r}; it has {', '.join(readers)}", field=key[:64]
            )
    for key in _REQUIRED[name]:
        if values.get(key) is None:
            raise InvalidArgument(f"{name} needs the parameter {key}", field=key)
    parts: dict[str, object] = {}
    for key, value in values.items():
        if value is not None:
            parts.update(readers[key](key, value))
    return ToolInput(tool, **parts)  # type: ignore[arg-type]  # the readers check the types


def _object(data: bytes) -> Mapping[str, object]:
    if len(data) > INPUT_MOST:
        raise InvalidArgument(
            f"the arguments are larger than {INPUT_MOST} bytes", field="arguments"
        )
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the arguments are not JSON: {error}", field="arguments") from None
    if not isinstance(values, dict):
        raise InvalidArgument("the arguments are not a JSON object", field="arguments")
    return values


Parts = Mapping[str, object]
_Reader = Callable[[str, object], Parts]


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{key} must be a text", field=key)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{key} has a lone surrogate in it", field=key) from None
    if "\0" in value:
        raise InvalidArgument(f"{key} has a NUL in it", field=key)
    return value


def _as_text(key: str, value: object) -> Parts:
    return {key: _text(key, value)}


def _as_path(key: str, value: object) -> Parts:
    """A path; models write the workspace itself as `.` and put `./` in front."""
    text = _text(key, value).removeprefix("./").rstrip("/")
    return {key: "" if text == "." else text}


def _as_skill(key: str, value: object) -> Parts:
    return {"skill": _text(key, value)}


def _as_content(key: str, value: object) -> Parts:
    return {key: _text(key, value).encode()}


def _as_words(key: str, value: object) -> Parts:
    words = command_words(_text(key, value))
    if not words:
        raise InvalidArgument("command is empty", field=key)
    return {"words": words}


def _as_seconds(key: str, value: object) -> Parts:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidArgument(f"{key} must be a number", field=key)
    if not 0 < value <= SECONDS_MOST:
        raise InvalidArgument(f"{key} must be more than 0 and at most {SECONDS_MOST:g}", field=key)
    return {key: float(value)}


def _as_offset(key: str, value: object) -> Parts:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise InvalidArgument(f"{key} must be a number from 0", field=key)
    return {key: value}


_PARAMETERS: Final[Mapping[str, Mapping[str, _Reader]]] = {
    "bash": {"command": _as_words, "seconds": _as_seconds},
    "edit": {"path": _as_path, "new": _as_content, "old": _as_text},
    "list": {"path": _as_path},
    "read": {"path": _as_path, "start": _as_offset},
    READ_SKILL: {"name": _as_skill},
    "search": {"pattern": _as_text, "path": _as_path},
    "undo": {"path": _as_path},
}
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("command",), "edit": ("path", "new"), "list": (), "read": ("path",),
    READ_SKILL: ("name",), "search": ("pattern",), "undo": ("path",),
}  # fmt: skip
