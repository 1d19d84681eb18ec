"""How much of the processor time of each machine is written down already."""

from __future__ import annotations

from hive_core.ledger.connection import Connection
from hive_core.model.machine import Cpu


class Counters:
    """The last figure of each agent that is in its sums."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, agent: str) -> Cpu | None:
        row = self._db.row("SELECT grp, used FROM cpu_counters WHERE agent = ?", (agent,))
        return Cpu(*row) if row else None

    def every(self) -> dict[str, Cpu]:
        rows = self._db.rows("SELECT agent, grp, used FROM cpu_counters")
        return {agent: Cpu(group, used) for agent, group, used in rows}

    def keep(self, agent: str, found: Cpu) -> None:
        self._db.run("INSERT OR REPLACE INTO cpu_counters VALUES (?, ?, ?)", (agent, *found))

    def prune(self) -> None:
        """Of those who are no more and left no sums."""
        self._db.run(
            "DELETE FROM cpu_counters WHERE agent NOT IN (SELECT agent FROM usage)"
            " AND agent NOT IN (SELECT agent FROM lives)"
        )
