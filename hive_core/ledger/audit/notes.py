"""Notes of agents in the log: outside the hash chain, with the same counter, limited in bytes.

When an agent's notes exceed its limit, its oldest notes are deleted. When all notes exceed the
common limit, the agent with the most bytes in the branch with the most bytes loses its oldest
notes, so that a flood does not affect other agents. Readers are told which notes are gone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Final

from hive_core.ledger.audit.event_heads import EventHead
from hive_core.ledger.core.connection import Connection
from hive_core.model.config.settings import HostLimits

OWN: Final = "own."
# Bytes that a note takes besides its text: columns, number and index entry.
_AROUND: Final = 200
_AT_ONCE: Final = 64
_INSERT: Final = "INSERT INTO notes (seq, agent, kind, at, size, body) VALUES (?, ?, ?, ?, ?, ?)"


def is_note(kind: str) -> bool:
    """Whether an event of this kind is a note of an agent; other kinds have another prefix."""
    return kind.startswith(OWN)


class Notes:
    def __init__(self, connection: Connection, limits: HostLimits) -> None:
        self._db = connection
        self._limits = limits
        # Agents that added notes since the last COMMIT.
        self._touched: dict[str, None] = {}

    def enter(self, agent: str, branch: str) -> None:
        """Record the branch of an agent. Called before its first note."""
        self._db.run(
            "INSERT INTO note_use (agent, branch) VALUES (?1, ?2)"
            " ON CONFLICT DO UPDATE SET branch = ?2 WHERE branch <> ?2",
            (agent, branch),
        )

    def add(self, head: EventHead, body: str) -> None:
        """Add one note, as JSON. Excess notes are deleted before COMMIT."""
        self._db.run(
            "INSERT OR IGNORE INTO note_use (agent, branch) VALUES (?1, ?1)", (head.caller,)
        )
        self._touched[head.caller] = None
        size = len(body.encode()) + _AROUND
        self._db.later(_INSERT, (head.seq, head.caller, head.kind, head.time, size, body))

    def seal(self) -> None:
        """Delete notes above the limits of each agent and of all. Called before COMMIT."""
        if not self._touched:
            return
        for agent in self._touched:
            self._shorten(agent, self._limits.notes_agent)
        self._touched.clear()
        self._share()

    def prune(self, before: float) -> int:
        """Delete the oldest notes from before a time, a limited number; return how many."""
        return self._db.run(
            "DELETE FROM notes WHERE at < ?1"
            " AND seq IN (SELECT seq FROM notes ORDER BY seq LIMIT 1000)",
            (before,),
        )

    def tidy(self) -> None:
        """Merge the rows of agents without notes into one row."""
        gone = self._db.value("SELECT MAX(lost) FROM note_use WHERE bytes = 0")
        if gone is None:
            return
        self._db.run("DELETE FROM note_use WHERE bytes = 0")
        self._db.run("INSERT INTO note_use (agent, branch, lost) VALUES ('', '', ?)", (gone,))

    def heads(self, after: int, limit: int) -> list[EventHead]:
        """Heads of the next notes, read without their texts."""
        sql = "SELECT seq, kind, agent, agent, at FROM notes WHERE seq > ? ORDER BY seq LIMIT ?"
        return [EventHead(*row) for row in self._db.rows(sql, (after, limit))]

    def raw(self, after: int, limit: int) -> list[tuple[int, bytes, str]]:
        """Number and JSON of the next notes.

        The digest is empty, because they are not in the chain.
        """
        sql = "SELECT seq, body FROM notes WHERE seq > ? ORDER BY seq LIMIT ?"
        return [(seq, b"", body) for seq, body in self._db.readable_rows(sql, (after, limit))]

    def some(self, numbers: Iterable[int]) -> list[tuple[int, bytes, str]]:
        """Number and JSON of the notes with these numbers."""
        sql = "SELECT seq, body FROM notes WHERE seq IN (SELECT value FROM json_each(?))"
        rows = self._db.readable_rows(sql, (json.dumps([*numbers]),))
        return [(seq, b"", body) for seq, body in rows]

    def last_lost(self, agents: Collection[str] = ()) -> int:
        """The newest number of a deleted note of these agents; of all agents by default."""
        if not agents:
            return int(self._db.value("SELECT COALESCE(MAX(lost), 0) FROM note_use"))
        sql = (
            "SELECT COALESCE(MAX(lost), 0) FROM note_use"
            " WHERE agent = '' OR agent IN (SELECT value FROM json_each(?))"
        )
        return int(self._db.value(sql, (json.dumps([*agents]),)))

    def size(self, agent: str | None = None) -> int:
        """Bytes of the notes of one agent, or of all."""
        if agent is None:
            return int(self._db.value("SELECT COALESCE(SUM(bytes), 0) FROM note_use"))
        return int(self._db.value("SELECT bytes FROM note_use WHERE agent = ?", (agent,)) or 0)

    def _share(self) -> None:
        """Delete notes of the largest user until all are within the limit.

        A little more than needed is deleted, so that not every note has to delete.
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
        """The agent with the most bytes in the branch with the most bytes, and its bytes."""
        agent, held = self._db.rows(
            "SELECT agent, bytes FROM note_use WHERE branch ="
            " (SELECT branch FROM note_use GROUP BY branch ORDER BY SUM(bytes) DESC LIMIT 1)"
            " ORDER BY bytes DESC LIMIT 1"
        )[0]
        return str(agent), int(held)

    def _shorten(self, agent: str, most: int) -> int:
        """Delete the oldest notes of an agent until it has at most `most` bytes.

        Return its bytes.
        """
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
