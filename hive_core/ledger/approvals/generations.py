"""Generations: what each agent ran with, and since when.

Numbers count from 1 and are not reused.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any, Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.config.approval import Generation

_COLUMNS: Final = 'agent, number, "commit", approval, at, system, fields, failed'
_SELECT: Final = f"SELECT {_COLUMNS} FROM generations"  # noqa: S608 - our own names


def _generation(row: tuple[Any, ...]) -> Generation:
    agent, number, commit, approval, at, system, fields, failed = row
    values = MappingProxyType(json.loads(fields))
    return Generation(agent, number, commit, approval, at, system, values, failed)


class Generations:
    """The table of generations."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, agent: str, number: int) -> Generation | None:
        row = self._db.row(f"{_SELECT} WHERE agent = ? AND number = ?", (agent, number))
        return _generation(row) if row else None

    def newest(self, agent: str) -> Generation | None:
        """The generation in force: the newest that did not fail."""
        row = self._db.row(
            f"{_SELECT} WHERE agent = ? AND failed = '' ORDER BY number DESC LIMIT 1", (agent,)
        )
        return _generation(row) if row else None

    def all(self, agent: str) -> list[Generation]:
        """All generations of an agent, the newest first."""
        rows = self._db.rows(f"{_SELECT} WHERE agent = ? ORDER BY number DESC", (agent,))
        return [_generation(row) for row in rows]

    def next(self, agent: str) -> int:
        """The number of the next generation."""
        sql = "SELECT COALESCE(MAX(number), 0) + 1 FROM generations WHERE agent = ?"
        return int(self._db.value(sql, (agent,)))

    def put(self, generation: Generation) -> None:
        """Store a generation, replacing the row of that number."""
        self._db.run(
            f"INSERT OR REPLACE INTO generations ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                generation.agent,
                generation.number,
                generation.commit,
                generation.approval,
                generation.at,
                generation.system,
                json.dumps(dict(generation.fields), sort_keys=True),
                generation.failed,
            ),
        )

    def fail(self, agent: str, number: int, why: str) -> None:
        """Mark a generation as failed: its agent did not become healthy.

        The row stays for inspection.
        """
        self._db.run(
            "UPDATE generations SET failed = ? WHERE agent = ? AND number = ?",
            (why or "failed", agent, number),
        )

    def page(self, agent: str | None, limit: int, after: tuple[float, str, int] | None = None
    ) -> list[Generation]:  # fmt: skip
        """Generations of one agent or all, newest first, after the key (at, agent, number)."""
        where, values = ["1"], list[object]()
        if agent is not None:
            where.append("agent = ?")
            values.append(agent)
        if after is not None:
            where.append("(at, agent, number) < (?, ?, ?)")
            values.extend(after)
        sql = f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY at DESC, agent DESC, number DESC"
        return [_generation(row) for row in self._db.rows(f"{sql} LIMIT ?", (*values, limit))]

    def prune(self, agent: str, keep: int) -> list[Generation]:
        """Delete all but the newest `keep`, failed ones included; the one in force stays."""
        generations, current = self.all(agent), self.newest(agent)
        gone = [
            generation
            for generation in generations[keep:]
            if current is None or generation.number != current.number
        ]
        for generation in gone:
            self._db.run(
                "DELETE FROM generations WHERE agent = ? AND number = ?", (agent, generation.number)
            )
        return gone

    def agents(self) -> set[str]:
        """Agents that have generations."""
        return {str(agent) for (agent,) in self._db.rows("SELECT DISTINCT agent FROM generations")}

    def drop(self, agent: str) -> None:
        """Delete the generations of an agent that cannot be restored."""
        self._db.run("DELETE FROM generations WHERE agent = ?", (agent,))
