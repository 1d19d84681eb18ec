"""Delivery order of mail: by age, where each step of lower priority counts as ten seconds.

The delivery time of a message is its time of sending plus ten seconds for each step of its
priority. It never changes, so nothing is sorted again: a low message that has waited for half a
minute precedes a new critical one. The queue is indexed by priority and age, so only the first few
of each priority are read, however full the inbox is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from json import dumps
from typing import Final, NamedTuple

from hive_core.ledger.core.connection import Connection, Row
from hive_core.ledger.mail.letters import message
from hive_core.ledger.mail.mailbox import Box
from hive_core.model.wire.record import Message

# Microseconds, as ids are.
STEP: Final = 10_000_000
# The limit of one lease in bytes: escaped to JSON in the worst case (six-fold) it still fits a
# frame.
_ROOM: Final = 160 << 10

# Deliverable messages: not overdue, and not after mail of their sender that may not have arrived.
_READY: Final = (
    "SELECT q.rank, q.id, q.size, q.attempt FROM queue q WHERE q.inbox = ?1 AND q.state = 0"
    " AND q.rank = ?2 AND (q.due IS NULL OR q.due > ?3)"
)
_BEHIND: Final = (
    " AND NOT EXISTS (SELECT 1 FROM held h"
    "  WHERE h.sender = (SELECT m.sender FROM messages m WHERE m.id = q.id)"
    "  AND h.rank <= q.rank AND h.id < q.id)"
)
_HELD: Final = (
    "WITH held AS MATERIALIZED (SELECT n.sender, h.rank, MIN(h.id) AS id"
    " FROM queue h CROSS JOIN messages n ON n.id = h.id"
    " WHERE h.inbox = ?1 AND h.state = 2 GROUP BY n.sender, h.rank) "
)
# Messages by which the daemon assigns work. Mail of an agent with such a kind is not work.
_WORK: Final = (
    "(SELECT m.relation = 'daemon' AND m.kind IN ('task', 'answer', 'plan_approved',"
    " 'plan_rejected') FROM messages m WHERE m.id = q.id)"
)
_ONLY: Final = {"": "", "work": f" AND {_WORK}", "other": f" AND NOT {_WORK}"}
_FIRST: Final = " ORDER BY q.id LIMIT ?4"
# CROSS JOIN keeps the planner to this order: https://www.sqlite.org/optoverview.html
_LETTERS: Final = (
    "SELECT m.id, s.party, s.name, ?2, ?3, m.relation, m.body, m.kind, m.thread, m.reply_to,"
    " m.priority, m.sent_at, m.expires_at, m.source, m.hops FROM json_each(?1) j"
    " CROSS JOIN messages m ON m.id = j.value CROSS JOIN parties s ON s.id = m.sender"
)


class DeliveryTurn(NamedTuple):
    """One message that can be delivered."""

    rank: int
    id: int
    size: int
    attempt: int

    @property
    def key(self) -> tuple[int, int]:
        """The sort key across priorities."""
        return self.id + self.rank * STEP, self.id


class DeliveryTurns:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def next(
        self, box: Box, party: str, most: int, now: float, only: str = ""
    ) -> list[tuple[DeliveryTurn, Message]]:
        """The next messages of an inbox, at most as many as fit into one answer."""
        turns = fitting(self._first(box, most, now, only))
        if not turns:
            return []
        wanted = dumps([turn.id for turn in turns])
        rows = self._db.rows(_LETTERS, (wanted, party, box.name))
        return [
            (turn, message((*row, turn.attempt + 1, None)))
            for turn, row in zip(turns, rows, strict=True)
        ]

    def _first(self, box: Box, most: int, now: float, only: str) -> list[DeliveryTurn]:
        ready = _READY + _ONLY[only]
        sql = _HELD + ready + _BEHIND + _FIRST if box.held else ready + _FIRST
        return first(
            [self._db.rows(sql, (box.number, rank, now, most)) for rank in box.ranks], most
        )


def first(parts: Iterable[list[Row]], most: int) -> list[DeliveryTurn]:
    """The next messages, merged from the next ones of each priority."""
    filled = [rows for rows in parts if rows]
    turns = list(map(DeliveryTurn._make, chain.from_iterable(filled)))
    if len(filled) > 1:
        turns.sort(key=lambda turn: turn.key)
    return turns[:most]


def fitting(turns: list[DeliveryTurn]) -> list[DeliveryTurn]:
    """As many messages as fit into one answer, at least one."""
    room = _ROOM
    for count, turn in enumerate(turns):
        room -= turn.size
        if count and room < 0:
            return turns[:count]
    return turns
