"""Rollouts: changes of many agents, with the wave and the result of each agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hive_core.ledger.core.connection import Connection

WAITING, RUNNING, DONE, FAILED, STOPPED = "waiting", "running", "done", "failed", "stopped"
_GOING_ON: Final = (WAITING, RUNNING)


@dataclass(frozen=True, slots=True)
class RolloutAgent:
    """One agent of one rollout. State `stopped`: not tried, because an earlier agent failed."""

    rollout: str
    wave: int
    agent: str
    approval: str = ""
    state: str = WAITING


class RolloutStore:
    """The table of rollouts."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def put(self, rollout: str, wave: int, agent: str) -> None:
        """Add the agent to this wave."""
        self._db.run(
            "INSERT INTO waves (rollout, wave, agent) VALUES (?, ?, ?)", (rollout, wave, agent)
        )

    def agents(self, rollout: str) -> list[RolloutAgent]:
        """The agents of one rollout, in the order of the waves."""
        rows = self._db.rows(
            "SELECT rollout, wave, agent, approval, state FROM waves WHERE rollout = ?"
            " ORDER BY wave, agent",
            (rollout,),
        )
        return [RolloutAgent(*row) for row in rows]

    def set_state(self, rollout: str, agent: str, state: str, approval: str = "") -> None:
        """Set the state of one agent; an empty `approval` leaves that column unchanged."""
        self._db.run(
            "UPDATE waves SET state = ?, approval = CASE ? WHEN '' THEN approval ELSE ? END"
            " WHERE rollout = ? AND agent = ?",
            (state, approval, approval, rollout, agent),
        )

    def open(self) -> list[str]:
        """Rollouts with agents that wait or run."""
        rows = self._db.rows(
            "SELECT DISTINCT rollout FROM waves WHERE state IN (?, ?) ORDER BY rollout", _GOING_ON
        )
        return [rollout for (rollout,) in rows]
