"""JSON schemas of parameters as models read them: short, and without references.

Every byte of a schema is sent with every request of a model, and not every provider resolves
references or unions with null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

Schema = dict[str, Any]

# The session sets them with every call, and no model waits in a call.
_OF_SESSION: Final = frozenset({"idempotency_key", "in_turn_of"})
_WAIT: Final = "wait"
_NULL: Final = {"type": "null"}
# Titles repeat names. Bounds of lengths are far above what a model writes; the daemon checks them.
_DROPPED: Final = frozenset({
    "title", "maxLength", "minLength", "maxItems", "minItems", "pattern", "format",
})  # fmt: skip


def parameters_schema(schema: Mapping[str, Any], hidden: Collection[str] = ()) -> Schema:
    """The schema of an operation's parameters, without those that a model does not set."""
    reader = _ToolSchemaReader(schema.get("$defs", {}))
    properties = {
        name: reader.read(member)
        for name, member in schema.get("properties", {}).items()
        if name not in hidden and not _is_of_session(name, member)
    }
    required = [name for name in schema.get("required", ()) if name in properties]
    return {
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": False,
    }  # fmt: skip


def _is_of_session(name: str, member: Mapping[str, Any]) -> bool:
    return name in _OF_SESSION or (name == _WAIT and member.get("type") == "number")


class _ToolSchemaReader:
    """Replaces references by what they refer to, and drops titles and nulls."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def read(self, schema: Mapping[str, Any]) -> Schema:
        """The schema in plain words."""
        if "$ref" in schema:
            own = {key: value for key, value in schema.items() if key != "$ref"}
            referred = self._definitions[schema["$ref"].rpartition("/")[2]]
            return self.read({**referred, **own})
        return dict(self._members(schema))

    def _members(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for key, value in schema.items():
            if key == "anyOf":
                yield from self._without_null(value).items()
            elif key == "properties":
                yield key, {name: self.read(member) for name, member in value.items()}
            elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
                yield key, self.read(value)
            elif key not in _DROPPED and not _is_default_of_absence(key, value):
                yield key, value

    def _without_null(self, parts: list[Mapping[str, Any]]) -> Schema:
        kinds = [part for part in parts if part != _NULL]
        if len(kinds) == 1:
            return self.read(kinds[0])
        return {"anyOf": [self.read(kind) for kind in kinds]}


def _is_default_of_absence(key: str, value: object) -> bool:
    """Whether it is a default that says no more than that the parameter may be absent."""
    empty = value is None or value in ("", [], {})
    nulls = isinstance(value, dict) and all(part is None for part in value.values())
    return key == "default" and (empty or nulls)
