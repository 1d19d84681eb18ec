"""Jobs: slow work whose call returns at once, and that the change path finishes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.model.states import StateMachine, Transition
from hive_core.model.wire.record import JobRecord

RUNNING, DONE, FAILED = "running", "done", "failed"
COURSE: Final = StateMachine(
    noun="job",
    start=RUNNING,
    finals=frozenset({DONE, FAILED}),
    transitions=(
        Transition(RUNNING, "finish", DONE, "the change path", "every agent reached its goal"),
        Transition(RUNNING, "fail", FAILED, "the change path", "a goal can no longer be reached"),
    ),
)
KEPT: Final = 7 * 86_400.0
_AT_ONCE: Final = 1000
_COLUMNS = "job, operation, caller, goals, state, started, ended, error, progress"


def _job(row: tuple[Any, ...]) -> JobRecord:
    job, operation, caller, goals, state, started, ended, error, progress = row
    wanted: dict[str, str] = json.loads(goals)
    return JobRecord(
        job, operation, caller, tuple(wanted), state, started, ended, error,
        MappingProxyType(json.loads(progress)), MappingProxyType(wanted),
    )  # fmt: skip


class JobTable:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def create(
        self, operation: str, caller: str, goals: Mapping[str, str], now: float
    ) -> JobRecord:
        """Create a running job. `goals` names for each agent the state to reach."""
        job = str(uuid4())
        self._db.run(
            "INSERT INTO jobs (job, operation, caller, goals, state, started)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (job, operation, caller, json.dumps(dict(goals)), COURSE.start, now),
        )
        return self._require(job)

    def get(self, job: str) -> JobRecord | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM jobs WHERE job = ?", (job,))  # noqa: S608
        return _job(row) if row else None

    def open(self) -> list[JobRecord]:
        """Jobs that have not ended, oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM jobs WHERE ended IS NULL ORDER BY id"  # noqa: S608
        )
        return [_job(row) for row in rows]

    def waiting(self, caller: str) -> int:
        """The number of open jobs of one caller."""
        sql = "SELECT COUNT(*) FROM jobs WHERE ended IS NULL AND caller = ?"
        return int(self._db.value(sql, (caller,)))

    def page(self, caller: str | None, limit: int, before: str | None = None) -> list[JobRecord]:
        """The newest jobs, of one caller or of all, that are older than the job `before`."""
        where, values = ["1"], list[object]()
        if caller is not None:
            where.append("caller = ?")
            values.append(caller)
        if before is not None:
            where.append("id < (SELECT id FROM jobs WHERE job = ?)")
            values.append(before)
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM jobs WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [_job(row) for row in rows]

    def progress(self, job: str, progress: Mapping[str, object]) -> None:
        """Replace the recorded progress."""
        text = json.dumps(dict(progress))
        self._db.run("UPDATE jobs SET progress = ? WHERE job = ?", (text, job))

    def finish(self, job: str, error: str, now: float) -> JobRecord:
        """End a job, with an error if it failed. IllegalTransition if it has ended."""
        state = COURSE.next(self._require(job).state, "fail" if error else "finish")
        self._db.run(
            "UPDATE jobs SET state = ?, error = ?, ended = ? WHERE job = ?",
            (state, error, now, job),
        )
        return self._require(job)

    def prune(self, now: float, retention: float = KEPT) -> int:
        """Delete jobs that ended longer than `retention` ago; return how many."""
        return self._db.run(
            "DELETE FROM jobs WHERE ended < ?"
            " AND id IN (SELECT id FROM jobs WHERE ended IS NOT NULL ORDER BY id LIMIT ?)",
            (now - retention, _AT_ONCE),
        )

    def _require(self, job: str) -> JobRecord:
        record = self.get(job)
        if record is None:
            raise NotFound(f"no job {job}")
        return record
