"""Ended messages: acked or dead, kept for a while within limits, then deleted."""

from __future__ import annotations

from collections.abc import Sequence

from hive_core.ledger.core.connection import Connection
from hive_core.ledger.mail.inbox_shares import InboxShares
from hive_core.ledger.mail.mailbox import Box, InboxPlace, MessageState
from hive_core.ledger.mail.mailboxes import Boxes
from hive_core.model.config.settings import HostLimits

# Ended mail is kept for a while: answers refer to it, and users search it.
DONE_KEPT, DONE_BYTES = 1000, 4 << 20
_A_FEW = 64


class Ends:
    def __init__(
        self, connection: Connection, boxes: Boxes, crowds: InboxShares, limits: HostLimits
    ) -> None:
        self._db = connection
        self._boxes = boxes
        self._crowds = crowds
        self._limits = limits

    def finish(self, box: Box, places: Sequence[InboxPlace]) -> None:
        """Take acked messages out of the inbox; keep them for answers that refer to them."""
        self._end(box, places, MessageState.DONE)
        # Trimmed from twice the limit, so that few acks have to do it.
        if box.done.count > 2 * DONE_KEPT or box.done.bytes > 2 * DONE_BYTES:
            self._trim(box, MessageState.DONE, (DONE_KEPT, DONE_BYTES))

    def dead(self, box: Box, places: Sequence[InboxPlace], why: str, now: float) -> None:
        """Make messages dead letters of this inbox, which keeps as many as it holds live ones."""
        # Later deaths have higher numbers, also where the clock was set back, before a start too.
        box.last_death = max(int(now * 1e6), box.last_death + 1)
        self._end(box, places, MessageState.DEAD, why, box.last_death)
        most = (self._limits.inbox_count, self._limits.inbox_bytes)
        if box.dead.count > most[0] or box.dead.bytes > most[1]:
            self._trim(box, MessageState.DEAD, most)

    def clear_dead(self, box: Box, most: int, death: int | None = None) -> int:
        """Delete the oldest dead letters of this inbox, of deaths up to this one; return how many.

        None: of all deaths.
        """
        rows = self._db.rows(
            "SELECT id, size FROM queue WHERE inbox = ?1 AND state = ?2 AND rank = 0"
            " AND (?4 IS NULL OR died IS NULL OR died <= ?4) ORDER BY id LIMIT ?3",
            (box.number, int(MessageState.DEAD), most, death),
        )
        if rows := [(row[0], row[1]) for row in rows]:
            self._delete(box.number, MessageState.DEAD, rows)
        return len(rows)

    def prune(self, state: MessageState, before: int, at_once: int) -> int:
        """Delete ended messages with an id below `before`; return how many."""
        rows = self._db.rows(
            "SELECT p.id, q.id, q.size FROM parties p CROSS JOIN queue q"
            " ON q.inbox = p.id AND q.state = ? AND q.rank = 0 AND q.id < ? LIMIT ?",
            (int(state), before, at_once),
        )
        gone: dict[int, list[tuple[int, int]]] = {}
        for inbox, message, size in rows:
            gone.setdefault(inbox, []).append((message, size))
        for inbox, pairs in gone.items():
            self._delete(inbox, state, pairs)
        return len(rows)

    def _end(
        self, box: Box, places: Sequence[InboxPlace], state: MessageState,
        why: str | None = None, died: int | None = None,
    ) -> None:  # fmt: skip
        self._db.run_each(
            "UPDATE queue SET state = ?, rank = 0, due = NULL, why = ?, died = ?"
            " WHERE inbox = ? AND state = ? AND rank = ? AND id = ?",
            [(int(state), why, died, *place[:4]) for place in places],
        )
        size = sum(place.size for place in places)
        self._boxes.count(box.live, -len(places), -size)
        self._boxes.count(box.tally(state), len(places), size)
        self._crowds.remove_messages(box, places)

    def _trim(self, box: Box, state: MessageState, most: tuple[int, int]) -> None:
        """Delete the oldest ended messages above the limits; read few more than are deleted."""
        over = box.tally(state)
        while over.count > most[0] or over.bytes > most[1]:
            rows = self._db.rows(
                "SELECT id, size FROM queue WHERE inbox = ? AND state = ? AND rank = 0"
                " ORDER BY id LIMIT ?",
                (box.number, int(state), max(over.count - most[0], _A_FEW)),
            )
            count, size, gone = over.count, over.bytes, []
            for row in rows:
                if count <= most[0] and size <= most[1]:
                    break
                gone.append((row[0], row[1]))
                count, size = count - 1, size - row[1]
            self._delete(box.number, state, gone)

    def _delete(self, inbox: int, state: MessageState, pairs: Sequence[tuple[int, int]]) -> None:
        # Ids of deleted mail are never reused, even if the clock is set back.
        self._db.run(
            "INSERT INTO meta VALUES ('mail', ?1) ON CONFLICT DO UPDATE SET"
            " value = MAX(CAST(value AS INTEGER), CAST(?1 AS INTEGER))",
            (str(max(message for message, _ in pairs)),),
        )
        self._db.run_each(
            "DELETE FROM queue WHERE inbox = ? AND state = ? AND rank = 0 AND id = ?",
            [(inbox, int(state), message) for message, _ in pairs],
        )
        self._db.run_each(
            "DELETE FROM threads WHERE message = ?1"
            " AND thread = (SELECT thread FROM messages WHERE id = ?1)",
            [(message,) for message, _ in pairs],
        )
        self._db.run_each("DELETE FROM messages WHERE id = ?", [(message,) for message, _ in pairs])
        self._boxes.forget(inbox, state, len(pairs), sum(size for _, size in pairs))
