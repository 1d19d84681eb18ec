"""The agents that queens prepared as colonies, by UUID, with where they come from."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

CLOCK_SHIFT: Final[tuple[str, ...]] = ("UPDATE colonies SET created = created + ?1",)


class Colony(NamedTuple):
    """One colony. `conversation` and `turn`: those of the queen in which she prepared it."""

    agent: str
    queen: str
    task: str
    skill: str
    inherit: str
    conversation: str
    turn: int
    created: float


class ColonyStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def put(self, colony: Colony) -> None:
        """Write a colony in place of an earlier row of its agent."""
        sql = "INSERT OR REPLACE INTO colonies VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._db.run(sql, tuple(colony))

    def get(self, agent: str) -> Colony | None:
        row = self._db.row("SELECT * FROM colonies WHERE agent = ?", (agent,))
        return Colony(*row) if row else None

    def delete(self, agent: str) -> None:
        self._db.run("DELETE FROM colonies WHERE agent = ?", (agent,))
