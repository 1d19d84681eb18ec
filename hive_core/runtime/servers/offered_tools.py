"""Tools of a server as models are offered them: their names, texts and schemas, within bounds.

A server is a foreign program. What it says of a tool is sent to a provider with every request, so
a tool with a name, a text or a schema that no provider takes is left out, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from mcp import types

TOOLS_MOST: Final = 64
NAME_MOST: Final = 64  # of the whole name, which is the least that a provider allows
TEXT_MOST: Final = 1024
SCHEMA_MOST: Final = 8 << 10
DEPTH_MOST: Final = 12
RESULT_MOST: Final = 256 << 10
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

Row = dict[str, object]


@dataclass(slots=True)
class OfferedTools:
    """The tools of one server. `wanted`: those that its agent lists; None for all."""

    server: str
    wanted: frozenset[str] | None = None
    rows: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read(self, tools: Iterable[types.Tool]) -> None:
        """Take what can be offered, in the order of the names."""
        seen: set[str] = set()
        for tool in sorted(tools, key=lambda tool: tool.name):
            if self.wanted is not None and tool.name not in self.wanted:
                continue
            name = f"mcp__{self.server}__{tool.name.replace('.', '_')}"
            fault = _name_fault(tool.name, name) or schema_fault(tool.input_schema)
            if name in seen:
                fault = "another tool has this name"
            if fault:
                self.warnings.append(f"{plain_text(tool.name, 80)!r} is left out: {fault}")
                continue
            seen.add(name)
            self.rows.append({
                "name": name, "tool": tool.name, "schema": _schema(tool.input_schema),
                "description": plain_text(tool.description or tool.title or "", TEXT_MOST),
            })  # fmt: skip
        self._cut()
        for missing in sorted((self.wanted or frozenset()) - {row["tool"] for row in self.rows}):
            self.warnings.append(f"it has no tool {missing!r} that can be offered")

    def _cut(self) -> None:
        if len(self.rows) > TOOLS_MOST:
            self.warnings.append(
                f"{len(self.rows) - TOOLS_MOST} tools are left out: {TOOLS_MOST} at most;"
                " choose some with `tools`"
            )
            del self.rows[TOOLS_MOST:]


def plain_text(text: str, most: int) -> str:
    """The text without control characters, cut."""
    signs = (sign if sign.isprintable() or sign == "\n" else " " for sign in text[:most])
    return "".join(signs).strip()


def schema_fault(schema: object) -> str:
    """Why no provider can be given a schema; empty when it can."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return "its parameters are not an object"
    if not _is_shallow(schema, DEPTH_MOST):
        return f"its schema is nested deeper than {DEPTH_MOST}"
    try:
        size = len(json.dumps(schema, allow_nan=False).encode())
    except (ValueError, UnicodeEncodeError):
        return "its schema is not JSON"
    return "" if size <= SCHEMA_MOST else f"its schema has more than {SCHEMA_MOST} bytes"


def result_text(result: types.CallToolResult) -> str:
    """The result of a call as text. Content of another type is named instead."""
    parts = list(_parts(result.content))
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(parts)
    if len(text) > RESULT_MOST:
        text = f"{text[:RESULT_MOST]}\n[cut: {len(text)} characters]"
    return text or "[no output]"


def _parts(blocks: Iterable[types.ContentBlock]) -> Iterator[str]:
    for block in blocks:
        match block:
            case types.TextContent():
                yield block.text
            case types.ImageContent() | types.AudioContent():
                yield f"[{block.type}, {block.mime_type}, not shown]"
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                yield resource.text
            case types.EmbeddedResource():
                yield f"[resource {block.resource.uri}, not shown]"
            case types.ResourceLink():
                yield f"[link to {block.uri}]"


def _name_fault(own: str, name: str) -> str:
    if not own or not _NAME.fullmatch(name):
        return "its name has other signs than letters, digits, _ and -"
    return "" if len(name) <= NAME_MOST else f"its name is longer than {NAME_MOST} with mcp__"


def _schema(schema: Mapping[str, object]) -> Row:
    """The schema with what every provider wants to see in it."""
    fields = {key: value for key, value in schema.items() if key != "$schema"}
    return {"type": "object", "properties": {}, **fields}


def _is_shallow(value: object, depth: int) -> bool:
    below: Iterable[object] = ()
    if isinstance(value, Mapping):
        below = value.values()
    elif isinstance(value, list):
        below = value
    return depth > 0 and all(_is_shallow(part, depth - 1) for part in below)
