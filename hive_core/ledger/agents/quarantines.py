"""Agents in quarantine, by UUID: a quarantine outlives restarts, moves and an archive."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection

CLOCK_SHIFT: Final[tuple[str, ...]] = ("UPDATE quarantines SET since = since + ?1",)


class Quarantine(NamedTuple):
    """One agent that is held, with all below it. `by` is a UUID or `operator`."""

    agent: str
    by: str
    reason: str
    since: float


class QuarantineStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        # Each call looks here, so it is a plain set: empty on most hosts.
        self.agents = set[str]()

    def open(self) -> None:
        """Read the agents once."""
        self.agents.update(row[0] for row in self._db.rows("SELECT agent FROM quarantines"))

    def add(self, quarantine: Quarantine) -> None:
        """Add a quarantine, in place of an earlier one of the agent."""
        self._db.run("INSERT OR REPLACE INTO quarantines VALUES (?, ?, ?, ?)", tuple(quarantine))
        if quarantine.agent not in self.agents:
            self.agents.add(quarantine.agent)
            self._db.undo.note(self.agents.discard, quarantine.agent)

    def delete(self, agent: str) -> None:
        self._db.run("DELETE FROM quarantines WHERE agent = ?", (agent,))
        self.agents.discard(agent)
        self._db.undo.note(self.agents.add, agent)

    def get(self, agent: str) -> Quarantine | None:
        row = self._db.row("SELECT * FROM quarantines WHERE agent = ?", (agent,))
        return Quarantine(*row) if row else None

    def all(self) -> list[Quarantine]:
        """All quarantines, the oldest first."""
        return [
            Quarantine(*row) for row in self._db.rows("SELECT * FROM quarantines ORDER BY since")
        ]
