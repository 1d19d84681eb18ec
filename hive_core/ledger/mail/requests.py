"""Requests: messages whose sender waits for an answer. The answer is reserved for that call.

An answer in time is put into the inbox as if it were leased until the end of the waiting time. The
waiting call acks it; otherwise it comes back like all mail whose lease ended, and `recv` returns
it. So a late answer, or one that was not fetched, is never lost.
"""

from __future__ import annotations

from typing import Final

from hive_core.errors import LimitReached, NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.mail.letters import number, text_id
from hive_core.ledger.mail.mailbox import Box

OPEN: Final = 256  # open requests of one party


class Requests:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def open(self, message: int, box: Box, until: float, now: float) -> None:
        """Record that the party expects an answer to its message until this time."""
        self._db.run("DELETE FROM requests WHERE party = ? AND until <= ?", (box.number, now))
        sql = "SELECT COUNT(*) FROM requests WHERE party = ?"
        if self._db.value(sql, (box.number,)) >= OPEN:
            raise LimitReached(f"{box.name} already waits for {OPEN} answers")
        self._db.run("INSERT INTO requests VALUES (?, ?, ?)", (message, box.number, until))

    def claim_answer(self, message: int, box: Box, now: float) -> float | None:
        """Claim the reservation for an answer to this message; return its end, or None.

        Only the first answer is reserved.
        """
        until: float | None = self._db.value(
            "DELETE FROM requests WHERE message = ? AND party = ? AND until > ? RETURNING until",
            (message, box.number, now),
        )
        return until

    def answer(self, text: str, box: Box | None) -> str | None:
        """The id of the first answer to a message of the party, in any state."""
        asked = number(text)
        row = self._db.row("SELECT sender, thread FROM messages WHERE id = ?", (asked,))
        if row is None or box is None or row[0] != box.number:
            raise NotFound(f"no message {text} of yours")
        answer_id = self._db.value(
            "SELECT t.message FROM threads t CROSS JOIN messages m ON m.id = t.message"
            " WHERE t.thread = ?1 AND t.message > ?2 AND t.recipient = ?3 AND m.reply_to = ?2"
            " ORDER BY t.message LIMIT 1",
            (row[1] or text_id(asked or 0), asked, box.number),
        )
        return None if answer_id is None else text_id(answer_id)

    def forget(self, box: Box) -> None:
        """Delete the requests of a destroyed agent."""
        self._db.run("DELETE FROM requests WHERE party = ?", (box.number,))

    def shift(self, seconds: float) -> None:
        """Shift times with the clock."""
        self._db.run("UPDATE requests SET until = until + ?", (seconds,))
