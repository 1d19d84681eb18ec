"""Mail: durable, leased, given at least once until acked, in order per sender and recipient.

Order. A box gives the most urgent messages first and among equals the oldest, so the mail of one
sender to one recipient is first given in the order of sending. A message that comes back (lease
ended, nack) is older than what was not given yet and therefore goes before it. Mail that an
earlier daemon gave out and that is not acked may never have arrived: until it is acked or comes
back, younger mail of that sender, unless more urgent, waits behind it.

A message that was given out `attempts` times and not acked, outlived its ttl, or whose recipient is
gone is a dead letter, and its sender gets a daemon message about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hive_core.ledger.boxes import Boxes, Place, Stands
from hive_core.ledger.connection import Connection
from hive_core.ledger.letters import COLUMNS, JOINED, NewMessage, message, number, text_id
from hive_core.ledger.posting import Posting
from hive_core.model.record import DAEMON, Message
from hive_core.model.settings import Bounds

# What one lease gives at most: escaped to JSON at its worst (six-fold) it still fits a frame.
_ROOM = 160 << 10
_AT_ONCE = 1000
_DEAD_KEPT, _DONE_KEPT = 30 * 86_400.0, 7 * 86_400.0


class Messages:
    def __init__(self, connection: Connection, limits: Bounds) -> None:
        self._db = connection
        self._limits = limits
        self._boxes = Boxes(connection, limits)
        self._posting = Posting(connection, self._boxes)

    def forget(self) -> None:
        """After a rollback."""
        self._boxes.forget()

    def hold(self) -> None:
        """At start: what is leased was given out by a daemon that is gone."""
        self._db.run("UPDATE queue SET state = 2 WHERE due IS NOT NULL AND state = 1")
        self._posting.start()

    def send(self, new: NewMessage, now: float) -> Message:
        """Take a letter. InboxFull, NotFound (recipient gone, `reply_to`), InvalidArgument."""
        return self._posting.send(new, now)

    def belongs(self, thread: str, party: str) -> bool | None:
        """Whether the party sent or received something in a thread; None when there is none."""
        return self._posting.belongs(thread, self._boxes.number(party))

    def lease(self, recipient: str, most: int, lease: float, now: float) -> list[Message]:
        """Give out up to `most` messages; those not acked within `lease` seconds come back."""
        inbox = self._boxes.number(recipient)
        if inbox is None:
            return []
        self._come_back(inbox, now)
        rows = self._db.rows(
            f"SELECT {COLUMNS}, q.size FROM {JOINED}"  # noqa: S608 - our own words
            " WHERE q.inbox = ?1 AND q.state = 0 AND (q.due IS NULL OR q.due > ?2)"
            " AND NOT EXISTS (SELECT 1 FROM queue h CROSS JOIN messages n ON n.id = h.id"
            "  WHERE h.inbox = ?1 AND h.state = 2 AND h.rank <= q.rank AND h.id < q.id"
            "  AND n.sender = m.sender) ORDER BY q.rank, q.id LIMIT ?3",
            (inbox, now, most),
        )
        given: list[tuple[Any, ...]] = []
        room = _ROOM
        for row in rows:
            room -= row[15]
            if given and room < 0:
                break
            given.append((*row[:13], row[13] + 1, row[14]))
        self._db.run_each(
            "UPDATE queue SET state = 1, attempt = attempt + 1, due = ?"
            " WHERE inbox = ? AND state = 0 AND rank = ? AND id = ?",
            [(now + lease, inbox, row[10], row[0]) for row in given],
        )
        return [message(row) for row in given]

    def ack(self, recipient: str, ids: Iterable[str]) -> int:
        """Done with these, given out or only looked at; how many there were."""
        inbox, places = self._standing(recipient, ids)
        if inbox is not None and places:
            self._boxes.done(inbox, places)
        return len(places)

    def nack(
        self, recipient: str, ids: Iterable[str], why: str, now: float, *, dead: bool = False
    ) -> list[Message]:
        """Could not be handled: given again, or dead (at once if `dead`). The dead ones."""
        _, places = self._standing(recipient, ids)
        ended = []
        for place in places:
            if dead or place.attempt >= self._limits.attempts:
                ended.append((place, why or f"given up after {place.attempt} attempts"))
            else:
                self._boxes.back(place, place.attempt)
        return self._bury(ended, now)

    def expire(self, now: float) -> list[Message]:
        """Let leases and lives end that are due; the messages that are dead by it."""
        rows = self._db.rows(
            "SELECT q.inbox, q.state, q.rank, q.id, q.size, q.attempt, m.expires_at"
            " FROM queue q CROSS JOIN messages m ON m.id = q.id"
            " WHERE q.due <= ? ORDER BY q.due LIMIT ?",
            (now, _AT_ONCE),
        )
        ended = []
        for *columns, expires_at in rows:
            place = Place(*columns)
            if expires_at is not None and expires_at <= now:
                ended.append((place, "its time to live ended"))
            elif place.attempt >= self._limits.attempts:
                ended.append((place, f"not acked after {place.attempt} attempts"))
            else:
                self._boxes.back(place, place.attempt)
        return self._bury(ended, now)

    def bury(self, recipient: str, why: str, now: float) -> list[Message]:
        """The recipient is gone: close its box; everything in it is dead."""
        inbox = self._boxes.number(recipient)
        if inbox is None:
            return []
        self._boxes.close(inbox, closed=True)
        rows = self._db.rows(
            "SELECT inbox, state, rank, id, size, attempt FROM queue"
            " WHERE inbox = ? AND state IN (0, 1, 2) ORDER BY id",
            (inbox,),
        )
        return self._bury([(Place(*row), why) for row in rows], now)

    def reopen(self, recipient: str) -> None:
        """The recipient is back."""
        if (inbox := self._boxes.number(recipient)) is not None:
            self._boxes.close(inbox, closed=False)

    def inbox(self, recipient: str, *, dead: bool, limit: int, after: str = "") -> list[Message]:
        """A look without a lease: what waits or is given out, or the dead letters; by age."""
        rows = self._db.rows(
            f"SELECT {COLUMNS} FROM {JOINED} WHERE q.inbox = ?"  # noqa: S608 - our own words
            f" AND q.state IN ({'3' if dead else '0, 1, 2'}) AND q.id > ? ORDER BY q.id LIMIT ?",
            (self._boxes.number(recipient), number(after) or 0, limit),
        )
        return [message(row) for row in rows]

    def get(self, message_id: str) -> Message | None:
        """One message, whatever became of it."""
        row = self._db.row(
            f"SELECT {COLUMNS} FROM messages m"  # noqa: S608 - our own words
            " CROSS JOIN queue q ON q.inbox = m.recipient AND q.state IN (0, 1, 2, 3, 4)"
            " AND q.rank IN (0, m.priority) AND q.id = m.id"
            " CROSS JOIN parties s ON s.id = m.sender CROSS JOIN parties r ON r.id = m.recipient"
            " WHERE m.id = ?",
            (number(message_id),),
        )
        return message(row) if row else None

    def size(self, recipient: str) -> tuple[int, int]:
        """Messages and bytes that wait or are given out."""
        return self._boxes.size(recipient)

    def next_due(self, recipient: str | None = None) -> float | None:
        """When the next lease or life ends, in one box or in any."""
        sql = "SELECT MIN(due) FROM queue WHERE due IS NOT NULL"
        values: tuple[int | None, ...] = ()
        if recipient is not None:
            sql = "SELECT MIN(due) FROM queue WHERE inbox = ? AND state IN (0, 1, 2)"
            values = (self._boxes.number(recipient),)
        found: float | None = self._db.value(sql, values)
        return found

    def prune(self, now: float, dead: float = _DEAD_KEPT, done: float = _DONE_KEPT) -> int:
        """Delete dead and acked mail that is older than this, a bounded number at a time."""
        count = self._boxes.prune(Stands.DEAD, int((now - dead) * 1e6), _AT_ONCE)
        return count + self._boxes.prune(Stands.DONE, int((now - done) * 1e6), _AT_ONCE)

    def _standing(self, recipient: str, ids: Iterable[str]) -> tuple[int | None, list[Place]]:
        """Those of the ids that are in this box and not over."""
        inbox = self._boxes.number(recipient)
        if inbox is None:
            return None, []
        wanted = dict.fromkeys(filter(None, map(number, ids)))
        places = [self._boxes.place(inbox, each) for each in wanted]
        return inbox, [place for place in places if place is not None]

    def _come_back(self, inbox: int, now: float) -> None:
        """Leases of this box that ended; those that are dead by it are for `expire`."""
        for row in self._db.rows(
            "SELECT inbox, state, rank, id, size, attempt FROM queue"
            " WHERE inbox = ? AND state IN (1, 2) AND due <= ? AND attempt < ?",
            (inbox, now, self._limits.attempts),
        ):
            place = Place(*row)
            self._boxes.back(place, place.attempt)

    def _bury(self, ended: list[tuple[Place, str]], now: float) -> list[Message]:
        dead = []
        for place, why in ended:
            # Looked at before: a box full of dead letters may let go of this one at once.
            if (found := self.get(text_id(place.id))) is not None:
                dead.append(replace(found, dead_why=why))
            self._boxes.dead(place, why)
        senders: dict[str, list[Message]] = {}
        for each in dead:
            senders.setdefault(each.sender, []).append(each)
        for sender, lost in senders.items():
            if sender != DAEMON:  # the daemon hears nothing, or two boxes could feed each other
                self._posting.tell(lost, now)
        return dead
