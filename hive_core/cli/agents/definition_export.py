"""A definition as a file of another program: Claude Code, Codex, opencode or Gemini.

Each format is written so that an agent there may do no more than the tools of the definition say,
where the program has words for that; what it has no word for is named in `notes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

FORMATS: Final = ("hive", "claude", "codex", "opencode", "gemini")
# Their names of our tools.
_CLAUDE: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("Bash",), "edit": ("Edit", "Write"), "list": ("Glob",), "read": ("Read",),
    "search": ("Grep",),
}  # fmt: skip
_GEMINI: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("run_shell_command",), "edit": ("replace", "write_file"),
    "list": ("glob", "list_directory"), "read": ("read_file",), "search": ("grep_search",),
}  # fmt: skip
_OPENCODE: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("bash",), "edit": ("edit",), "list": ("glob", "list"), "read": ("read",),
    "search": ("grep",),
}  # fmt: skip
_CLAUDE_MODELS: Final = ("sonnet", "opus", "haiku", "claude-")
_WRITING: Final = frozenset({"bash", "edit", "mcp", "undo"})
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\\\"]")


@dataclass(slots=True)
class DefinitionExport:
    """One definition on its way to a file. `notes`: what the file does not say."""

    name: str
    description: str
    body: str
    agent: Mapping[str, object]
    notes: list[str] = field(default_factory=list)

    @property
    def tools(self) -> list[str] | None:
        """The entries of its list; None without one."""
        tools = self.agent.get("tools")
        return [str(entry) for entry in tools] if isinstance(tools, list) else None

    def write(self, kind: str) -> str:
        """The text of the file."""
        return _WRITERS[kind](self)

    def note_missing(self, *keys: str) -> None:
        """Name the parameters that the format has no word for."""
        present = [key for key in self.agent if key not in keys and self.agent[key] is not None]
        if present:
            self.notes.append(
                f"without {', '.join(sorted(present))}: the format has no word for it"
            )


def _hive(definition: DefinitionExport) -> str:
    agent = dict(definition.agent)
    front: dict[str, object] = {
        "name": definition.name, "description": definition.description,
    }  # fmt: skip
    for key, word in (("tools", "tools"), ("model", "model"), ("max_turns", "maxTurns")):
        value = agent.pop(key, None)
        if value is not None:
            front[word] = value
    # An empty table too: a file without one is taken for one of another program.
    front["hive"] = agent
    return _markdown(front, definition.body)


def _claude(definition: DefinitionExport) -> str:
    front: dict[str, object] = {
        "name": definition.name, "description": definition.description,
    }  # fmt: skip
    if (tools := definition.tools) is not None:
        front["tools"] = _names(definition, tools, _CLAUDE, "Claude Code", _claude_entry)
    if model := _model(definition, lambda name: name.startswith(_CLAUDE_MODELS)):
        front["model"] = model
    if turns := definition.agent.get("max_turns"):
        front["maxTurns"] = turns
    if definition.agent.get("require_plan"):
        front["permissionMode"] = "plan"
    definition.note_missing("tools", "model", "max_turns", "require_plan", "role", "runtime")
    return _markdown(front, definition.body)


def _gemini(definition: DefinitionExport) -> str:
    front: dict[str, object] = {
        "name": definition.name, "description": definition.description, "kind": "local",
    }  # fmt: skip
    if (tools := definition.tools) is not None:
        front["tools"] = _names(definition, tools, _GEMINI, "Gemini", None)
    if model := _model(definition, lambda name: name.startswith("gemini-")):
        front["model"] = model
    if turns := definition.agent.get("max_turns"):
        front["max_turns"] = turns
    definition.note_missing("tools", "model", "max_turns", "role", "runtime")
    return _markdown(front, definition.body)


def _opencode(definition: DefinitionExport) -> str:
    front: dict[str, object] = {"description": definition.description, "mode": "subagent"}
    if model := _model(definition, lambda name: "/" in name):
        front["model"] = model
    if turns := definition.agent.get("max_turns"):
        front["steps"] = turns
    if (tools := definition.tools) is not None:
        front["permission"] = _permissions(definition, tools)
    definition.note_missing("tools", "model", "max_turns", "role", "runtime")
    return _markdown(front, definition.body)


def _codex(definition: DefinitionExport) -> str:
    rows = {"name": definition.name, "description": definition.description}
    if (tools := definition.tools) is not None:
        names = {_parts(entry)[0] for entry in tools}
        rows["sandbox_mode"] = "workspace-write" if names & _WRITING else "read-only"
        definition.notes.append(f"without {', '.join(tools)}: Codex has no list of tools")
    if model := _model(definition, lambda name: name.startswith(("gpt-", "o3", "o4"))):
        rows["model"] = model
    definition.note_missing("tools", "model", "role", "runtime")
    lines = [f"{key} = {_toml_text(value)}" for key, value in rows.items()]
    body = _CONTROL.sub(_escape, definition.body.replace("\r\n", "\n"))
    return "\n".join((*lines, f'developer_instructions = """\n{body}\n"""'))


_WRITERS: Final[Mapping[str, Callable[[DefinitionExport], str]]] = {
    "hive": _hive, "claude": _claude, "codex": _codex, "opencode": _opencode, "gemini": _gemini,
}  # fmt: skip


def _names(
    definition: DefinitionExport, tools: Sequence[str], table: Mapping[str, tuple[str, ...]],
    program: str, pattern: Callable[[str, str], str] | None,
) -> list[str]:  # fmt: skip
    """Their names of the tools. Where patterns cannot be said, the tool is left out."""
    names: list[str] = []
    for entry in tools:
        tool, argument = _parts(entry)
        if tool == "mcp" and argument and pattern is not None:
            names.append(_server_tool(argument))
            continue
        if tool not in table or (argument and pattern is None):
            definition.notes.append(f"without {entry}: {program} has no word for it")
            continue
        for name in table[tool]:
            names.append(pattern(name, argument) if pattern and argument else name)
    return names


def _permissions(definition: DefinitionExport, tools: Sequence[str]) -> dict[str, object]:
    """Everything is denied except the tools; the last rule that fits counts there."""
    rules: dict[str, object] = {"*": "deny"}
    for entry in tools:
        tool, argument = _parts(entry)
        if tool not in _OPENCODE:
            definition.notes.append(f"without {entry}: opencode has no word for it")
        for name in _OPENCODE.get(tool, ()):
            if not argument:
                rules[name] = "allow"
                continue
            patterns = rules.setdefault(name, {"*": "deny"})
            if isinstance(patterns, dict):
                patterns[argument] = "allow"
    return rules


def _model(definition: DefinitionExport, is_known: Callable[[str], bool]) -> str:
    """The model, where the other program would know that name."""
    model = str(definition.agent.get("model") or "")
    if model and not is_known(model):
        definition.notes.append(f"without model {model}: the name is an alias of this host")
        return ""
    return model


def _parts(entry: str) -> tuple[str, str]:
    """The tool of an entry, and its pattern."""
    tool, _, rest = entry.partition("(")
    return tool, rest.removesuffix(")")


def _server_tool(argument: str) -> str:
    server, _, tool = argument.partition(" ")
    return f"mcp__{server}" if tool in ("", "*") else f"mcp__{server}__{tool}"


def _claude_entry(name: str, argument: str) -> str:
    if name == "Bash" and argument.endswith(" *"):
        argument = argument[:-2] + ":*"
    return f"{name}({argument})"


def _markdown(front: Mapping[str, object], body: str) -> str:
    import frontmatter  # noqa: PLC0415 - YAML is slow to load

    post = frontmatter.Post(body)
    post.metadata = dict(front)
    return frontmatter.dumps(post, sort_keys=False)


def _toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _escape(match: re.Match[str]) -> str:
    sign = match[0]
    return f"\\{sign}" if sign in '\\"' else f"\\u{ord(sign):04x}"
