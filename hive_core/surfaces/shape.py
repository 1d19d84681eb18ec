"""The models of the registry as plain types, from which the descriptions are generated."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from hive_core.broker.operation import Operation

Schema = dict[str, Any]

_SCALARS: Final = {"string": "string", "integer": "int", "number": "float", "boolean": "bool"}
_MEMBER: Final = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a struct: its Varlink type (`?` in front: may be absent) and its docs."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class NamedType:
    """A named type: a struct, or an enum when it has words."""

    name: str
    doc: str
    fields: tuple[Field, ...] = ()
    words: tuple[str, ...] = ()


def params_schema(operation: Operation) -> Schema:
    return operation.params.model_json_schema(mode="validation")


def result_schema(operation: Operation) -> Schema:
    return operation.result.model_json_schema(mode="serialization")


@dataclass
class Shapes:
    """Collects named types while it reads models. Equal types are merged; others get a number."""

    taken: set[str]
    types: dict[str, NamedType] = field(default_factory=dict)

    def fields(self, schema: Schema, *, absent: bool) -> tuple[Field, ...]:
        """The members of an object. `absent`: members with a default may be left out."""
        return _ShapeReader(self, schema.get("$defs", {}), absent).fields(schema)

    def declare(self, named_type: NamedType) -> str:
        """The name of the type: its own, or its own with a number."""
        for number in count(1):
            name = named_type.name if number == 1 else f"{named_type.name}{number}"
            numbered = replace(named_type, name=name)
            known = self.types.get(name)
            if known == numbered or (known is None and name not in self.taken):
                self.types[name] = numbered
                return name
        raise AssertionError


@dataclass(frozen=True, slots=True)
class _ShapeReader:
    """Reads the schema of one model."""

    shapes: Shapes
    defs: Schema
    absent: bool

    def fields(self, schema: Schema) -> tuple[Field, ...]:
        required = set(schema.get("required", ()))
        fields = []
        for name, member in schema.get("properties", {}).items():
            kind = self._type(member)
            if self.absent and name not in required:
                kind = _nullable(kind)
            fields.append(Field(name, kind, member.get("description", "")))
        return tuple(fields)

    def _type(self, schema: Schema) -> str:
        if "$ref" in schema:
            return self._named_type(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            return self._union(schema["anyOf"])
        if words := _words(schema):
            return f"({', '.join(words)})"
        return self._collection(schema) or _SCALARS.get(str(schema.get("type")), "object")

    def _collection(self, schema: Schema) -> str | None:
        if schema.get("type") == "array" and "items" in schema:
            return f"[]{self._type(schema['items'])}"
        values = schema.get("additionalProperties")
        if schema.get("type") == "object" and isinstance(values, dict):
            return f"[string]{self._type(values)}"
        return None

    def _union(self, parts: list[Schema]) -> str:
        """Varlink has unions only with null; any other one becomes an `object`."""
        kinds = [part for part in parts if part.get("type") != "null"]
        kind = self._type(kinds[0]) if len(kinds) == 1 else "object"
        return _nullable(kind) if len(kinds) < len(parts) else kind

    def _named_type(self, name: str) -> str:
        schema = self.defs[name]
        words, doc = _words(schema), schema.get("description", "")
        if words:
            return self.shapes.declare(NamedType(name, doc, words=words))
        if schema.get("type") != "object":
            return self._type(schema)
        return self.shapes.declare(NamedType(name, doc, self.fields(schema)))


def _nullable(kind: str) -> str:
    return kind if kind.startswith("?") else f"?{kind}"


def _words(schema: Schema) -> tuple[str, ...]:
    """The words of an enum, if each is a valid word in Varlink."""
    words = schema.get("enum", [schema["const"]] if "const" in schema else [])
    fit = all(isinstance(word, str) and _MEMBER.fullmatch(word) for word in words)
    return tuple(words) if fit else ()
