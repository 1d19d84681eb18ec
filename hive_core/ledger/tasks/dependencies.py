"""What each task waits for: other tasks."""

from __future__ import annotations

from collections.abc import Iterable

from hive_core.ledger.core.connection import Connection


class TaskDependencies:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def add(self, id_: str, first: Iterable[str]) -> None:
        """It waits for these."""
        rows = [(id_, each) for each in first]
        self._db.run_each("INSERT OR IGNORE INTO task_needs VALUES (?, ?)", rows)

    def of(self, id_: str) -> list[str]:
        """What it still waits for."""
        rows = self._db.rows("SELECT needs FROM task_needs WHERE task = ? ORDER BY needs", (id_,))
        return [row[0] for row in rows]

    def remove(self, task: str, needed: str) -> bool:
        """It waits for this one no more; whether it waits for nothing now."""
        self._db.run("DELETE FROM task_needs WHERE task = ? AND needs = ?", (task, needed))
        return not self._db.value("SELECT COUNT(*) FROM task_needs WHERE task = ?", (task,))

    def clear(self, id_: str) -> None:
        """It waits for nothing: it has ended."""
        self._db.run("DELETE FROM task_needs WHERE task = ?", (id_,))
