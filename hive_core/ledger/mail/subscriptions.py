"""Topics and their followers."""

from __future__ import annotations

from hive_core.ledger.core.connection import Connection


class Follows:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def follow(self, topic: str, party: str) -> bool:
        """Follow a topic; return whether that is new."""
        return self._db.run("INSERT OR IGNORE INTO follows VALUES (?, ?)", (topic, party)) > 0

    def unfollow(self, topic: str, party: str) -> bool:
        """Stop following a topic; return whether the party followed it."""
        sql = "DELETE FROM follows WHERE topic = ? AND party = ?"
        return self._db.run(sql, (topic, party)) > 0

    def of(self, party: str) -> list[str]:
        """The topics that a party follows."""
        rows = self._db.rows("SELECT topic FROM follows WHERE party = ? ORDER BY topic", (party,))
        return [row[0] for row in rows]

    def followers(self, topic: str) -> list[str]:
        """The followers of a topic, whether or not the publisher may reach them."""
        rows = self._db.rows("SELECT party FROM follows WHERE topic = ? ORDER BY party", (topic,))
        return [row[0] for row in rows]

    def remove_all_of(self, party: str) -> None:
        self._db.run("DELETE FROM follows WHERE party = ?", (party,))
