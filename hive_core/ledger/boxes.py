"""Mailboxes: who has one, how full it is, and where each message stands in it.

Every move of a message goes through here, so the counters in `parties` always say what the queue
holds; nothing counts rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from hive_core.errors import InboxFull, NotFound
from hive_core.ledger.connection import Connection
from hive_core.model.settings import Bounds

MIB: Final = 1 << 20
# Mail that is over is kept for a while: answers refer to it, and people look for it.
DONE_KEPT, DONE_BYTES = 1000, 4 * MIB


class Stands(IntEnum):
    """Where a message stands. HELD: given out by an earlier daemon."""

    READY = 0
    LEASED = 1
    HELD = 2
    DEAD = 3
    DONE = 4


class Place(NamedTuple):
    """One row of the queue."""

    inbox: int
    state: int
    rank: int
    id: int
    size: int
    attempt: int


class Boxes:
    def __init__(self, connection: Connection, limits: Bounds) -> None:
        self._db = connection
        self._limits = limits
        self._numbers: dict[str, tuple[int, str]] = {}

    def forget(self) -> None:
        """After a rollback: a party that was new may not be there."""
        self._numbers.clear()

    def number(self, party: str) -> int | None:
        """The row of a party that ever had mail."""
        if known := self._numbers.get(party):
            return known[0]
        row = self._db.row("SELECT id, name FROM parties WHERE party = ?", (party,))
        if row is None:
            return None
        self._numbers[party] = (row[0], row[1])
        return int(row[0])

    def enter(self, party: str, name: str) -> int:
        """The row of a party, made when it is new, with the name it has now."""
        found = self.number(party)
        if found is None:
            found = int(
                self._db.value(
                    "INSERT INTO parties (party, name) VALUES (?, ?) RETURNING id", (party, name)
                )
            )
            self._numbers[party] = (found, name)
        elif self._numbers[party][1] != name:
            self._db.run("UPDATE parties SET name = ? WHERE id = ?", (name, found))
            self._numbers[party] = (found, name)
        return found

    def admit(self, inbox: int, size: int, *, twice: bool = False) -> None:
        """Count one more message of `size` bytes; InboxFull, or NotFound for a closed box.

        `twice`: what the daemon has to say may overrun the bounds, up to double.
        """
        factor = 2 if twice else 1
        count, most = self._limits.inbox_count * factor, self._limits.inbox_bytes * factor
        if self._db.run(
            "UPDATE parties SET live = live + 1, live_bytes = live_bytes + ?1"
            " WHERE id = ?2 AND closed = 0 AND live < ?3 AND live_bytes + ?1 <= ?4",
            (size, inbox, count, most),
        ):
            return
        name, closed = self._db.row("SELECT name, closed FROM parties WHERE id = ?", (inbox,)) or (
            "", 1,
        )  # fmt: skip
        if closed:
            raise NotFound(f"no agent {name}")
        raise InboxFull(f"the inbox of {name} is full: it has to read first")

    def close(self, inbox: int, *, closed: bool) -> None:
        self._db.run("UPDATE parties SET closed = ? WHERE id = ?", (int(closed), inbox))

    def size(self, party: str) -> tuple[int, int]:
        """Messages and bytes that wait in the box or are given out."""
        row = self._db.row("SELECT live, live_bytes FROM parties WHERE party = ?", (party,))
        return (row[0], row[1]) if row else (0, 0)

    def place(self, inbox: int, message: int) -> Place | None:
        """Where a message stands that is neither acked nor dead."""
        row = self._db.row(
            "SELECT q.inbox, q.state, q.rank, q.id, q.size, q.attempt FROM messages m"
            " CROSS JOIN queue q ON q.inbox = m.recipient AND q.state IN (0, 1, 2)"
            " AND q.rank = m.priority AND q.id = m.id WHERE m.id = ? AND m.recipient = ?",
            (message, inbox),
        )
        return Place(*row) if row else None

    def back(self, place: Place, attempt: int) -> None:
        """Make it ready again; its own life may end before the next lease."""
        self._db.run(
            "UPDATE queue SET state = 0, attempt = ?,"
            " due = (SELECT expires_at FROM messages m WHERE m.id = queue.id)"
            " WHERE inbox = ? AND state = ? AND rank = ? AND id = ?",
            (attempt, *place[:4]),
        )

    def done(self, inbox: int, places: Sequence[Place]) -> None:
        """Acked: out of the box, kept for answers that refer to it."""
        self._end(places, Stands.DONE, None)
        size = sum(place.size for place in places)
        kept = self._db.rows(
            "UPDATE parties SET live = live - ?1, live_bytes = live_bytes - ?2,"
            " done = done + ?1, done_bytes = done_bytes + ?2 WHERE id = ?3"
            " RETURNING done, done_bytes",
            (len(places), size, inbox),
        )
        # Trimmed by halves, so that an ack seldom pays for it.
        if kept and (kept[0][0] > 2 * DONE_KEPT or kept[0][1] > 2 * DONE_BYTES):
            self._trim(inbox, Stands.DONE, (DONE_KEPT, DONE_BYTES))

    def dead(self, place: Place, why: str) -> None:
        """A dead letter of this box. A box keeps as many of them as it takes messages."""
        self._end([place], Stands.DEAD, why)
        kept = self._db.rows(
            "UPDATE parties SET live = live - 1, live_bytes = live_bytes - ?1,"
            " dead = dead + 1, dead_bytes = dead_bytes + ?1 WHERE id = ?2"
            " RETURNING dead, dead_bytes",
            (place.size, place.inbox),
        )
        most = (self._limits.inbox_count, self._limits.inbox_bytes)
        if kept and (kept[0][0] > most[0] or kept[0][1] > most[1]):
            self._trim(place.inbox, Stands.DEAD, most)

    def prune(self, state: Stands, before: int, at_once: int) -> int:
        """Delete what is over and has an id below `before`; how many."""
        found = self._db.rows(
            "SELECT p.id, q.id, q.size FROM parties p CROSS JOIN queue q"
            " ON q.inbox = p.id AND q.state = ? AND q.rank = 0 AND q.id < ? LIMIT ?",
            (int(state), before, at_once),
        )
        gone: dict[int, list[tuple[int, int]]] = {}
        for inbox, message, size in found:
            gone.setdefault(inbox, []).append((message, size))
        for inbox, pairs in gone.items():
            self._delete(inbox, state, pairs)
        return len(found)

    def _end(self, places: Sequence[Place], state: Stands, why: str | None) -> None:
        self._db.run_each(
            "UPDATE queue SET state = ?, rank = 0, due = NULL, why = ?"
            " WHERE inbox = ? AND state = ? AND rank = ? AND id = ?",
            [(int(state), why, *place[:4]) for place in places],
        )

    def _trim(self, inbox: int, state: Stands, most: tuple[int, int]) -> None:
        """Keep the newest within bounds."""
        rows = self._db.rows(
            "SELECT id, size FROM queue WHERE inbox = ? AND state = ? ORDER BY id DESC",
            (inbox, int(state)),
        )
        left = most[1]
        for kept, (_, size) in enumerate(rows):
            left -= size
            if kept >= most[0] or left < 0:
                self._delete(inbox, state, [(row[0], row[1]) for row in rows[kept:]])
                return

    def _delete(self, inbox: int, state: Stands, pairs: Sequence[tuple[int, int]]) -> None:
        column = "dead" if state is Stands.DEAD else "done"
        # Ids of deleted mail are never given again, whatever the clock does.
        self._db.run(
            "INSERT INTO meta VALUES ('mail', ?1) ON CONFLICT DO UPDATE SET"
            " value = MAX(CAST(value AS INTEGER), CAST(?1 AS INTEGER))",
            (str(max(message for message, _ in pairs)),),
        )
        self._db.run_each(
            "DELETE FROM queue WHERE inbox = ? AND state = ? AND rank = 0 AND id = ?",
            [(inbox, int(state), message) for message, _ in pairs],
        )
        self._db.run_each("DELETE FROM messages WHERE id = ?", [(each,) for each, _ in pairs])
        self._db.run(
            f"UPDATE parties SET {column} = {column} - ?,"  # noqa: S608 - one of two words
            f" {column}_bytes = {column}_bytes - ? WHERE id = ?",
            (len(pairs), sum(size for _, size in pairs), inbox),
        )
