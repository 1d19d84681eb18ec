"""Uid ranges of agents: allocated once, kept over restarts, never shared.

A range is reused only after `release`, which is called when the agent's storage was wiped, and only
when no unused range is left.
"""

from __future__ import annotations

from typing import Final

from hive_core.errors import LimitReached
from hive_core.ledger.core.connection import Connection

FIRST: Final = 0x30000000
SIZE: Final = 65536
# https://systemd.io/UIDS-GIDS: the end of the range for containers; above it are the ranges of
# jobs.
END: Final = 1874853888


class UidRanges:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def allocate(self, agent: str, first: int = FIRST, at: float | None = None) -> int:
        """The first uid of the agent's range, at least `first`; the same for each call.

        `at` is saved as the creation time of the agent.
        """
        if base := self.base(agent):
            return base
        base = self._allocate_new(agent, first) or self._reuse(agent, first)
        self._db.run("UPDATE ranges SET given = ? WHERE base = ?", (at, base))
        return base

    def creation_time(self, agent: str) -> float | None:
        """When the agent was created; None if that was not saved."""
        time: float | None = self._db.value("SELECT given FROM ranges WHERE agent = ?", (agent,))
        return time

    def base(self, agent: str) -> int | None:
        base: int | None = self._db.value("SELECT base FROM ranges WHERE agent = ?", (agent,))
        return base

    def all(self) -> dict[str, int]:
        rows = self._db.rows("SELECT agent, base FROM ranges WHERE agent IS NOT NULL")
        return dict(rows)

    def count_ranges(self) -> int:
        """The number of ranges in use, by living agents and by destroyed ones with files."""
        return int(self._db.value("SELECT COUNT(*) FROM ranges WHERE agent IS NOT NULL"))

    def has_short_id(self, short: str) -> bool:
        """Whether an agent with this short id is alive, or destroyed with files."""
        row = self._db.value(
            "SELECT 1 FROM ranges WHERE agent >= ?1 AND agent < ?1 || '~' LIMIT 1", (short,)
        )
        return row is not None

    def release(self, agent: str) -> None:
        """Release the range of an agent that no longer has files or a machine."""
        self._db.run(
            "UPDATE ranges SET agent = NULL,"
            " released = (SELECT COALESCE(MAX(released), 0) + 1 FROM ranges) WHERE agent = ?",
            (agent,),
        )

    def _allocate_new(self, agent: str, first: int) -> int | None:
        highest = self._db.value("SELECT MAX(base) FROM ranges")
        base = first if highest is None else max(first, int(highest) + SIZE)
        if base + SIZE > END:
            return None
        self._db.run("INSERT INTO ranges (base, agent) VALUES (?, ?)", (base, agent))
        return base

    def _reuse(self, agent: str, first: int) -> int:
        """Allocate the range that was released longest ago."""
        base: int | None = self._db.value(
            "SELECT base FROM ranges WHERE agent IS NULL AND base >= ? ORDER BY released LIMIT 1",
            (first,),
        )
        if base is None:
            raise LimitReached("all uid ranges of this host are in use")
        self._db.run("UPDATE ranges SET agent = ?, released = NULL WHERE base = ?", (agent, base))
        return base
