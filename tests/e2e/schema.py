"""Does a value have the shape that a published JSON schema tells? The few words that ours use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
    "object": dict, "null": type(None),
}  # fmt: skip


def faults(value: object, schema: Mapping[str, Any], whole: Mapping[str, Any]) -> list[str]:
    """Where it does not; empty when it fits."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        options: Sequence[list[str]] = [faults(value, each, whole) for each in schema["anyOf"]]
        return min(options, key=len)
    kind = schema.get("type")
    found = []
    if kind is not None and not isinstance(value, _KINDS[kind]):
        found.append(f"{value!r} is no {kind}")
    elif isinstance(value, list):
        items = schema.get("items", {})
        found += [fault for each in value for fault in faults(each, items, whole)]
    elif isinstance(value, dict):
        found += _object(value, schema, whole)
    return found


def _object(
    value: Mapping[str, object], schema: Mapping[str, Any], whole: Mapping[str, Any]
) -> list[str]:
    properties, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    found = [f"{name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, each in value.items():
        if name in properties:
            found += [f"{name}: {fault}" for fault in faults(each, properties[name], whole)]
        elif other is False:
            found.append(f"{name} is unknown")
        elif isinstance(other, dict):
            found += faults(each, other, whole)
    return found
