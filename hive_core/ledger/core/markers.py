"""Markers: words by which the daemon recognizes its own earlier actions."""

from __future__ import annotations

from typing import Final

from hive_core.ledger.core.connection import Connection

_KEY: Final = "mark:{}"


class Markers:
    """One word for each name."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, name: str) -> str:
        """The word of a name; empty if there is none."""
        key = _KEY.format(name)
        return self._db.value("SELECT value FROM meta WHERE key = ?", (key,)) or ""

    def put(self, name: str, word: str) -> None:
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY.format(name), word))

    def drop(self, name: str) -> None:
        self._db.run("DELETE FROM meta WHERE key = ?", (_KEY.format(name),))
