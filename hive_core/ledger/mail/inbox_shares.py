"""The share of each sender in an inbox, computed when it is a quarter full, then kept up to date.

Counting reads each message of the inbox, so an ack must not cause it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.ledger.mail.mailbox import Box, InboxPlace
from hive_core.ledger.mail.mailboxes import Boxes
from hive_core.model.config.settings import HostLimits

# Messages and bytes by party.
Crowd = Mapping[str, tuple[int, int]]
NOBODY: Final[Crowd] = MappingProxyType({})
_KEPT: Final = 256
_COUNT: Final = (
    "SELECT p.party, COUNT(*), SUM(q.size) FROM queue q CROSS JOIN messages m ON m.id = q.id"
    " CROSS JOIN parties p ON p.id = m.sender WHERE q.inbox = ? AND q.state IN (0, 1, 2)"
    " GROUP BY m.sender"
)
# Mail without a place in the queue yet
_FRESH: Final = (
    "SELECT m.id, p.party FROM messages m CROSS JOIN parties p ON p.id = m.sender"
    " WHERE m.id IN (SELECT value FROM json_each(?))"
)
_SENDER: Final = (
    "SELECT p.party FROM messages m CROSS JOIN parties p ON p.id = m.sender WHERE m.id = ?"
)


class _Count:
    """The shares of an inbox when it was counted, with later changes applied."""

    def __init__(self, box: Box, held: dict[str, tuple[int, int]]) -> None:
        self.held = held
        self.count, self.bytes = box.live.count, box.live.bytes

    def fits(self, box: Box) -> bool:
        """Whether all changes of the inbox were applied."""
        return (self.count, self.bytes) == (box.live.count, box.live.bytes)

    def add(self, sender: str, count: int, size: int) -> None:
        had, held = self.held.get(sender, (0, 0))
        self.held[sender] = (had + count, held + size)
        if had + count == 0:
            del self.held[sender]
        self.count += count
        self.bytes += size


class InboxShares:
    def __init__(self, connection: Connection, boxes: Boxes, limits: HostLimits) -> None:
        self._db = connection
        self._undo = connection.undo
        self._boxes = boxes
        # Of a box that is a quarter full.
        self._count, self._bytes = limits.inbox_count / 4, limits.inbox_bytes / 4
        # The counts by the number of the inbox.
        self.counted: dict[int, _Count] = {}

    def of(self, party: str) -> Crowd:
        """Messages and bytes by sender in an inbox; empty while it is less than a quarter full."""
        known = self._boxes.known
        box = known[party] if party in known else self._boxes.find(party)
        if box is None or (box.live.count < self._count and box.live.bytes < self._bytes):
            return NOBODY
        counts = self.counted.get(box.number)
        if counts is None or not counts.fits(box):
            counts = self._count_senders(box)
            self.counted.pop(box.number, None)
            if len(self.counted) >= _KEPT:
                del self.counted[next(iter(self.counted))]
            self.counted[box.number] = counts
            if self._db.inside:  # the count may include changes that are rolled back
                self._undo.note_outside(self.counted.pop, box.number, None)
        return counts.held

    def add_message(self, box: Box, sender: str, size: int) -> None:
        """Count one more message in an inbox."""
        if (known := self.counted.get(box.number)) is not None:
            self._follow(known, sender, 1, size)

    def remove_messages(self, box: Box, places: Sequence[InboxPlace]) -> None:
        """Subtract ended messages. An inbox without a count costs nothing."""
        if (known := self.counted.get(box.number)) is None:
            return
        if box.live.count < self._count and box.live.bytes < self._bytes:
            del self.counted[box.number]  # counted again when it fills again
            return
        for place in places:
            sender = self._db.value(_SENDER, (place.id,))
            self._follow(known, sender, -1, -place.size)

    def _count_senders(self, box: Box) -> _Count:
        """Count the shares. Changes nothing, because the calling operation is often rolled back."""
        rows = self._db.rows(_COUNT, (box.number,))
        count_of = _Count(box, {sender: (count, size) for sender, count, size in rows})
        sizes = {message: size for _, message, size in box.fresh}
        for message, sender in self._db.rows(_FRESH, (json.dumps(list(sizes)),)):
            count, held = count_of.held.get(sender, (0, 0))
            count_of.held[sender] = (count + 1, held + sizes[message])
        return count_of

    def _follow(self, known: _Count, sender: str, count: int, size: int) -> None:
        known.add(sender, count, size)
        self._undo.note(known.add, sender, -count, -size)
