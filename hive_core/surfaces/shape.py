"""The models of the registry as plain shapes, from which every outside description is written."""

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
    """A type declared by name: a struct, or an enum when it has words."""

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
    """Collects named types while it reads models. Equal ones are one; others get another name."""

    taken: set[str]
    types: dict[str, NamedType] = field(default_factory=dict)

    def fields(self, schema: Schema, *, absent: bool) -> tuple[Field, ...]:
        """The members of an object. `absent`: what has a default may be left out."""
        return _SchemaReader(self, schema.get("$defs", {}), absent).fields(schema)

    def declare(self, found: NamedType) -> str:
        """The name under which the type is declared: its own, or that with a number."""
        for number in count(1):
            name = found.name if number == 1 else f"{found.name}{number}"
            numbered = replace(found, name=name)
            known = self.types.get(name)
            if known == numbered or (known is None and name not in self.taken):
                self.types[name] = numbered
                return name
        raise AssertionError


@dataclass(frozen=True, slots=True)
class _SchemaReader:
    """One model being read."""

    shapes: Shapes
    defs: Schema
    absent: bool

    def fields(self, schema: Schema) -> tuple[Field, ...]:
        required = set(schema.get("required", ()))
        found = []
        for name, each in schema.get("properties", {}).items():
            kind = self._type(each)
            if self.absent and name not in required:
                kind = _nullable(kind)
            found.append(Field(name, kind, each.get("description", "")))
        return tuple(found)

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
        """Varlink knows no unions but with null; any other one is an `object`."""
        kinds = [each for each in parts if each.get("type") != "null"]
        found = self._type(kinds[0]) if len(kinds) == 1 else "object"
        return _nullable(found) if len(kinds) < len(parts) else found

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
    """The words of an enum, if each can be one in Varlink."""
    words = schema.get("enum", [schema["const"]] if "const" in schema else [])
    fit = all(isinstance(word, str) and _MEMBER.fullmatch(word) for word in words)
    return tuple(words) if fit else ()
