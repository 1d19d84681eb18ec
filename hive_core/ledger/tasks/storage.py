"""Tasks: what one agent does for another, each with exactly one end. Ended ones are the record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from typing import Any, Final, TypedDict, Unpack
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.tasks import notices as task_notices
from hive_core.ledger.tasks.dependencies import TaskDependencies
from hive_core.model.work.task import (
    ACTIVE,
    COURSE,
    FINALS,
    ResultStatus,
    Task,
    TaskRequest,
    TaskResult,
    TaskState,
)

# What moves along when the clock is set (ledger/core/clock_shift.py); ?1 is by how many seconds.
CLOCK_SHIFT: Final[tuple[str, ...]] = (
    "UPDATE tasks SET created = created + ?1, started = started + ?1, ended = ended + ?1,"
    " soft_at = soft_at + ?1, hard_at = hard_at + ?1, stop_at = stop_at + ?1, due = due + ?1",
    *task_notices.CLOCK_SHIFT,
)
_DIGITS: Final = 12
_COLUMNS: Final = (
    "number, id, assignee, assigner, wish, state, created, attempt, started, ended, soft_at,"
    " hard_at, left, stop, stop_at, message, plan, why, percent, progress, version, result"
)
_ACTIVE: Final = ", ".join(f"'{state}'" for state in sorted(ACTIVE))
_SELECT: Final = f"SELECT {_COLUMNS} FROM tasks "  # noqa: S608 - our own words


class TaskChanges(TypedDict, total=False):
    """What a step may write down beside the state."""

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
    values[4], values[5] = _request_from_json(row[4]), TaskState(row[5])
    values[-1] = _result_from_json(row[-1]) if row[-1] else None
    return Task(*values)


@lru_cache(maxsize=64)  # one step of a task reads it some times
def _request_from_json(text: str) -> TaskRequest:
    found = json.loads(text)
    for name in ("after", "artifacts"):
        if name in found:
            found[name] = tuple(found[name])
    return TaskRequest(**found)


@lru_cache(maxsize=64)
def _result_from_json(text: str) -> TaskResult:
    found = json.loads(text)
    found["status"] = ResultStatus(found["status"])
    found["artifacts"] = tuple(found["artifacts"])
    return TaskResult(**found)


_REQUEST_DEFAULTS: Final = asdict(TaskRequest(""))


class TaskStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self.news = task_notices.TaskNews(connection)
        self.needs = TaskDependencies(connection)

    def create(self, assigner: str, assignee: str, wish: TaskRequest, now: float) -> Task:
        """A new one, in the state in which every task starts."""
        id_ = uuid4().hex[:_DIGITS]
        while self.get(id_) is not None:
            id_ = uuid4().hex[:_DIGITS]
        said = {
            key: value for key, value in _fields_of(wish).items() if value != _REQUEST_DEFAULTS[key]
        }
        text = json.dumps({"description": wish.description, **said}, separators=(",", ":"))
        self._db.run(
            "INSERT INTO tasks (id, assignee, assigner, state, priority, part_of, batch, wish,"
            " created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                id_, assignee, assigner, COURSE.start, wish.priority, wish.part_of, wish.batch,
                text, now,
            ),
        )  # fmt: skip
        return self.require(id_)

    def get(self, id_: str) -> Task | None:
        row = self._db.row(f"{_SELECT} WHERE id = ?", (id_,))
        return _task_from_row(row) if row else None

    def require(self, id_: str) -> Task:
        """The task, which there has to be."""
        found = self.get(id_)
        if found is None:
            raise NotFound(f"no task {id_}")
        return found

    def move(self, id_: str, event: str, now: float, **kept: Unpack[TaskChanges]) -> Task:
        """Apply `event`. IllegalTransition when the present state does not allow it."""
        found = self.require(id_)
        state = TaskState(COURSE.next(found.state, event))
        if state in FINALS:
            kept = {**kept, "soft_at": None, "hard_at": None, "stop_at": None, "left": None}
        return self._write(found, state, now if state in FINALS else None, kept)

    def update(self, id_: str, **kept: Unpack[TaskChanges]) -> Task:
        """Write something down of one that stays where it is."""
        found = self.require(id_)
        return self._write(found, found.state, found.ended, kept)

    def _write(self, found: Task, state: TaskState, ended: float | None, kept: TaskChanges) -> Task:
        values: dict[str, object] = {**kept}
        if "result" in kept:
            result = kept["result"]
            values["result"] = json.dumps(_fields_of(result)) if result is not None else None
        times = (kept.get(key, getattr(found, key)) for key in ("soft_at", "hard_at", "stop_at"))
        values["due"] = min((each for each in times if isinstance(each, float)), default=None)
        names = ", ".join(f"{name} = ?" for name in values)
        self._db.run(
            f"UPDATE tasks SET state = ?, ended = ?, version = version + 1, {names}"  # noqa: S608
            " WHERE id = ?",
            (state.value, ended, *values.values(), found.id),
        )
        return replace(found, state=state, ended=ended, version=found.version + 1, **kept)

    def open_tasks(self, assignee: str, most: int = -1) -> list[Task]:
        """What an agent has to do, in the order in which it gets it."""
        where = f"assignee = ? AND ended IS NULL ORDER BY priority, number LIMIT {most}"
        return self._select(where, assignee, "INDEXED BY tasks_assignee")

    def get_many(self, ids: Sequence[str]) -> list[Task]:
        """Those of them that there are, in this order."""
        where = "WHERE id IN (SELECT value FROM json_each(?))"
        rows = self._db.rows(f"{_SELECT} {where}", (json.dumps(ids),))
        found = {each.id: each for each in map(_task_from_row, rows)}
        return [found[id_] for id_ in ids if id_ in found]

    def offered_tasks(self, assignee: str) -> list[Task]:
        """What it was offered and has not ended: at most as many as it may have at once."""
        where = "assignee = ? AND ended IS NULL AND message <> '' ORDER BY number"
        return self._select(where, assignee, "INDEXED BY tasks_held")

    def begun_tasks(self, assignee: str) -> list[Task]:
        """What it has begun and not ended."""
        return [task for task in self.offered_tasks(assignee) if task.begun]

    def tasks_from(self, assigner: str, most: int = -1) -> list[Task]:
        """What it gave to others and has not ended, the oldest first."""
        where = f"assigner = ? AND ended IS NULL ORDER BY number LIMIT {most}"
        return self._select(where, assigner, "INDEXED BY tasks_assigner")

    def open_parts(self, id_: str, most: int, but: str = "") -> list[Task]:
        """The sub-tasks of one that have not ended, the oldest first; those in state `but` not."""
        where = "part_of = ?1 AND part_of <> '' AND ended IS NULL AND state <> ?2"
        return self._select(f"{where} ORDER BY number LIMIT {most}", id_, "", but)

    def batch_tasks(self, batch: str) -> list[Task]:
        """All of one fan-out, ended or not, in the order in which they were given."""
        return self._select("batch = ? AND batch <> '' ORDER BY number", batch)

    def _select(self, where: str, value: str, index: str = "", *more: str) -> list[Task]:
        # Without a word SQLite takes an index that has all tasks that ever were.
        rows = self._db.rows(f"{_SELECT} {index} WHERE {where}", (value, *more))
        return [_task_from_row(row) for row in rows]

    def count_open(self, column: str, party: str) -> int:
        """How many open ones an `assignee` or an `assigner` has."""
        if column not in ("assignee", "assigner", "part_of"):
            raise ValueError(column)
        index = "" if column == "part_of" else f"INDEXED BY tasks_{column}"
        sql = f"SELECT COUNT(*) FROM tasks {index} WHERE {column} = ? AND ended IS NULL"  # noqa: S608
        return int(self._db.value(f"{sql} AND {column} <> ''", (party,)))

    def open_counts(self, assignees: Iterable[str]) -> dict[str, int]:
        """How many open ones each of these has that has any."""
        rows = self._db.rows(
            "SELECT assignee, COUNT(*) FROM tasks INDEXED BY tasks_assignee WHERE ended IS NULL"
            " AND assignee IN (SELECT value FROM json_each(?)) GROUP BY assignee",
            (json.dumps(list(assignees)),),
        )
        return dict(rows)

    def count_offered(self, assignee: str) -> int:
        """How many an agent was offered and has not ended."""
        where = "assignee = ? AND ended IS NULL AND message <> ''"
        sql = f"SELECT COUNT(*) FROM tasks INDEXED BY tasks_held WHERE {where}"  # noqa: S608
        return int(self._db.value(sql, (assignee,)))

    def is_part_begun_by_other(self, id_: str, assignee: str) -> bool:
        """Whether another agent than its own has begun a part of it that has not ended."""
        where = (
            "part_of = ? AND part_of <> '' AND ended IS NULL AND assignee <> ?"
            f" AND state IN ({_ACTIVE}) AND (state <> 'pending_delegation' OR started IS NOT NULL)"
        )
        sql = f"SELECT EXISTS (SELECT 1 FROM tasks WHERE {where})"  # noqa: S608
        return bool(self._db.value(sql, (id_, assignee)))

    def next_queued(self, assignee: str) -> Task | None:
        """The most urgent one that waits for room, then the oldest; none that is to be ended."""
        queued = "assignee = ? AND ended IS NULL AND state = 'queued' AND message = ''"
        left = "NOT EXISTS (SELECT 1 FROM swept WHERE task = id)"
        sql = f"{_SELECT} INDEXED BY tasks_open WHERE {queued} AND {left}"
        row = self._db.row(f"{sql} ORDER BY priority, number LIMIT 1", (assignee,))
        return _task_from_row(row) if row else None

    def page(  # noqa: PLR0913 - a filter, by keyword
        self, parties: Iterable[str] | None, after: int | None, limit: int,
        *, state: str | None = None, open_: bool = False, given: bool = False,
    ) -> list[Task]:  # fmt: skip
        """The newest first behind this number: of these assignees, or also `given` by them."""
        where, values = ["1"], list[object]()
        if parties is not None:
            among = "IN (SELECT value FROM json_each(?))"
            columns = ("assignee", "assigner") if given else ("assignee",)
            where.append(f"({' OR '.join(f'{each} {among}' for each in columns)})")
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

    # What comes before what.

    def dependents(self, needed: str, most: int) -> list[Task]:
        """Open ones that wait for it, the oldest first."""
        waiting = "id IN (SELECT task FROM task_needs WHERE needs = ?)"
        return self._select(f"{waiting} AND ended IS NULL ORDER BY number LIMIT {most}", needed)

    # What is due.

    def next_due(self) -> float | None:
        found: float | None = self._db.value("SELECT MIN(due) FROM tasks WHERE due IS NOT NULL")
        return found

    def overdue(self, now: float, limit: int) -> list[Task]:
        rows = self._db.rows(
            f"{_SELECT} WHERE due IS NOT NULL AND due <= ? ORDER BY due LIMIT ?", (now, limit)
        )
        return [_task_from_row(row) for row in rows]

    # What happened to it.

    def add_event(self, id_: str, seq: int) -> None:
        """An event of this number is about it."""
        self._db.later("INSERT INTO task_events VALUES (?, ?)", (id_, seq))

    def last_events(self, id_: str, last: int) -> list[int]:
        """Numbers of the last of its events, the oldest first."""
        rows = self._db.rows(
            "SELECT seq FROM task_events WHERE task = ? ORDER BY seq DESC LIMIT ?", (id_, last)
        )
        return [row[0] for row in reversed(rows)]

    def reassign_all(self, assigner: str, heir: str, why: str) -> list[str]:
        """All that it gave and has not ended is another's from now on; the ids."""
        sql = "SELECT id FROM tasks INDEXED BY tasks_assigner WHERE assigner = ? AND ended IS NULL"
        found = self._db.rows(f"{sql} ORDER BY number", (assigner,))
        self._db.run(
            "UPDATE tasks SET assigner = ?, why = ?, version = version + 1"
            " WHERE assigner = ? AND ended IS NULL",
            (heir, why, assigner),
        )
        self.news.drop(assigner)
        return [id_ for (id_,) in found]

    def prune(self, before: float, limit: int = 1000) -> int:
        """Forget what ended before this and is no part of what is open; how many at most."""
        rows = self._db.rows(
            "SELECT id FROM tasks t WHERE t.ended < ? AND NOT EXISTS (SELECT 1 FROM tasks p"
            "  WHERE p.part_of = t.id AND p.part_of <> '' AND p.ended IS NULL)"
            " ORDER BY t.ended LIMIT ?",
            (before, limit),
        )
        self._db.run_each("DELETE FROM task_events WHERE task = ?", rows)
        self._db.run_each("DELETE FROM tasks WHERE id = ?", rows)
        return len(rows)


def _fields_of(value: TaskRequest | TaskResult) -> Mapping[str, object]:
    return {each.name: getattr(value, each.name) for each in fields(value)}
