"""Jobs that stop work, and the tasks whose end each of them waits for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from hive_core.ledger.core.connection import Connection

CLOCK_SHIFT: Final = ("UPDATE stops SET deadline = deadline + ?1",)


class StopJobs:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def create(self, job: str, tasks: Iterable[str], deadline: float) -> None:
        """Create a job whose tasks have to end before the deadline."""
        self._db.run("INSERT INTO stops VALUES (?, ?)", (job, deadline))
        self._db.run(
            "INSERT INTO stopped_tasks SELECT ?, key, value FROM json_each(?)",
            (job, json.dumps(list(tasks))),
        )

    def jobs_of(self, task: str) -> list[str]:
        """Jobs that wait for the end of this task."""
        sql = "SELECT job FROM stopped_tasks WHERE task = ?"
        return [job for (job,) in self._db.rows(sql, (task,))]

    def tasks(self, job: str) -> list[str]:
        """The tasks of the job."""
        sql = "SELECT task FROM stopped_tasks WHERE job = ? ORDER BY number"
        return [task for (task,) in self._db.rows(sql, (job,))]

    def has_open_tasks(self, job: str) -> bool:
        """Whether a task of the job is still open.

        Every end of a task checks this. The last task of the list ends last, so it is read first.
        """
        sql = (
            "SELECT 1 FROM stopped_tasks s JOIN tasks t ON t.id = s.task"
            " WHERE s.job = ? AND t.ended IS NULL ORDER BY s.number DESC LIMIT 1"
        )
        return self._db.row(sql, (job,)) is not None

    def delete(self, job: str) -> None:
        """Delete a finished job."""
        self._db.run("DELETE FROM stops WHERE job = ?", (job,))
        self._db.run("DELETE FROM stopped_tasks WHERE job = ?", (job,))

    def next_deadline(self) -> float | None:
        at: float | None = self._db.value("SELECT MIN(deadline) FROM stops")
        return at

    def overdue(self, now: float) -> str | None:
        """A job whose deadline has come."""
        sql = "SELECT job FROM stops WHERE deadline <= ? ORDER BY deadline LIMIT 1"
        job: str | None = self._db.value(sql, (now,))
        return job
