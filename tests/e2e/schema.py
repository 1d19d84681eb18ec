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
        options: Sequence[list[str]] = [faults(value, option, whole) for option in schema["anyOf"]]
        return min(options, key=len)
    kind = schema.get("type")
    faults_ = []
    if kind is not None and not isinstance(value, _KINDS[kind]):
        faults_.append(f"{value!r} is no {kind}")
    elif isinstance(value, list):
        items = schema.get("items", {})
        faults_ += [fault for item in value for fault in faults(item, items, whole)]
    elif isinstance(value, dict):
        faults_ += _object(value, schema, whole)
    return faults_


def _object(
    value: Mapping[str, object], schema: Mapping[str, Any], whole: Mapping[str, Any]
) -> list[str]:
    properties, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    faults_ = [f"{name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, property_ in value.items():
        if name in properties:
            faults_ += [f"{name}: {fault}" for fault in faults(property_, properties[name], whole)]
        elif other is False:
            faults_.append(f"{name} is unknown")
        elif isinstance(other, dict):
            faults_ += faults(property_, other, whole)
    return faults_
