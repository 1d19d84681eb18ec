"""How much of the processor time of each machine is written down already."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.machine import Cpu

# Of an agent's machines only one runs, and only the last one that ended has a record. Those before
# are never heard of again, but for a look that is going on.
GROUPS_MOST: Final = 4


class CpuCounters:
    """The figures of the last machines of each agent that are in its sums, in microseconds."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def last_figure(self, agent: str, group: str) -> int:
        """0 where nothing is written down."""
        sql = "SELECT used FROM cpu_groups WHERE agent = ? AND grp = ?"
        return int(self._db.value(sql, (agent, group)) or 0)

    def figures(self, agents: Iterable[str]) -> dict[tuple[str, str], int]:
        """By agent and group."""
        rows = self._db.rows(
            "SELECT agent, grp, used FROM cpu_groups"
            " WHERE agent IN (SELECT value FROM json_each(?))",
            (json.dumps(list(agents)),),
        )
        return {(agent, group): used for agent, group, used in rows}

    def save(self, agent: str, found: Cpu) -> None:
        """Those that were written down longest ago are forgotten."""
        sql = "INSERT OR REPLACE INTO cpu_groups (agent, grp, used) VALUES (?, ?, ?)"
        self._db.run(sql, (agent, *found))
        self._db.run(
            "DELETE FROM cpu_groups WHERE agent = ?1 AND id NOT IN"
            " (SELECT id FROM cpu_groups WHERE agent = ?1 ORDER BY id DESC LIMIT ?2)",
            (agent, GROUPS_MOST),
        )

    def forget(self, agent: str) -> None:
        """No machine of it is heard of again."""
        self._db.run("DELETE FROM cpu_groups WHERE agent = ?", (agent,))

    def prune(self) -> None:
        """Of those who are no more and left no sums."""
        self._db.run(
            "DELETE FROM cpu_groups"
            " WHERE NOT EXISTS (SELECT 1 FROM usage WHERE usage.agent = cpu_groups.agent)"
            " AND agent NOT IN (SELECT agent FROM lives)"
        )
