"""What agents note in the log: beside the audit chain, under the same numbers, bounded in bytes.

A note that is too much for its agent's bytes pushes out the oldest notes of that agent. When all
together are too many, the branch with the most bytes loses, and in it the agent with the most: who
notes little loses nothing to a flood. A reader is told what is gone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Final

from hive_core.ledger.audit.event_heads import EventHead
from hive_core.ledger.core.connection import Connection
from hive_core.model.config.settings import HostLimits

OWN: Final = "own."
# Bytes of a note beside its text: its columns, its number and its place in the index.
_AROUND: Final = 200
_AT_ONCE: Final = 64
_INSERT: Final = "INSERT INTO notes (seq, agent, kind, at, size, body) VALUES (?, ?, ?, ?, ?, ?)"


def is_note(kind: str) -> bool:
    """Whether an event of this kind is what an agent said: no other kind begins so."""
    return kind.startswith(OWN)


class Notes:
    def __init__(self, connection: Connection, limits: HostLimits) -> None:
        self._db = connection
        self._limits = limits
        # Agents that noted something since the last COMMIT.
        self._touched: dict[str, None] = {}

    def enter(self, agent: str, branch: str) -> None:
        """Say in which branch an agent is, before it notes something."""
        self._db.run(
            "INSERT INTO note_use (agent, branch) VALUES (?1, ?2)"
            " ON CONFLICT DO UPDATE SET branch = ?2 WHERE branch <> ?2",
            (agent, branch),
        )

    def add(self, head: EventHead, body: str) -> None:
        """One note, as JSON; what it pushes out goes before COMMIT."""
        self._db.run(
            "INSERT OR IGNORE INTO note_use (agent, branch) VALUES (?1, ?1)", (head.caller,)
        )
        self._touched[head.caller] = None
        size = len(body.encode()) + _AROUND
        self._db.later(_INSERT, (head.seq, head.caller, head.kind, head.time, size, body))

    def seal(self) -> None:
        """Before COMMIT: whoever noted something is within its bytes, and all together are."""
        if not self._touched:
            return
        for agent in self._touched:
            self._shorten(agent, self._limits.notes_agent)
        self._touched.clear()
        self._share()

    def prune(self, before: float) -> int:
        """Forget the oldest notes that are from before a moment, a bounded number; how many."""
        return self._db.run(
            "DELETE FROM notes WHERE at < ?1"
            " AND seq IN (SELECT seq FROM notes ORDER BY seq LIMIT 1000)",
            (before,),
        )

    def tidy(self) -> None:
        """Rows of agents that have no notes are one row together."""
        gone = self._db.value("SELECT MAX(lost) FROM note_use WHERE bytes = 0")
        if gone is None:
            return
        self._db.run("DELETE FROM note_use WHERE bytes = 0")
        self._db.run("INSERT INTO note_use (agent, branch, lost) VALUES ('', '', ?)", (gone,))

    def heads(self, after: int, limit: int) -> list[EventHead]:
        """Heads of the next notes: no text is read for them."""
        sql = "SELECT seq, kind, agent, agent, at FROM notes WHERE seq > ? ORDER BY seq LIMIT ?"
        return [EventHead(*row) for row in self._db.rows(sql, (after, limit))]

    def raw(self, after: int, limit: int) -> list[tuple[int, bytes, str]]:
        """Number and JSON of the next notes; they are in no chain, so the digest is empty."""
        sql = "SELECT seq, body FROM notes WHERE seq > ? ORDER BY seq LIMIT ?"
        return [(seq, b"", body) for seq, body in self._db.rows(sql, (after, limit))]

    def some(self, numbers: Iterable[int]) -> list[tuple[int, bytes, str]]:
        """The same of those with these numbers."""
        sql = "SELECT seq, body FROM notes WHERE seq IN (SELECT value FROM json_each(?))"
        return [(seq, b"", body) for seq, body in self._db.rows(sql, (json.dumps([*numbers]),))]

    def last_lost(self, agents: Collection[str] = ()) -> int:
        """The newest number that a note of these agents had and lost; of all without a word."""
        if not agents:
            return int(self._db.value("SELECT COALESCE(MAX(lost), 0) FROM note_use"))
        sql = (
            "SELECT COALESCE(MAX(lost), 0) FROM note_use"
            " WHERE agent = '' OR agent IN (SELECT value FROM json_each(?))"
        )
        return int(self._db.value(sql, (json.dumps([*agents]),)))

    def size(self, agent: str | None = None) -> int:
        """Bytes that the notes of an agent take, or all."""
        if agent is None:
            return int(self._db.value("SELECT COALESCE(SUM(bytes), 0) FROM note_use"))
        return int(self._db.value("SELECT bytes FROM note_use WHERE agent = ?", (agent,)) or 0)

    def _share(self) -> None:
        """Let whoever has the most lose notes until all together are within the bound.

        A little more than what is too much goes, so that not every note pays for it.
        """
        over = self.size() - self._limits.notes_all
        if over <= 0:
            return
        left = over + self._limits.notes_all // 32
        while left > 0:
            agent, held = self._greediest()
            least = self._shorten(agent, max(0, held - left))
            left -= held - least

    def _greediest(self) -> tuple[str, int]:
        """The agent with the most bytes of the branch with the most, and how many."""
        agent, held = self._db.rows(
            "SELECT agent, bytes FROM note_use WHERE branch ="
            " (SELECT branch FROM note_use GROUP BY branch ORDER BY SUM(bytes) DESC LIMIT 1)"
            " ORDER BY bytes DESC LIMIT 1"
        )[0]
        return str(agent), int(held)

    def _shorten(self, agent: str, most: int) -> int:
        """Forget the oldest notes of an agent until it has so many bytes; how many it has."""
        held = self.size(agent)
        while held > most:
            last = 0
            for seq, size in self._db.rows(
                "SELECT seq, size FROM notes WHERE agent = ? ORDER BY seq LIMIT ?",
                (agent, _AT_ONCE),
            ):
                last, held = seq, held - size
                if held <= most:
                    break
            if not last:
                break
            self._db.run("DELETE FROM notes WHERE agent = ? AND seq <= ?", (agent, last))
        return held
