"""Definitions of agents: what the operator wrote, by name."""

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


class Definitions:
    """Inside a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def put(self, kept: StoredDefinition) -> None:
        """Keep it, in place of an older one of that name."""
        fields = json.dumps(dict(kept.fields), sort_keys=True)
        row = (kept.name, kept.description, fields, kept.body, kept.at)
        self._db.run("INSERT OR REPLACE INTO definitions VALUES (?, ?, ?, ?, ?)", row)

    def get(self, name: str) -> StoredDefinition | None:
        found = self._select("WHERE name = ?", (name,))
        return found[0] if found else None

    def after(self, name: str, most: int) -> list[StoredDefinition]:
        """By name, those behind this one."""
        return self._select("WHERE name > ? ORDER BY name LIMIT ?", (name, most))

    def count(self) -> int:
        return int(self._db.value("SELECT COUNT(*) FROM definitions"))

    def drop(self, name: str) -> bool:
        """False when there was none."""
        return self._db.run("DELETE FROM definitions WHERE name = ?", (name,)) > 0

    def _select(self, rest: str, values: tuple[object, ...]) -> list[StoredDefinition]:
        sql = f"SELECT name, description, fields, body, at FROM definitions {rest}"  # noqa: S608
        return [
            StoredDefinition(name, description, json.loads(fields), body, at)
            for name, description, fields, body, at in self._db.rows(sql, values)
        ]
