"""Rows of batches: tasks for several workers, with the state of each in order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.model.work.planning import BATCH, ITEM, Batch, BatchItem, BatchState, ItemState

CLOCK_SHIFT: Final = (
    "UPDATE batches SET created = created + ?1, deadline = deadline + ?1, due = due + ?1,"
    " ended = ended + ?1",
)
_DIGITS: Final = 12
_COLUMNS: Final = (
    "id, owner, title, state, concurrency, requeue, keeps, created, deadline, ended, reason"
)
_ITEM: Final = "batch, item, title, body, task, worker, state, reason"


class NewBatch(NamedTuple):
    """A batch as it is requested; at `deadline` the open tasks end."""

    owner: str
    title: str
    concurrency: int
    requeue: int
    keeps: bool
    deadline: float
    template: Mapping[str, object] = MappingProxyType({})


class BatchStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def create(self, new: NewBatch, texts: Sequence[tuple[str, str]], now: float) -> Batch:
        """Create a batch of tasks, each with a title and a body; it is due at once."""
        id_ = uuid4().hex[:_DIGITS]
        self._db.run(
            "INSERT INTO batches (id, owner, title, state, concurrency, requeue, keeps, template,"
            " created, deadline, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (id_, new.owner, new.title, BATCH.start, new.concurrency, new.requeue, int(new.keeps),
             json.dumps(dict(new.template)), now, new.deadline, now),
        )  # fmt: skip
        self._db.run_each(
            "INSERT INTO batch_items (batch, item, title, body, state) VALUES (?, ?, ?, ?, ?)",
            [(id_, at, title, body, ITEM.start) for at, (title, body) in enumerate(texts)],
        )
        return self.require(id_)

    def get(self, id_: str) -> Batch | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM batches WHERE id = ?", (id_,))  # noqa: S608
        return _batch_from_row(row) if row else None

    def require(self, id_: str) -> Batch:
        batch = self.get(id_)
        if batch is None:
            raise NotFound(f"no batch {id_}")
        return batch

    def template(self, id_: str) -> dict[str, object]:
        """The parameters with which workers are created for the batch; empty if none are."""
        text = self._db.value("SELECT template FROM batches WHERE id = ?", (id_,))
        params: dict[str, object] = json.loads(text) if text else {}
        return params

    def running(self, owner: str) -> list[Batch]:
        """Running batches of an owner, the oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM batches WHERE owner = ? AND state = 'running'"  # noqa: S608
            " ORDER BY number",
            (owner,),
        )
        return [_batch_from_row(row) for row in rows]

    def page(self, owner: str, limit: int) -> list[Batch]:
        """The newest batches of an owner."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM batches WHERE owner = ? ORDER BY number DESC LIMIT ?",  # noqa: S608
            (owner, limit),
        )
        return [_batch_from_row(row) for row in rows]

    def items(self, batch: str, state: ItemState | None = None) -> list[BatchItem]:
        """The items of a batch in order: all, or those in one state."""
        where, values = ("", ()) if state is None else (" AND state = ?", (str(state),))
        rows = self._db.rows(
            f"SELECT {_ITEM} FROM batch_items WHERE batch = ?{where} ORDER BY item",  # noqa: S608
            (batch, *values),
        )
        return [_item_from_row(row) for row in rows]

    def item_of(self, task: str) -> BatchItem | None:
        """The item of a batch that the task belongs to, if any."""
        row = self._db.row(f"SELECT {_ITEM} FROM batch_items WHERE task = ?", (task,))  # noqa: S608
        return _item_from_row(row) if row else None

    def add_worker(self, batch: str, agent: str, *, own: bool) -> None:
        """Add a worker; `own`: it was created for the batch."""
        self._db.run("INSERT INTO batch_workers VALUES (?, ?, ?)", (batch, agent, int(own)))

    def remove_worker(self, batch: str, agent: str) -> None:
        """Remove a worker from the batch."""
        self._db.run("DELETE FROM batch_workers WHERE batch = ? AND agent = ?", (batch, agent))

    def workers(self, batch: str) -> list[tuple[str, bool]]:
        """The workers of the batch, and whether each was made for it."""
        sql = "SELECT agent, own FROM batch_workers WHERE batch = ? ORDER BY agent"
        return [(agent, bool(own)) for agent, own in self._db.rows(sql, (batch,))]

    def running_batches_of_worker(self, agent: str) -> list[str]:
        """Running batches that the agent works for."""
        rows = self._db.rows(
            "SELECT b.id FROM batch_workers w JOIN batches b ON b.id = w.batch"
            " WHERE w.agent = ? AND b.state = 'running'",
            (agent,),
        )
        return [id_ for (id_,) in rows]

    def next_worker_number(self, batch: str) -> int:
        """Count one more worker that is created for the batch; return the new count."""
        self._db.run("UPDATE batches SET made = made + 1 WHERE id = ?", (batch,))
        return int(self._db.value("SELECT made FROM batches WHERE id = ?", (batch,)))

    def assign_item(self, item: BatchItem, task: str, worker: str) -> None:
        """Assign the item to a worker, as this task."""
        self._db.run(
            "UPDATE batch_items SET state = ?, task = ?, worker = ? WHERE batch = ? AND item = ?",
            (ITEM.next(item.state, "give"), task, worker, item.batch, item.number),
        )

    def end_item(self, item: BatchItem, reason: str = "") -> None:
        """End the item: with its task, or with `reason` if it has no task."""
        self._db.run(
            "UPDATE batch_items SET state = ?, reason = ? WHERE batch = ? AND item = ?",
            (ITEM.next(item.state, "end"), reason, item.batch, item.number),
        )

    def count_open_items(self, batch: str) -> int:
        """Number of its items that have not ended."""
        sql = "SELECT COUNT(*) FROM batch_items WHERE batch = ? AND state <> 'ended'"
        return int(self._db.value(sql, (batch,)))

    def move(self, id_: str, event: str, now: float) -> Batch:
        """End the batch; IllegalTransition if it has ended.

        It becomes due once more, to clean up.
        """
        batch = self.require(id_)
        self._db.run(
            "UPDATE batches SET state = ?, ended = ?, due = ? WHERE id = ?",
            (BATCH.next(batch.state, event), now, now, id_),
        )
        return self.require(id_)

    def set_reason(self, id_: str, reason: str) -> None:
        """Store the reason why no more items are assigned."""
        self._db.run("UPDATE batches SET reason = ? WHERE id = ?", (reason, id_))

    def schedule(self, id_: str, when: float | None) -> None:
        """Set the time at which the batch is due; None: not before an event."""
        self._db.run("UPDATE batches SET due = ? WHERE id = ?", (when, id_))

    def next_due(self) -> float | None:
        at: float | None = self._db.value("SELECT MIN(due) FROM batches WHERE due IS NOT NULL")
        return at

    def next_deadline(self) -> float | None:
        at: float | None = self._db.value(
            "SELECT MIN(deadline) FROM batches WHERE state = 'running' AND reason = ''"
        )
        return at

    def due(self, now: float) -> Batch | None:
        """A batch that is due."""
        row = self._db.row(
            f"SELECT {_COLUMNS} FROM batches WHERE due <= ? ORDER BY due LIMIT 1",  # noqa: S608
            (now,),
        )
        return _batch_from_row(row) if row else None

    def overdue(self, now: float) -> Batch | None:
        """A running batch whose deadline has come."""
        row = self._db.row(
            f"SELECT {_COLUMNS} FROM batches WHERE state = 'running' AND reason = ''"  # noqa: S608
            " AND deadline <= ? ORDER BY deadline LIMIT 1",
            (now,),
        )
        return _batch_from_row(row) if row else None


def _batch_from_row(row: tuple[Any, ...]) -> Batch:
    (id_, owner, title, state, concurrency, requeue, keeps, created, deadline, ended,
     reason) = row  # fmt: skip
    return Batch(
        id_, owner, title, BatchState(state), concurrency, requeue, bool(keeps), created,
        deadline, ended, reason,
    )  # fmt: skip


def _item_from_row(row: tuple[Any, ...]) -> BatchItem:
    batch, number, title, body, task, worker, state, reason = row
    return BatchItem(batch, number, title, body, task, worker, ItemState(state), reason)


def prune(db: Connection, before: float) -> int:
    """Delete batches that ended before this time, a limited number; return how many."""
    ids = db.rows("SELECT id FROM batches WHERE ended < ? ORDER BY ended LIMIT 100", (before,))
    for table in ("batch_items", "batch_workers"):
        db.run_each(f"DELETE FROM {table} WHERE batch = ?", ids)  # noqa: S608 - our own words
    db.run_each("DELETE FROM batches WHERE id = ?", ids)
    return len(ids)
