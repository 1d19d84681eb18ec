"""Queues of tasks to end, a few in each step. The rest is not begun meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection
from hive_core.model.work.task import ACTIVE

_BEGUN: Final = ", ".join(f"'{state}'" for state in sorted(ACTIVE))


class Sweep(NamedTuple):
    """A request to end tasks: the party, the status and the reason.

    `grace` is in seconds; None means the default.
    """

    party: str
    name: str
    status: str
    why: str
    grace: float | None = None


class OpenTasks(NamedTuple):
    """Open tasks of agents, by id, the oldest first."""

    waiting: list[str]
    begun: list[str]


class Handover(NamedTuple):
    """A change of the assigner: the party whose call caused it, and the reason."""

    party: str
    name: str
    why: str


class SweepQueue:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def open_tasks(self, assignees: Iterable[str]) -> OpenTasks:
        """The open tasks of these agents: those not begun, and those begun."""
        rows = self._db.rows(
            f"SELECT id, state IN ({_BEGUN}) FROM tasks INDEXED BY tasks_open"  # noqa: S608
            " WHERE assignee IN (SELECT value FROM json_each(?)) AND ended IS NULL"
            " ORDER BY number",
            (json.dumps(list(assignees)),),
        )
        return OpenTasks(
            [id_ for id_, running in rows if not running], [id_ for id_, running in rows if running]
        )

    def open_counts(self, tasks: Sequence[str]) -> dict[str, int]:
        """The number of open tasks among these, by agent."""
        rows = self._db.rows(
            "SELECT assignee, COUNT(*) FROM tasks WHERE ended IS NULL"
            " AND id IN (SELECT value FROM json_each(?)) GROUP BY assignee",
            (json.dumps(list(tasks)),),
        )
        return dict(rows)

    @property
    def any(self) -> bool:
        """Whether a task is still to be ended."""
        return bool(self._db.value("SELECT EXISTS (SELECT 1 FROM sweeps)"))

    def add(self, sweep: Sweep, tasks: Sequence[str]) -> int:
        """Add tasks to end, in this order. A task of another sweep stays there."""
        id_ = 1 + int(self._db.value("SELECT COALESCE(MAX(id), 0) FROM sweeps"))
        self._db.run("INSERT INTO sweeps VALUES (?, ?, ?, ?, ?, ?)", (id_, *sweep))
        sql = "INSERT OR IGNORE INTO swept SELECT value, ?, key FROM json_each(?)"
        self._db.run(sql, (id_, json.dumps(list(tasks))))
        return id_

    def first(self) -> tuple[int, Sweep] | None:
        """The next sweep. One with a grace comes first.

        Only that kind may end running work, and it must not wait for the tasks of a destroyed
        agent.
        """
        row = self._db.row(
            "SELECT id, party, name, status, why, grace FROM sweeps ORDER BY grace IS NULL, id"
        )
        return None if row is None else (row[0], Sweep(*row[1:]))

    def take(self, id_: int, most: int) -> list[str]:
        """Remove and return the next tasks; delete the sweep with its last task."""
        rows = self._db.rows(
            "SELECT task FROM swept WHERE sweep = ? ORDER BY number LIMIT ?", (id_, most)
        )
        self._db.run_each("DELETE FROM swept WHERE task = ?", rows)
        if not self._db.value("SELECT EXISTS (SELECT 1 FROM swept WHERE sweep = ?)", (id_,)):
            self._db.run("DELETE FROM sweeps WHERE id = ?", (id_,))
        return [task for (task,) in rows]

    def add_handovers(self, handing: Handover, tasks: Sequence[str]) -> None:
        """Add tasks whose new assigner is not informed yet."""
        rows = [(task, *handing) for task in tasks]
        self._db.run_each(
            "INSERT INTO handed_on (task, party, name, why) VALUES (?, ?, ?, ?)", rows
        )

    @property
    def has_handovers(self) -> bool:
        """Whether a new assigner is still to be informed."""
        return bool(self._db.value("SELECT EXISTS (SELECT 1 FROM handed_on)"))

    def take_handovers(self, most: int) -> list[tuple[str, Handover]]:
        """Remove and return the next handovers."""
        rows = self._db.rows("SELECT * FROM handed_on ORDER BY number LIMIT ?", (most,))
        self._db.run_each("DELETE FROM handed_on WHERE number = ?", [row[:1] for row in rows])
        return [(task, Handover(*more)) for _, task, *more in rows]

    def contains(self, task: str) -> bool:
        """Whether the task is still to be ended, so that it must not begin."""
        return self._db.row("SELECT 1 FROM swept WHERE task = ?", (task,)) is not None
