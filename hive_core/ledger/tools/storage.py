"""Grants to use a tool, each for one use; and definitions of agents."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from hive_core.ledger.agents.definitions import Definitions
from hive_core.ledger.core.connection import Connection

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
CLOCK_SHIFT: Final[tuple[str, ...]] = ("UPDATE grants SET at = at + ?1, expires = expires + ?1",)


class ToolGrant(NamedTuple):
    """A grant for one use of a tool, until it expires. `agent`: UUID; `task`: id, or empty."""

    id: str
    agent: str
    tool: str
    argument: tuple[str, ...]
    task: str
    at: float
    expires: float


class ToolStore:
    """The table of grants. Use it inside a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self.definitions = Definitions(connection)

    def add(self, grant: ToolGrant) -> None:
        id_, agent, tool, argument, *rest = grant
        row = (id_, agent, tool, json.dumps(argument), *rest)
        self._db.run("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def get(self, id_: str) -> ToolGrant | None:
        return next(iter(self._select("id = ?", (id_,))), None)

    def open_grants(self, agent: str) -> list[ToolGrant]:
        """Open grants of an agent, the oldest first."""
        return self._select("agent = ? ORDER BY at, id", (agent,))

    def delete(self, id_: str) -> None:
        """Delete a grant that was used or has expired."""
        self._db.run("DELETE FROM grants WHERE id = ?", (id_,))

    def next_expiry(self) -> float | None:
        """When the next grant expires; None if there is none."""
        at: float | None = self._db.value("SELECT MIN(expires) FROM grants")
        return at

    def expired_grants(self, now: float, most: int) -> list[ToolGrant]:
        return self._select("expires <= ? ORDER BY expires LIMIT ?", (now, most))

    def _select(self, where: str, values: tuple[object, ...]) -> list[ToolGrant]:
        sql = f"SELECT id, agent, tool, argument, task, at, expires FROM grants WHERE {where}"  # noqa: S608
        return [
            ToolGrant(id_, agent, tool, tuple(json.loads(argument)), task, at, expires)
            for id_, agent, tool, argument, task, at, expires in self._db.rows(sql, values)
        ]
