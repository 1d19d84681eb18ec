"""Rows of tasks. Each task ends exactly once; the rows of ended tasks are kept as a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypedDict, Unpack
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.tasks import judgements
from hive_core.ledger.tasks import notices as task_notices
from hive_core.ledger.tasks.dependencies import TaskDependencies
from hive_core.ledger.tasks.judgements import JudgementStore
from hive_core.ledger.tasks.records import (
    request_from_json,
    request_to_json,
    result_from_json,
    result_to_json,
)
from hive_core.model.work.task import (
    ACTIVE,
    COURSE,
    FINALS,
    Task,
    TaskRequest,
    TaskResult,
    TaskState,
)

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
CLOCK_SHIFT: Final[tuple[str, ...]] = (
    "UPDATE tasks SET created = created + ?1, started = started + ?1, ended = ended + ?1,"
    " soft_at = soft_at + ?1, hard_at = hard_at + ?1, stop_at = stop_at + ?1, due = due + ?1",
    *task_notices.CLOCK_SHIFT,
    *judgements.CLOCK_SHIFT,
)
_DIGITS: Final = 12
_COLUMNS: Final = (
    "number, id, assignee, assigner, wish, state, created, attempt, started, ended, soft_at,"
    " hard_at, left, stop, stop_at, message, plan, why, percent, progress, version, result"
)
_ACTIVE: Final = ", ".join(f"'{state}'" for state in sorted(ACTIVE))
_SELECT: Final = f"SELECT {_COLUMNS} FROM tasks "  # noqa: S608 - our own words


class TaskChanges(TypedDict, total=False):
    """Columns that a change may write in addition to the state."""

    assigner: str
    attempt: int
    started: float | None
    soft_at: float | None
    hard_at: float | None
    left: float | None
    stop: str
    stop_at: float | None
    message: str
    plan: str
    why: str
    percent: int | None
    progress: str
    result: TaskResult | None


def _task_from_row(row: tuple[Any, ...]) -> Task:
    values: list[Any] = list(row)
    values[4], values[5] = request_from_json(row[4]), TaskState(row[5])
    values[-1] = result_from_json(row[-1]) if row[-1] else None
    return Task(*values)


class TaskStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self.news = task_notices.TaskNews(connection)
        self.needs = TaskDependencies(connection)
        self.judgements = JudgementStore(connection)

    def create(self, assigner: str, assignee: str, wish: TaskRequest, now: float) -> Task:
        """Create a task in its first state."""
        id_ = uuid4().hex[:_DIGITS]
        while self.get(id_) is not None:
            id_ = uuid4().hex[:_DIGITS]
        self._db.run(
            "INSERT INTO tasks (id, assignee, assigner, state, priority, part_of, batch, wish,"
            " created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                id_, assignee, assigner, COURSE.start, wish.priority, wish.part_of, wish.batch,
                request_to_json(wish), now,
            ),
        )  # fmt: skip
        return self.require(id_)

    def get(self, id_: str) -> Task | None:
        row = self._db.row(f"{_SELECT} WHERE id = ?", (id_,))
        return _task_from_row(row) if row else None

    def require(self, id_: str) -> Task:
        """The task; NotFound if it does not exist."""
        task = self.get(id_)
        if task is None:
            raise NotFound(f"no task {id_}")
        return task

    def move(self, id_: str, event: str, now: float, **changes: Unpack[TaskChanges]) -> Task:
        """Apply `event`. IllegalTransition if the current state does not allow it."""
        task = self.require(id_)
        state = TaskState(COURSE.next(task.state, event))
        if state in FINALS:
            changes = {**changes, "soft_at": None, "hard_at": None, "stop_at": None, "left": None}
        return self._write(task, state, now if state in FINALS else None, changes)

    def update(self, id_: str, **changes: Unpack[TaskChanges]) -> Task:
        """Write columns of a task without changing its state."""
        task = self.require(id_)
        return self._write(task, task.state, task.ended, changes)

    def _write(
        self, task: Task, state: TaskState, ended: float | None, changes: TaskChanges
    ) -> Task:
        values: dict[str, object] = {**changes}
        if "result" in changes:
            result = changes["result"]
            values["result"] = result_to_json(result) if result is not None else None
        times = (changes.get(key, getattr(task, key)) for key in ("soft_at", "hard_at", "stop_at"))
        values["due"] = min((time for time in times if isinstance(time, float)), default=None)
        names = ", ".join(f"{name} = ?" for name in values)
        self._db.run(
            f"UPDATE tasks SET state = ?, ended = ?, version = version + 1, {names}"  # noqa: S608
            " WHERE id = ?",
            (state.value, ended, *values.values(), task.id),
        )
        return replace(task, state=state, ended=ended, version=task.version + 1, **changes)

    def open_tasks(self, assignee: str, most: int = -1) -> list[Task]:
        """Open tasks of an agent, in the order in which they are offered."""
        where = f"assignee = ? AND ended IS NULL ORDER BY priority, number LIMIT {most}"
        return self._select(where, assignee, "INDEXED BY tasks_assignee")

    def get_many(self, ids: Sequence[str]) -> list[Task]:
        """The existing ones of these tasks, in this order."""
        where = "WHERE id IN (SELECT value FROM json_each(?))"
        rows = self._db.rows(f"{_SELECT} {where}", (json.dumps(ids),))
        tasks = {task.id: task for task in map(_task_from_row, rows)}
        return [tasks[id_] for id_ in ids if id_ in tasks]

    def offered_tasks(self, assignee: str) -> list[Task]:
        """Open tasks that were offered to the agent: at most as many as it may have at once."""
        where = "assignee = ? AND ended IS NULL AND message <> '' ORDER BY number"
        return self._select(where, assignee, "INDEXED BY tasks_held")

    def offered_tasks_of(self, assignees: Iterable[str]) -> dict[str, list[Task]]:
        """The same of those of these agents that have any, in one query."""
        among = "assignee IN (SELECT value FROM json_each(?))"
        where = f"{among} AND ended IS NULL AND message <> '' ORDER BY number"
        tasks: dict[str, list[Task]] = {}
        for task in self._select(where, json.dumps(list(assignees)), "INDEXED BY tasks_held"):
            tasks.setdefault(task.assignee, []).append(task)
        return tasks

    def begun_tasks(self, assignee: str) -> list[Task]:
        """Open tasks that the agent has begun."""
        return [task for task in self.offered_tasks(assignee) if task.begun]

    def tasks_from(self, assigner: str, most: int = -1) -> list[Task]:
        """Open tasks that the assigner assigned, the oldest first."""
        where = f"assigner = ? AND ended IS NULL ORDER BY number LIMIT {most}"
        return self._select(where, assigner, "INDEXED BY tasks_assigner")

    def open_parts(self, id_: str, most: int, but: str = "") -> list[Task]:
        """Open sub-tasks of a task, the oldest first, without those in state `but`."""
        where = "part_of = ?1 AND part_of <> '' AND ended IS NULL AND state <> ?2"
        return self._select(f"{where} ORDER BY number LIMIT {most}", id_, "", but)

    def _select(self, where: str, value: str, index: str = "", *more: str) -> list[Task]:
        # Without the index named, SQLite would use one over all tasks, including ended ones.
        rows = self._db.rows(f"{_SELECT} {index} WHERE {where}", (value, *more))
        return [_task_from_row(row) for row in rows]

    def count_open(self, column: str, party: str) -> int:
        """The number of open tasks with this `assignee`, `assigner`, or parent task (`part_of`)."""
        if column not in ("assignee", "assigner", "part_of"):
            raise ValueError(column)
        index = "" if column == "part_of" else f"INDEXED BY tasks_{column}"
        sql = f"SELECT COUNT(*) FROM tasks {index} WHERE {column} = ? AND ended IS NULL"  # noqa: S608
        return int(self._db.value(f"{sql} AND {column} <> ''", (party,)))

    def open_counts(self, assignees: Iterable[str]) -> dict[str, int]:
        """The number of open tasks of these agents; agents without one are left out."""
        rows = self._db.rows(
            "SELECT assignee, COUNT(*) FROM tasks INDEXED BY tasks_assignee WHERE ended IS NULL"
            " AND assignee IN (SELECT value FROM json_each(?)) GROUP BY assignee",
            (json.dumps(list(assignees)),),
        )
        return dict(rows)

    def count_offered_tasks(self, assignee: str) -> int:
        """The number of open tasks that were offered to the agent."""
        where = "assignee = ? AND ended IS NULL AND message <> ''"
        sql = f"SELECT COUNT(*) FROM tasks INDEXED BY tasks_held WHERE {where}"  # noqa: S608
        return int(self._db.value(sql, (assignee,)))

    def is_part_timed_by_other(self, id_: str, assignee: str) -> bool:
        """Whether another agent has begun a sub-task that has a deadline of its own."""
        where = (
            "part_of = ? AND part_of <> '' AND ended IS NULL AND assignee <> ?"
            " AND COALESCE(hard_at, left, stop_at) IS NOT NULL"
            f" AND state IN ({_ACTIVE}) AND (state <> 'pending_delegation' OR started IS NOT NULL)"
        )
        sql = f"SELECT EXISTS (SELECT 1 FROM tasks WHERE {where})"  # noqa: S608
        return bool(self._db.value(sql, (id_, assignee)))

    def next_queued_task(self, assignee: str) -> Task | None:
        """The next queued task, by priority and age, that is neither offered nor in a sweep."""
        queued = "assignee = ? AND ended IS NULL AND state = 'queued' AND message = ''"
        left = "NOT EXISTS (SELECT 1 FROM swept WHERE task = id)"
        sql = f"{_SELECT} INDEXED BY tasks_open WHERE {queued} AND {left}"
        row = self._db.row(f"{sql} ORDER BY priority, number LIMIT 1", (assignee,))
        return _task_from_row(row) if row else None

    def page(  # noqa: PLR0913 - a filter, by keyword
        self, parties: Iterable[str] | None, after: int | None, limit: int,
        *, state: str | None = None, open_: bool = False, assigned_too: bool = False,
    ) -> list[Task]:  # fmt: skip
        """Tasks with these assignees before this number, newest first.

        `assigned_too`: also tasks that these agents assigned.
        """
        where, values = ["1"], list[object]()
        if parties is not None:
            among = "IN (SELECT value FROM json_each(?))"
            columns = ("assignee", "assigner") if assigned_too else ("assignee",)
            where.append(f"({' OR '.join(f'{column} {among}' for column in columns)})")
            values += [json.dumps(list(parties))] * len(columns)
        if after is not None:
            where.append("number < ?")
            values.append(after)
        if state is not None:
            where.append("state = ?")
            values.append(state)
        if open_:
            where.append("ended IS NULL")
        sql = f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?"
        return [_task_from_row(row) for row in self._db.rows(sql, (*values, limit))]

    def dependents(self, needed: str, most: int) -> list[Task]:
        """Open tasks that wait for this one, the oldest first."""
        waiting = "id IN (SELECT task FROM task_needs WHERE needs = ?)"
        return self._select(f"{waiting} AND ended IS NULL ORDER BY number LIMIT {most}", needed)

    def next_due(self) -> float | None:
        due: float | None = self._db.value("SELECT MIN(due) FROM tasks WHERE due IS NOT NULL")
        return due

    def overdue(self, now: float, limit: int) -> list[Task]:
        rows = self._db.rows(
            f"{_SELECT} WHERE due IS NOT NULL AND due <= ? ORDER BY due LIMIT ?", (now, limit)
        )
        return [_task_from_row(row) for row in rows]

    def add_event(self, id_: str, seq: int) -> None:
        """Add an event of the log to the history of the task."""
        self._db.later("INSERT INTO task_events VALUES (?, ?)", (id_, seq))

    def last_events(self, id_: str, last: int) -> list[int]:
        """Numbers of the last events of the task, the oldest first."""
        rows = self._db.rows(
            "SELECT seq FROM task_events WHERE task = ? ORDER BY seq DESC LIMIT ?", (id_, last)
        )
        return [row[0] for row in reversed(rows)]

    def reassign_all(self, assigner: str, heir: str, why: str) -> list[str]:
        """Make the heir the assigner of all open tasks of the assigner; return their ids."""
        sql = "SELECT id FROM tasks INDEXED BY tasks_assigner WHERE assigner = ? AND ended IS NULL"
        rows = self._db.rows(f"{sql} ORDER BY number", (assigner,))
        self._db.run(
            "UPDATE tasks SET assigner = ?, why = ?, version = version + 1"
            " WHERE assigner = ? AND ended IS NULL",
            (heir, why, assigner),
        )
        self.news.drop(assigner)
        return [id_ for (id_,) in rows]

    def prune(self, before: float, limit: int = 1000) -> int:
        """Delete tasks that ended before this time and have no open part; return how many."""
        rows = self._db.rows(
            "SELECT id FROM tasks t WHERE t.ended < ? AND NOT EXISTS (SELECT 1 FROM tasks p"
            "  WHERE p.part_of = t.id AND p.part_of <> '' AND p.ended IS NULL)"
            " ORDER BY t.ended LIMIT ?",
            (before, limit),
        )
        self._db.run_each("DELETE FROM task_events WHERE task = ?", rows)
        self.judgements.delete(rows)
        self._db.run_each("DELETE FROM tasks WHERE id = ?", rows)
        return len(rows)
