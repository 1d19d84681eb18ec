"""Inboxes: their owners, their size, and the place of each message in the queue.

Every state change of a message passes through this module, so the counters match the queue. They
are kept in memory, and computed when an inbox is first used.

A new message has no row in the queue yet, only a place in memory: its own row contains everything
needed. It gets a queue row when its inbox is read, or later together with others of the inbox,
because one page of the queue for each message would be the main cost of a send.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from math import inf
from typing import Final

from hive_core.errors import InboxFull, NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.mail.mailbox import LIVE, Box, InboxPlace, InboxTally, MessageState, Waiting
from hive_core.model.config.settings import HostLimits

# The limit of messages without a place; a start looks for them among twice as many.
UNPLACED: Final = 4096
_AT_ONCE: Final = 256
_PLACE: Final = "INSERT INTO queue (inbox, state, rank, id, size, due) VALUES (?, ?, ?, ?, ?, ?)"


class Boxes:
    def __init__(self, connection: Connection, limits: HostLimits) -> None:
        self._db = connection
        self._undo = connection.undo
        self._count_most, self._bytes_most = limits.inbox_count, limits.inbox_bytes
        # Those that were used, by party.
        self.known: dict[str, Box] = {}
        self._numbered: dict[int, Box] = {}
        # Inboxes with messages without a place, and the number of those messages.
        self._fresh: dict[Box, None] = {}
        self._unplaced = 0
        # The number of messages since `placed` was written, and the newest one of that time.
        self._since = self._mark = 0

    def find(self, party: str) -> Box | None:
        """The inbox of a party; None if the party never had mail."""
        box = self.known.get(party)
        if box is None:
            row = self._db.row("SELECT id, name, closed FROM parties WHERE party = ?", (party,))
            if row is not None:
                box = self._know(party, Box(*row))
                self._count(box)
                if self._db.inside:  # the count may include changes that are rolled back
                    self._undo.note(self._forget_party, party)
        return box

    def enter(self, party: str, name: str) -> Box:
        """The inbox of a party, created if new, with the party's current name."""
        box = self.known[party] if party in self.known else self.find(party)
        if box is None:
            sql = "INSERT INTO parties (party, name) VALUES (?, ?) RETURNING id"
            box = self._know(party, Box(int(self._db.value(sql, (party, name))), name, 0))
            self._undo.note(self._forget_party, party)
        elif box.name != name:
            self._db.run("UPDATE parties SET name = ? WHERE id = ?", (name, box.number))
            self._undo.note(setattr, box, "name", box.name)
            box.name = name
        return box

    def take(
        self, box: Box, waiting: Waiting, due: float | None, *, twice: bool = False,
        lease: float | None = None,
    ) -> None:  # fmt: skip
        """Add a waiting message; InboxFull, or NotFound for a closed inbox.

        It expires at `due`. `twice`: messages of the daemon may use up to double the limits.
        `lease`: it is reserved from the start, until then.
        """
        if box.closed:
            raise NotFound(f"no such agent: {box.name}")
        rank, message, size = waiting
        live, factor = box.live, 2 if twice else 1
        if live.count >= self._count_most * factor or live.bytes + size > self._bytes_most * factor:
            raise self._full(box)
        if rank not in box.ranks:
            box.may_hold(rank)
        live.count += 1
        live.bytes += size
        if due is not None or lease is not None:
            self._undo.note(live.add, -1, -size)
            state, ends = (
                (MessageState.READY, due) if lease is None else (MessageState.LEASED, lease)
            )
            self._db.later(_PLACE, (box.number, int(state), rank, message, size, ends))
            self._soon(box, ends or inf)
            return
        if not box.fresh:
            self._fresh[box] = None
        box.fresh.append(waiting)
        self._unplaced += 1
        self._since += 1
        self._undo.steps.append((self._untake, (box, size)))

    def check_room(self, box: Box, size: int) -> None:
        """Raise InboxFull if so many more bytes do not fit."""
        live = box.live
        if live.count >= self._count_most or live.bytes + size > self._bytes_most:
            raise self._full(box)

    def _full(self, box: Box) -> InboxFull:
        return InboxFull(
            f"the inbox of {box.name} is full ({self._count_most} messages or"
            f" {self._bytes_most} bytes, [limits] inbox_count and inbox_bytes): its owner"
            " has to read first"
        )

    def place(self, box: Box, most: int | None = None) -> None:
        """Insert the messages of the inbox without a place into the queue, or only the oldest."""
        fresh = box.fresh
        if not fresh:
            self._fresh.pop(box, None)
            return
        placed, left = fresh[:most], [] if most is None else fresh[most:]
        # First, because it raises outside a transaction, before anything in memory changes.
        self._db.run_each(
            _PLACE, [(box.number, 0, rank, message, size, None) for rank, message, size in placed]
        )
        self._fresh.pop(box, None)
        box.fresh = left
        if left:
            self._fresh[box] = None
        self._unplaced -= len(placed)
        self._undo.note(self._unplace, box, fresh, len(placed))

    def seal(self, last: int) -> None:
        """Limit the messages without a place. Called before COMMIT; `last` is the newest message.

        They must not be too old either: a start looks for them among all messages after `placed`.
        """
        while self._unplaced > UNPLACED:
            self.place(next(iter(self._fresh)), _AT_ONCE)
        if self._since < UNPLACED:
            return
        for box in [box for box in self._fresh if box.fresh and box.fresh[0][1] <= self._mark]:
            self.place(box)
        waiting = min((box.fresh[0][1] for box in self._fresh if box.fresh), default=last + 1)
        self._db.run("INSERT OR REPLACE INTO meta VALUES ('placed', ?)", (str(waiting - 1),))
        self._mark, self._since = last, 0

    def resume(self) -> None:
        """Insert messages without a place that an earlier daemon left. Called at start."""
        self._db.run(
            "INSERT INTO queue (inbox, state, rank, id, size)"
            " SELECT m.recipient, 0, m.priority, m.id, length(CAST(m.body AS BLOB))"
            " FROM messages m WHERE m.id > COALESCE("
            "  (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'placed'), 0)"
            " AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.inbox = m.recipient"
            "  AND q.state IN (0, 1, 2, 3, 4) AND q.rank IN (0, m.priority) AND q.id = m.id)"
        )
        self._db.run("UPDATE queue SET state = 2 WHERE due IS NOT NULL AND state = 1")

    def close(self, box: Box, *, closed: bool) -> None:
        self._db.run("UPDATE parties SET closed = ? WHERE id = ?", (int(closed), box.number))
        self._undo.note(setattr, box, "closed", box.closed)
        box.closed = int(closed)

    def empty(self, box: Box, why: str) -> None:
        """Record why the rest of the inbox becomes dead letters; empty when it is done."""
        sql = "UPDATE parties SET gone = ?1 WHERE id = ?2 AND gone <> ?1"
        self._db.run(sql, (why, box.number))

    def size(self, party: str) -> tuple[int, int]:
        """Messages and bytes that wait in the inbox or are leased."""
        box = self.find(party)
        return (box.live.count, box.live.bytes) if box else (0, 0)

    def ids_by_age(self, box: Box, after: int, limit: int, *, dead: bool) -> list[int]:
        """Ids of live messages or of dead letters, by age, at a cost independent of the number.

        In each part of the queue ids ascend, so the first ones of each part suffice.
        """
        parts = [(MessageState.DEAD, 0)] if dead else product(LIVE, range(4))
        ids = [
            row[0]
            for state, rank in parts
            for row in self._db.rows(
                "SELECT id FROM queue WHERE inbox = ? AND state = ? AND rank = ? AND id > ?"
                " ORDER BY id LIMIT ?",
                (box.number, int(state), rank, after, limit),
            )
        ]
        if not dead:
            ids += [message for _, message, _ in box.fresh if message > after]
        return sorted(ids)[:limit]

    def ids_up_to(self, box: Box, last: int, spared: Iterable[str], limit: int) -> list[int]:
        """Ids of live messages up to this one, by age, without those of the kinds `spared`."""
        self.place(box)
        rows = self._db.rows(
            "SELECT q.id FROM queue q CROSS JOIN messages m ON m.id = q.id"
            " WHERE q.inbox = ? AND q.state IN (0, 1, 2) AND q.id <= ?"
            " AND m.kind NOT IN (SELECT value FROM json_each(?)) ORDER BY q.id LIMIT ?",
            (box.number, last, json.dumps(list(spared)), limit),
        )
        return [row[0] for row in rows]

    def newest_id(self, box: Box) -> int:
        """The id of the newest live message; 0: there is none."""
        newest = [
            self._db.value(
                "SELECT MAX(id) FROM queue WHERE inbox = ? AND state = ? AND rank = ?",
                (box.number, int(state), rank),
            )
            for state, rank in product(LIVE, range(4))
        ]
        fresh = [message for _, message, _ in box.fresh]
        return max([0, *(int(message or 0) for message in newest), *fresh])

    def ended_ids(self, box: Box, after: int, limit: int) -> list[int]:
        """Ids of acknowledged messages that are still kept, by age."""
        rows = self._db.rows(
            "SELECT id FROM queue WHERE inbox = ? AND state = ? AND rank = 0 AND id > ?"
            " ORDER BY id LIMIT ?",
            (box.number, int(MessageState.DONE), after, limit),
        )
        return [row[0] for row in rows]

    def standing(self, box: Box, message: int) -> InboxPlace | None:
        """The place of a message that is neither acked nor dead."""
        row = self._db.row(
            "SELECT q.inbox, q.state, q.rank, q.id, q.size, q.attempt, m.expires_at FROM messages m"
            " CROSS JOIN queue q ON q.inbox = m.recipient AND q.state IN (0, 1, 2)"
            " AND q.rank = m.priority AND q.id = m.id WHERE m.id = ? AND m.recipient = ?",
            (message, box.number),
        )
        return InboxPlace(*row) if row else None

    def give(self, box: Box, places: Iterable[tuple[int, int]], until: float) -> None:
        """Lease ready messages, given by rank and id, until this time."""
        self._db.run_each(
            "UPDATE queue SET state = 1, attempt = attempt + 1, due = ?"
            " WHERE inbox = ? AND state = 0 AND rank = ? AND id = ?",
            [(until, box.number, rank, message) for rank, message in places],
        )
        self._soon(box, until)

    def back(self, place: InboxPlace) -> None:
        """Make a message ready again. Its time to live may end before its next lease."""
        self._db.run(
            "UPDATE queue SET state = 0, due = ?"
            " WHERE inbox = ? AND state = ? AND rank = ? AND id = ?",
            (place.expires, *place[:4]),
        )
        box = self._numbered.get(place.inbox)
        if box is not None and place.expires is not None:
            self._soon(box, place.expires)

    def forget(self, inbox: int, state: MessageState, count: int, size: int) -> None:
        """Subtract deleted ended messages from the counts."""
        if (box := self._numbered.get(inbox)) is not None:
            self.count(box.tally(state), -count, -size)

    def shift(self, seconds: float) -> None:
        """Shift leases and times to live with the clock."""
        self._db.run("UPDATE queue SET due = due + ? WHERE due IS NOT NULL", (seconds,))
        sql = "UPDATE messages SET expires_at = expires_at + ? WHERE expires_at IS NOT NULL"
        self._db.run(sql, (seconds,))
        for box in self._numbered.values():
            box.due = -inf  # too early, which the next look corrects

    def count(self, tally: InboxTally, count: int, size: int) -> None:
        tally.add(count, size)
        self._undo.note(tally.add, -count, -size)

    def look(self, box: Box) -> None:
        """After a lease or a time to live ended, find the next end, and whether mail is held."""
        due, held = self._db.row(
            "SELECT (SELECT MIN(due) FROM queue WHERE inbox = ?1 AND state IN (0, 1, 2)),"
            " EXISTS (SELECT 1 FROM queue WHERE inbox = ?1 AND state = 2)",
            (box.number,),
        ) or (None, 0)
        self._undo.note(setattr, box, "due", box.due)
        self._undo.note(setattr, box, "held", box.held)
        box.due, box.held = inf if due is None else due, bool(held)

    def _soon(self, box: Box, due: float) -> None:
        if due < box.due:
            self._undo.note(setattr, box, "due", box.due)
            box.due = due

    def _know(self, party: str, box: Box) -> Box:
        self.known[party] = self._numbered[box.number] = box
        return box

    def _forget_party(self, party: str) -> None:
        box = self.known.pop(party)
        self._numbered.pop(box.number)

    def _count(self, box: Box) -> None:
        for state, rank, count, size, due, died in self._db.rows(
            "SELECT state, rank, COUNT(*), SUM(size), MIN(due), MAX(died) FROM queue"
            " WHERE inbox = ? GROUP BY state, rank",
            (box.number,),
        ):
            box.may_hold(rank)
            box.tally(state).add(count, size)
            box.held |= state == MessageState.HELD
            box.due = min(box.due, inf if due is None else due)
            box.last_death = max(box.last_death, died or 0)

    def _unplace(self, box: Box, fresh: list[Waiting], count: int) -> None:
        box.fresh = fresh
        self._fresh[box] = None
        self._unplaced += count

    def _untake(self, box: Box, size: int) -> None:
        box.live.add(-1, -size)
        box.fresh.pop()
        if not box.fresh:
            self._fresh.pop(box, None)
        self._unplaced -= 1
