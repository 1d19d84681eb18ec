"""Named queues: durable, leased, limited in size. Items that are not taken stay.

An item is leased to one taker at a time, by age, where each step of lower priority counts as ten
seconds (as in `delivery_order.py`). Taking one kind only uses an index. An item that was taken
`attempts` times and never acked is dead: it stays for the owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from hive_core.errors import AlreadyExists, LimitReached
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.core.ids import Ids
from hive_core.ledger.mail.delivery_order import DeliveryTurn, first, fitting
from hive_core.ledger.mail.pipes import Pipes
from hive_core.ledger.mail.subscriptions import Follows
from hive_core.model.work.queue import (
    Queue,
    QueueAccess,
    QueueItem,
    queue_item_id,
    queue_item_number,
)

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
MOVED: Final[tuple[str, ...]] = ("UPDATE lines SET due = due + ?1 WHERE due IS NOT NULL",)

_AT_ONCE: Final = 1000
_COLUMNS: Final = "number, owner, name, may_put, may_take, most, opened, things, bytes"
_READY: Final = "SELECT rank, id, size, attempt FROM lines WHERE queue = ?1 AND rank = ?2"
_ANY: Final = f"{_READY} AND state = ?3 ORDER BY id LIMIT ?4"
_KIND: Final = f"{_READY} AND state = ?3 AND kind = ?5 ORDER BY id LIMIT ?4"
_THINGS: Final = (
    "SELECT t.id, t.sender, t.sender_name, t.kind, t.priority, t.put_at, t.body"
    " FROM json_each(?) j CROSS JOIN things t ON t.id = j.value"
)


class TakeFilter(NamedTuple):
    """A filter of `take`: how many, the lowest priority, one kind only, or dead items."""

    most: int
    lease: float
    urgency: int = 3
    kind: str | None = None
    dead: bool = False


class QueueStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._ids = Ids()
        self.follows = Follows(connection)
        self.pipes = Pipes(connection)

    def open(self, queue: Queue) -> None:
        """Create an empty queue. AlreadyExists."""
        if self.find(queue.owner, queue.name) is not None:
            raise AlreadyExists(f"a queue {queue.name} exists already")
        self._db.run(
            "INSERT INTO queues (owner, name, may_put, may_take, most, opened)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                queue.owner, queue.name, _text(queue.may_put), _text(queue.may_take), queue.most,
                queue.opened,
            ),
        )  # fmt: skip

    def find(self, owner: str, name: str) -> Queue | None:
        sql = f"SELECT {_COLUMNS} FROM queues WHERE owner = ? AND name = ? AND closed = 0"  # noqa: S608
        row = self._db.row(sql, (owner, name))
        return None if row is None else _queue(row)

    def count(self, owner: str) -> int:
        """The number of queues of one owner."""
        sql = "SELECT COUNT(*) FROM queues WHERE owner = ? AND closed = 0"
        return int(self._db.value(sql, (owner,)))

    def page(self, after: int, limit: int) -> list[Queue]:
        """All queues of the hive by age."""
        sql = (
            f"SELECT {_COLUMNS} FROM queues WHERE closed = 0 AND number > ?"  # noqa: S608
            " ORDER BY number LIMIT ?"
        )
        return [_queue(row) for row in self._db.rows(sql, (after, limit))]

    def put(self, queue: Queue, thing: QueueItem, most: int) -> str:
        """Append an item; `most` is the byte limit of the queue. LimitReached if it is full."""
        size = len(thing.body.encode())
        counted = self._db.run(
            "UPDATE queues SET things = things + 1, bytes = bytes + ?1"
            " WHERE number = ?2 AND things < most AND bytes + ?1 <= ?3",
            (size, queue.number, most),
        )
        if not counted:
            raise LimitReached(f"the queue {queue.name} is full: take items first")
        id_ = self._next(thing.put_at)
        self._db.run(
            "INSERT INTO things VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (id_, queue.number, *thing[1:7])
        )
        self._db.run(
            "INSERT INTO lines (queue, state, rank, id, kind, size) VALUES (?, 0, ?, ?, ?, ?)",
            (queue.number, thing.priority, id_, thing.kind, size),
        )
        return queue_item_id(id_)

    def take(self, queue: Queue, taker: str, wanted: TakeFilter, now: float) -> list[QueueItem]:
        """Lease the next items; those not acked within the lease come back."""
        turns = self._first(queue, wanted)
        state = 2 if wanted.dead else 0
        self._db.run_each(
            "UPDATE lines SET state = 1, attempt = attempt + 1, taker = ?, due = ?"
            " WHERE queue = ? AND state = ? AND rank = ? AND id = ?",
            [(taker, now + wanted.lease, queue.number, state, *turn[:2]) for turn in turns],
        )
        rows = self._db.rows(_THINGS, (json.dumps([turn.id for turn in turns]),))
        return [
            QueueItem._make((*row, turn.attempt + 1)) for turn, row in zip(turns, rows, strict=True)
        ]

    def end_leases(self, queue: Queue, attempts: int, now: float) -> list[str]:
        """End due leases; return the ids of the items that became dead."""
        rows = self._db.rows(
            "UPDATE lines SET state = CASE WHEN attempt >= ?1 THEN 2 ELSE 0 END, due = NULL"
            " WHERE queue = ?2 AND state = 1 AND id IN"
            " (SELECT id FROM lines WHERE queue = ?2 AND due <= ?3 LIMIT ?4) RETURNING state, id",
            (attempts, queue.number, now, _AT_ONCE),
        )
        return [queue_item_id(row[1]) for row in rows if row[0] == 2]  # noqa: PLR2004

    def next_due(self, queue: Queue) -> float | None:
        """When the next lease ends."""
        due: float | None = self._db.value(
            "SELECT MIN(due) FROM lines WHERE queue = ? AND due IS NOT NULL", (queue.number,)
        )
        return due

    def has_dead(self, queue: Queue) -> bool:
        sql = "SELECT EXISTS (SELECT 1 FROM lines WHERE queue = ? AND state = 2)"
        return bool(self._db.value(sql, (queue.number,)))

    def ack(self, taker: str, ids: Iterable[str]) -> int:
        """Ack items that the taker leased last, also after the lease; return how many."""
        done = 0
        for queue, state, rank, id_, size in self._lease_rows(taker, ids):
            self._db.run(
                "DELETE FROM lines WHERE queue = ? AND state = ? AND rank = ? AND id = ?",
                (queue, state, rank, id_),
            )
            self._db.run("DELETE FROM things WHERE id = ?", (id_,))
            sql = "UPDATE queues SET things = things - 1, bytes = bytes - ? WHERE number = ?"
            self._db.run(sql, (size, queue))
            done += 1
        return done

    def nack(self, taker: str, ids: Iterable[str], attempts: int, *, dead: bool) -> list[Returned]:
        """Return leased items to the queue, ready or dead."""
        returned = []
        for queue, state, rank, id_, _ in self._lease_rows(taker, ids):
            if state != 1:
                continue
            (row,) = self._db.rows(
                "UPDATE lines SET state = CASE WHEN ?1 OR attempt >= ?2 THEN 2 ELSE 0 END,"
                " due = NULL WHERE queue = ?3 AND state = 1 AND rank = ?4 AND id = ?5"
                " RETURNING state = 2, kind",
                (dead, attempts, queue, rank, id_),
            )
            returned.append(Returned(queue, queue_item_id(id_), dead=bool(row[0]), kind=row[1]))
        return returned

    def by_number(self, number: int) -> Queue | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM queues WHERE number = ?", (number,))  # noqa: S608
        return None if row is None else _queue(row)

    def close(self, queue: Queue) -> None:
        """Close a queue. Its name is free; its items are removed step by step (`sweep`)."""
        self._db.run("UPDATE queues SET closed = 1 WHERE number = ?", (queue.number,))

    def next_closed_queue(self) -> Queue | None:
        """A closed queue that has to be swept."""
        row = self._db.row(f"SELECT {_COLUMNS} FROM queues WHERE closed = 1 LIMIT 1")  # noqa: S608
        return None if row is None else _queue(row)

    def sweep(self, queue: Queue) -> dict[str, list[str]]:
        """Remove a limited number of items of a closed queue; return their ids by sender."""
        rows = self._db.rows(
            "DELETE FROM lines WHERE (queue, state, rank, id) IN (SELECT queue, state, rank, id"
            " FROM lines WHERE queue = ? LIMIT ?) RETURNING id",
            (queue.number, _AT_ONCE),
        )
        if not rows:
            self._db.run("DELETE FROM queues WHERE number = ?", (queue.number,))
        left: dict[str, list[str]] = {}
        for (id_,) in rows:
            sender = self._db.value("DELETE FROM things WHERE id = ? RETURNING sender", (id_,))
            left.setdefault(sender, []).append(queue_item_id(id_))
        return left

    def close_all_of(self, party: str, now: float) -> list[int]:
        """Close the queues, pipes and subscriptions of a destroyed agent, and free its leases.

        Returns the queues with freed items.
        """
        self._db.run("UPDATE queues SET closed = 1 WHERE owner = ?", (party,))
        self.follows.remove_all_of(party)
        self.pipes.close_all_of(party)
        rows = self._db.rows(
            "UPDATE lines SET due = ? WHERE taker = ? AND state = 1 RETURNING queue", (now, party)
        )
        return sorted({row[0] for row in rows})

    def _first(self, queue: Queue, wanted: TakeFilter) -> list[DeliveryTurn]:
        state = 2 if wanted.dead else 0
        values = (queue.number, state, wanted.most, wanted.kind)
        sql = _ANY if wanted.kind is None else _KIND
        parts = [
            self._db.rows(sql, (values[0], rank, *values[1 : 3 if wanted.kind is None else 4]))
            for rank in range(wanted.urgency + 1)
        ]
        return fitting(first(parts, wanted.most))

    def _lease_rows(self, taker: str, ids: Iterable[str]) -> list[tuple[int, int, int, int, int]]:
        leased = []
        for number in dict.fromkeys(filter(None, map(queue_item_number, ids))):
            row = self._db.row(
                "SELECT l.queue, l.state, l.rank, l.id, l.size FROM things t CROSS JOIN lines l"
                " ON l.queue = t.queue AND l.state IN (0, 1, 2) AND l.rank = t.priority"
                " AND l.id = t.id WHERE t.id = ? AND l.taker = ?",
                (number, taker),
            )
            if row is not None:
                leased.append((row[0], row[1], row[2], row[3], row[4]))
        return leased

    def _next(self, now: float) -> int:
        if not self._ids.last:
            sql = "SELECT seq FROM sqlite_sequence WHERE name = 'things'"
            self._ids.last = self._db.value(sql) or 0
        return self._ids.next(now)


class Returned(NamedTuple):
    """An item that its taker returned."""

    queue: int
    id: str
    dead: bool
    kind: str


def _text(whom: QueueAccess) -> str:
    return json.dumps({"words": whom.words, "agents": whom.agents})


def _whom(text: str) -> QueueAccess:
    access = json.loads(text)
    return QueueAccess(tuple(access["words"]), tuple(access["agents"]))


def _queue(row: tuple[object, ...]) -> Queue:
    number, owner, name, put, take, *rest = row
    return Queue(number, owner, name, _whom(str(put)), _whom(str(take)), *rest)  # type: ignore[arg-type]
