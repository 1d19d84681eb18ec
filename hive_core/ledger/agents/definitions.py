"""Definitions of agents by name, as the operator set them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from hive_core.ledger.core.connection import Connection


class StoredDefinition(NamedTuple):
    """One definition. `fields` is the JSON object that operations/agents/definitions.py checks."""

    name: str
    description: str
    fields: Mapping[str, object]
    body: str
    at: float
    warnings: tuple[str, ...] = ()


class Definitions:
    """The table of definitions. Use it inside a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def put(self, definition: StoredDefinition) -> None:
        """Store a definition, replacing an older one of that name."""
        fields = json.dumps(dict(definition.fields), sort_keys=True)
        warnings = json.dumps(definition.warnings)
        row = (definition.name, definition.description, fields, definition.body, definition.at)
        self._db.run(
            "INSERT OR REPLACE INTO definitions VALUES (?, ?, ?, ?, ?, ?)", (*row, warnings)
        )

    def get(self, name: str) -> StoredDefinition | None:
        rows = self._select("WHERE name = ?", (name,))
        return rows[0] if rows else None

    def after(self, name: str, most: int) -> list[StoredDefinition]:
        """The definitions after this name, in name order."""
        return self._select("WHERE name > ? ORDER BY name LIMIT ?", (name, most))

    def count(self) -> int:
        return int(self._db.value("SELECT COUNT(*) FROM definitions"))

    def drop(self, name: str) -> bool:
        """Remove a definition; False if there was none."""
        return self._db.run("DELETE FROM definitions WHERE name = ?", (name,)) > 0

    def _select(self, rest: str, values: tuple[object, ...]) -> list[StoredDefinition]:
        sql = f"SELECT name, description, fields, body, at, warnings FROM definitions {rest}"  # noqa: S608
        return [
            StoredDefinition(
                name, description, json.loads(fields), body, at, tuple(json.loads(warnings))
            )
            for name, description, fields, body, at, warnings in self._db.rows(sql, values)
        ]
