"""The tasks that each task waits for."""

from __future__ import annotations

from collections.abc import Iterable

from hive_core.ledger.core.connection import Connection


class TaskDependencies:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def add(self, id_: str, first: Iterable[str]) -> None:
        """Add tasks that this task waits for."""
        rows = [(id_, needed) for needed in first]
        self._db.run_each("INSERT OR IGNORE INTO task_needs VALUES (?, ?)", rows)

    def of(self, id_: str) -> list[str]:
        """The tasks that a task still waits for."""
        rows = self._db.rows("SELECT needs FROM task_needs WHERE task = ? ORDER BY needs", (id_,))
        return [row[0] for row in rows]

    def remove(self, task: str, needed: str) -> bool:
        """Remove one dependency; return whether none is left."""
        self._db.run("DELETE FROM task_needs WHERE task = ? AND needs = ?", (task, needed))
        return not self._db.value("SELECT COUNT(*) FROM task_needs WHERE task = ?", (task,))

    def clear(self, id_: str) -> None:
        """Remove all dependencies of a task that has ended."""
        self._db.run("DELETE FROM task_needs WHERE task = ?", (id_,))
