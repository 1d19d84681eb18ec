"""The processor time of each machine that was charged already."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.machine import Cpu

# Only one machine of an agent runs, and only its last ended one has a record. Earlier machines
# appear only in an observation that is still in progress.
GROUPS_MOST: Final = 4


class CpuCounters:
    """The recorded values of the last machines of each agent, in microseconds."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def last_figure(self, agent: str, group: str) -> int:
        """The recorded value of one machine; 0 if there is none."""
        sql = "SELECT used FROM cpu_groups WHERE agent = ? AND grp = ?"
        return int(self._db.value(sql, (agent, group)) or 0)

    def figures(self, agents: Iterable[str]) -> dict[tuple[str, str], int]:
        """The recorded values by agent and group."""
        rows = self._db.rows(
            "SELECT agent, grp, used FROM cpu_groups"
            " WHERE agent IN (SELECT value FROM json_each(?))",
            (json.dumps(list(agents)),),
        )
        return {(agent, group): used for agent, group, used in rows}

    def save(self, agent: str, cpu: Cpu) -> None:
        """Save a value; delete the oldest ones of the agent."""
        sql = "INSERT OR REPLACE INTO cpu_groups (agent, grp, used) VALUES (?, ?, ?)"
        self._db.run(sql, (agent, *cpu))
        self._db.run(
            "DELETE FROM cpu_groups WHERE agent = ?1 AND id NOT IN"
            " (SELECT id FROM cpu_groups WHERE agent = ?1 ORDER BY id DESC LIMIT ?2)",
            (agent, GROUPS_MOST),
        )

    def forget(self, agent: str) -> None:
        """Delete the values of an agent without machines."""
        self._db.run("DELETE FROM cpu_groups WHERE agent = ?", (agent,))

    def prune(self) -> None:
        """Delete the values of destroyed agents without usage."""
        self._db.run(
            "DELETE FROM cpu_groups"
            " WHERE NOT EXISTS (SELECT 1 FROM usage WHERE usage.agent = cpu_groups.agent)"
            " AND agent NOT IN (SELECT agent FROM lives)"
        )
