"""The operations as data: read from the generated operations.json, never from the registry.

Importing the registry costs a quarter of a second; both clients start from this file instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from hive_core.agent.reconnect import wire_name
from hive_core.errors import MethodNotFound

INTERFACE: Final = "org.hive.Broker"
FILE: Final = Path(__file__).parent.parent / "cli" / "operations.json"

Schema = Mapping[str, object]


def full_method(name: str, catalog: Catalog) -> str:
    """The full method name for `GetLogs`, `get_logs`, `get-logs`, or any full name."""
    if "." in name:
        return name
    wanted = name.replace("-", "").replace("_", "").lower()
    for operation in catalog:
        if wanted in {alias.replace("_", "") for alias in operation.names}:
            return operation.method
    raise MethodNotFound(name)


def _schema(value: object) -> Schema:
    return value if isinstance(value, dict) else {}


class Flag:
    """One parameter of an operation, from its JSON schema."""

    def __init__(self, name: str, schema: Schema, *, required: bool, first: bool) -> None:
        self.name = name
        self.required = required
        self.positional = required or first
        self.help = str(schema.get("description", ""))
        choices = [item for item in _variants(schema) if item.get("type") != "null"]
        self.schema = choices[0] if len(choices) == 1 else {"type": "object"}

    @property
    def kind(self) -> str:
        return str(self.schema.get("type", "object"))

    @property
    def choices(self) -> list[str] | None:
        """The allowed words for the value, or for each entry of a list; None: any."""
        items = _schema(self.schema.get("items")) if self.kind == "array" else self.schema
        words = items.get("enum")
        return [str(word) for word in words] if isinstance(words, list) else None

    def parse(self, text: str) -> object:
        """The value that `text` stands for; ValueError when the type does not match."""
        match self.kind:
            case "string":
                return text
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case _:
                return json.loads(text)

    def item(self, text: str) -> object:
        """One entry of a list; an object is given as JSON."""
        objects = _schema(self.schema.get("items")).get("type") == "object"
        return json.loads(text) if objects and text.startswith("{") else text


def _variants(schema: Schema) -> list[Schema]:
    options = schema.get("anyOf")
    return [_schema(option) for option in options] if isinstance(options, list) else [schema]


class CatalogEntry:
    """One entry of operations.json."""

    def __init__(self, name: str, entry: Schema) -> None:
        self.name = name
        self.entry = entry
        self.method = f"{INTERFACE}.{entry['method']}" if "method" in entry else wire_name(name)
        self.doc = str(entry.get("doc", ""))
        self.mutates = bool(entry.get("mutates"))
        self.stream = bool(entry.get("stream"))
        aliases = entry.get("aliases")
        self.aliases = [str(item) for item in aliases] if isinstance(aliases, list) else []

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.doc.partition("\n")[0]

    @property
    def keyed(self) -> bool:
        """Whether a repeat can be recognised by its idempotency key."""
        return any(flag.name == "idempotency_key" for flag in self.flags)

    @property
    def flags(self) -> list[Flag]:
        """Its parameters; the required ones first, in the order of their declaration."""
        params = _schema(self.entry.get("params"))
        defs, properties = _schema(params.get("$defs")), _schema(params.get("properties"))
        required = params.get("required")
        needed = required if isinstance(required, list) else []
        # Parameters that are positional although optional: in `logs [AGENT]` the agent, when
        # nothing else is required; in `finish-task [TASK] STATUS SUMMARY` the task, always.
        thing = self.entry.get("thing")
        lone = thing or (None if needed else self.entry.get("target"))
        order = dict.fromkeys((*(first for first in (thing,) if first), *needed, *properties))
        return [
            Flag(
                name, _resolve(_schema(properties[name]), defs),
                required=name in needed, first=name == lone,
            )
            for name in order
        ]  # fmt: skip


def _resolve(schema: Schema, defs: Schema) -> Schema:
    """The schema with a reference to a local definition replaced by that definition."""
    options = schema.get("anyOf")
    if isinstance(options, list):
        return {**schema, "anyOf": [_resolve(_schema(option), defs) for option in options]}
    if isinstance(schema.get("items"), dict):
        return {**schema, "items": _resolve(_schema(schema["items"]), defs)}
    target = schema.get("$ref")
    if not isinstance(target, str):
        return schema
    return {**_schema(defs.get(target.rpartition("/")[2])), **schema}


class Catalog:
    """All operations, by name."""

    def __init__(self, entries: Schema) -> None:
        self._entries = {name: CatalogEntry(name, _schema(item)) for name, item in entries.items()}

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self._entries.values())

    def get(self, name: str) -> CatalogEntry | None:
        """The operation with this name or alias, dashes read as underscores."""
        wanted = name.replace("-", "_")
        by_alias = (entry for entry in self if wanted in entry.aliases)
        return self._entries.get(wanted) or next(by_alias, None)

    @property
    def names(self) -> Iterable[str]:
        return self._entries


def load(file: Path = FILE) -> Catalog:
    """The catalog of this installation."""
    return Catalog(_schema(_schema(json.loads(file.read_text())).get("operations")))
