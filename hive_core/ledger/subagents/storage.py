"""Open sub-agents of agents. They end with the daemon that opened them."""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import uuid4

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.subagent import SUBAGENT_UIDS, SubAgent

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
CLOCK_SHIFT: Final[tuple[str, ...]] = (
    "UPDATE sub_agents SET opened = opened + ?1, deadline = deadline + ?1",
)
_COLUMNS: Final = (
    "agent, id, kind, name, opener, uid, depth, clone_depth, tools, task, opened, deadline, network"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM sub_agents"  # noqa: S608 - our own words


class SubAgentStore:
    """`daemon` is this process: rows of an earlier process belong to sub-agents that have ended."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._daemon = uuid4().hex
        # The last uid that was handed out in this process, by agent.
        self._uids: dict[str, int] = {}

    def next_uid(self, agent: str) -> int:
        """The uid for another sub-agent: the one whose last use is longest ago."""
        last = self._uids.get(agent)
        if last is None:
            sql = "SELECT uid FROM sub_agent_uids WHERE agent = ?"
            last = self._db.value(sql, (agent,))
        used = {sub.uid for sub in self.of(agent)}
        first = SUBAGENT_UIDS.start if last is None else int(last) + 1
        order = (*range(first, SUBAGENT_UIDS.stop), *range(SUBAGENT_UIDS.start, first))
        uid: int = next(uid for uid in order if uid not in used)
        self._uids[agent] = uid
        return uid

    def add(self, sub: SubAgent) -> None:
        values = (
            sub.agent, sub.id, sub.kind, sub.name, sub.opener, sub.uid, sub.depth, sub.clone_depth,
            json.dumps(sorted(sub.tools)), sub.task, sub.opened, sub.deadline,
            json.dumps(sub.network), self._daemon,
        )  # fmt: skip
        places = ", ".join("?" * len(values))
        self._db.run(f"INSERT INTO sub_agents ({_COLUMNS}, daemon) VALUES ({places})", values)  # noqa: S608
        sql = "INSERT OR REPLACE INTO sub_agent_uids VALUES (?, ?)"
        self._db.run(sql, (sub.agent, sub.uid))

    def line(self, sub: SubAgent) -> list[SubAgent]:
        """The sub-agent, the one that opened it, and so on; all of them are open."""
        line = [sub]
        while line[-1].opener:
            above = self.get(sub.agent, line[-1].opener)
            if above is None:
                raise LookupError(f"sub-agent {line[-1].opener} is closed, and {sub.id} is not")
            line.append(above)
        return line

    def get(self, agent: str, id_: str) -> SubAgent | None:
        """An open sub-agent of the agent."""
        row = self._db.row(
            f"{_SELECT} WHERE id = ? AND agent = ? AND daemon = ?", (id_, agent, self._daemon)
        )
        return _sub_agent(row) if row else None

    def of(self, agent: str) -> list[SubAgent]:
        """The open sub-agents of the agent, the oldest first."""
        return self._list("agent = ? AND daemon = ?", agent, self._daemon)

    def all(self) -> list[SubAgent]:
        """All open sub-agents."""
        return self._list("daemon = ?", self._daemon)

    def delete(self, id_: str) -> None:
        self._db.run("DELETE FROM sub_agents WHERE id = ?", (id_,))

    def forget_agent(self, agent: str) -> None:
        """Forget which uids the sub-agents of a destroyed agent had."""
        self._db.run("DELETE FROM sub_agent_uids WHERE agent = ?", (agent,))
        self._uids.pop(agent, None)

    # Those whose time is over

    def next_end(self) -> float | None:
        """When the next deadline is; 0 while there are sub-agents of an earlier daemon."""
        end: float | None = self._db.value(
            "SELECT MIN(CASE daemon WHEN ? THEN deadline ELSE 0.0 END) FROM sub_agents",
            (self._daemon,),
        )
        return end

    def of_earlier_daemons(self, limit: int) -> list[SubAgent]:
        """Sub-agents that ended with the daemon that opened them."""
        return self._list("daemon <> ?", self._daemon)[:limit]

    def overdue(self, now: float, limit: int) -> list[SubAgent]:
        """Sub-agents of this daemon whose deadline has passed."""
        return self._list("deadline <= ? AND daemon = ?", now, self._daemon)[:limit]

    def _list(self, where: str, *values: object) -> list[SubAgent]:
        rows = self._db.rows(f"{_SELECT} WHERE {where} ORDER BY opened, id", values)
        return [_sub_agent(row) for row in rows]


def _sub_agent(row: tuple[Any, ...]) -> SubAgent:
    values = list(row)
    values[8] = frozenset(json.loads(row[8]))
    values[12] = tuple(json.loads(row[12]))
    return SubAgent(*values)
