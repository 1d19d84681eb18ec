"""Lists of tools in definitions, in the words of hive or of another program.

An allow-list loses what hive does not have, with a warning, so it allows less. A list of tools that
are taken away is refused where it cannot be followed exactly or more strictly.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Role
from hive_core.model.agents.foreign_words import MCP_PREFIX, MISSING_TOOLS, TOOL_NAMES
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.work.tools import (
    TOOLS,
    ToolEntry,
    find_tool,
    normalized_entries,
    parse_entry,
)

# Claude's spelling of a prefix: Bash(git:*).
_COLON: Final = re.compile(r"\((.*?):\*\)\Z")
# A path as git's lists of files have it: ./src/** is src/*.
_SUBTREE: Final = re.compile(r"/\*\*(/\*)?\)\Z")
# A tool of an MCP server, or all of them: mcp__github__get_issue, mcp__github, mcp__github__*.
_SERVER_TOOL: Final = re.compile(
    r"mcp__([A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)(?:__([A-Za-z0-9._-]+|\*))?", re.ASCII
)
_OPERATION: Final = "hive_"
_EVERYTHING: Final = ("*", "all", "all tools")
_REMOVED: Final = "disallowedTools"


@dataclass(slots=True)
class ToolListReader:
    """Reads the lists of one definition, and collects what it leaves out."""

    role: Role
    warnings: list[str] = field(default_factory=list)

    def read(self, front: Mapping[str, object]) -> tuple[str, ...] | None:
        """The allow-list; None for the tools of the role."""
        listed, removed = self._tables(front)
        allowed = None if listed is None else [
            entry for word in listed for entry in self._entries(word)
        ]  # fmt: skip
        if allowed == [] and listed:
            self.warnings.append("tools: none of them is left, so such an agent has no tools")
        gone = [tool for word in removed for tool in self._banned_tools(word)]
        if gone:
            start = ROLE_DEFAULTS[self.role].tools or tuple(TOOLS)
            allowed = [
                word for word in (start if allowed is None else allowed)
                if parse_entry(word).tool not in gone
            ]  # fmt: skip
        return None if allowed is None else normalized_entries(allowed)

    def _tables(self, front: Mapping[str, object]) -> tuple[list[str] | None, list[str]]:
        """The words that are allowed, and those that are taken away."""
        tools, removed = front.get("tools"), split_words(front.get(_REMOVED), _REMOVED) or []
        if isinstance(tools, Mapping):
            listed, more = _switches(tools)
        else:
            listed, more = split_words(tools, "tools"), []
        if listed == ["."] or (listed and any(word.lower() in _EVERYTHING for word in listed)):
            listed = None  # the creator's own list
        if (permission := front.get("permission")) is not None:
            rules = PermissionReader(permission)
            more += rules.removed
            if rules.allowed is not None:
                listed = rules.allowed if listed is None else _both(listed, rules.allowed)
            self.warnings += rules.warnings
        return listed, [*removed, *more]

    def _entries(self, word: str) -> Iterator[str]:
        """The entry that the word stands for; nothing, and a warning, where hive has none."""
        if reason := _missing_reason(word):
            self.warnings.append(f"{word}: {reason}")
            return
        try:
            yield str(parse_entry(hive_entry(word)))
        except InvalidArgument as error:
            self.warnings.append(f"{word}: left out: {error.reason}")

    def _banned_tools(self, word: str) -> Iterator[str]:
        """The tool that is taken away; InvalidArgument where it would stay in part."""
        if _is_operation(word):
            self.warnings.append(f"{word}: {_missing_reason(word)}")
            return
        if _missing_reason(word):
            return  # such an agent never has it
        entry = parse_entry(hive_entry(word))
        if entry.tool == "mcp" and entry.words is not None:
            self.warnings.append(f"{word}: takes away the tools of all MCP servers")
            entry = ToolEntry(entry.tool)
        if entry != ToolEntry(entry.tool):
            raise InvalidArgument(
                f"{_REMOVED}: {word}: only whole tools can be removed; list the rest in tools",
                field=_REMOVED,
            )
        yield entry.tool


class PermissionReader:
    """The `permission` of opencode: a verdict for a tool, or for patterns of its argument.

    Where it asks a person at each use, hive leaves the tool out, since it has no such question.
    """

    def __init__(self, value: object) -> None:
        self.allowed: list[str] | None = None
        self.removed: list[str] = []
        self.warnings: list[str] = []
        rules = {"*": value} if isinstance(value, str) else value
        if not isinstance(rules, Mapping):
            raise InvalidArgument("permission: must be a verdict or a table", field="permission")
        if _verdict(rules.get("*", "allow")) != "allow":
            self.allowed = []
        for tool, rule in rules.items():
            if tool != "*":
                self._read_rule(str(tool), rule)

    def _read_rule(self, tool: str, rule: object) -> None:
        patterns = {"*": rule} if isinstance(rule, str) else rule
        if not isinstance(patterns, Mapping):
            raise InvalidArgument(
                f"permission.{tool}: must be a verdict or a table", field="permission"
            )
        verdicts = {str(pattern): _verdict(one) for pattern, one in patterns.items()}
        if "ask" in verdicts.values():
            self.warnings.append(f"permission.{tool}: hive asks no person at each use: left out")
        allowed = [pattern for pattern, one in verdicts.items() if one == "allow"]
        usual = verdicts.pop("*", "deny" if self.allowed is not None else "allow")
        if usual == "allow" and all(one == "allow" for one in verdicts.values()):
            self._allow([tool])
        elif usual == "allow" or not allowed:
            # It allows all uses but some. A list cannot say that, so the whole tool is left out.
            self.removed.append(tool)
        else:
            self._allow([f"{tool}({pattern})" for pattern in allowed])
            if self.allowed is None:
                self.warnings.append(f'permission.{tool}: patterns need "*": deny: left out')
                self.removed.append(tool)

    def _allow(self, words: list[str]) -> None:
        if self.allowed is not None:
            self.allowed += words


def _verdict(value: object) -> str:
    if value not in ("allow", "ask", "deny"):
        raise InvalidArgument(
            f"permission: {str(value)[:64]!r} is none of allow, ask, deny", field="permission"
        )
    return str(value)


def hive_entry(word: str) -> str:
    """An entry of another program in the words of hive."""
    if match := _SERVER_TOOL.fullmatch(word.strip()):
        return f"mcp({match[1]} {match[2] or '*'})"
    name, bracket, rest = word.strip().partition("(")
    text = f"{TOOL_NAMES.get(name.lower(), name)}{bracket}{rest}"
    text = _COLON.sub(r"(\1 *)", text)
    if bracket and (tool := TOOLS.get(_tool_name(text.partition("(")[0]))) and tool.path:
        text = _SUBTREE.sub("/*)", text.replace("(./", "(", 1))
        text = text.replace("(**)", "(*)")
    return text


def split_words(value: object, place: str) -> list[str] | None:
    """A list of words: a YAML list, or words with commas on one line."""
    if value is None:
        return None
    if isinstance(value, str):
        return [word.strip() for word in _split_at_commas(value) if word.strip()]
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InvalidArgument(f"{place}: must be a list of words", field=place)
    return [word for word in value if word.strip()]


def _split_at_commas(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets."""
    begin, depth = 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _switches(table: Mapping[object, object]) -> tuple[list[str] | None, list[str]]:
    """Tools that are switched on and off by their names, as opencode had them."""
    for tool, value in table.items():
        if not isinstance(value, bool):
            raise InvalidArgument(f"tools: {str(tool)[:64]!r} must be true or false", field="tools")
    names = {str(tool): bool(value) for tool, value in table.items()}
    if names.pop("*", True):
        return None, [tool for tool, is_on in names.items() if not is_on]
    return [tool for tool, is_on in names.items() if is_on], []


def _both(words: Sequence[str], others: Iterable[str]) -> list[str]:
    """What two allow-lists have in common, by whole words."""
    known: Collection[str] = {hive_entry(word).lower() for word in others}
    return [word for word in words if hive_entry(word).lower() in known]


def _is_operation(word: str) -> bool:
    return word.lower().startswith(_OPERATION)


def _missing_reason(word: str) -> str:
    """Why hive has no such tool on lists; empty where it may have it."""
    if _is_operation(word):
        return "is an operation; place, role and capabilities restrict it, no list of tools does"
    name = word.partition("(")[0].strip().lower()
    if name.startswith(MCP_PREFIX) and not _SERVER_TOOL.fullmatch(word.strip()):
        return "is not written as mcp__SERVER__TOOL"
    return MISSING_TOOLS.get(name, "")


def _tool_name(name: str) -> str:
    try:
        return find_tool(name).name
    except InvalidArgument:
        return ""
