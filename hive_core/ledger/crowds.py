"""Who fills a box: asked only when it is half full, and kept until something in it ends."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hive_core.ledger.box import Box
from hive_core.ledger.boxes import Boxes
from hive_core.ledger.connection import Connection
from hive_core.model.settings import Bounds

# Messages and bytes by party.
Crowd = Mapping[str, tuple[int, int]]
NOBODY: Final[Crowd] = MappingProxyType({})
_KEPT: Final = 256
_COUNT: Final = (
    "SELECT p.party, COUNT(*), SUM(q.size) FROM queue q CROSS JOIN messages m ON m.id = q.id"
    " CROSS JOIN parties p ON p.id = m.sender WHERE q.inbox = ? AND q.state IN (0, 1, 2)"
    " GROUP BY m.sender"
)


class Crowds:
    def __init__(self, connection: Connection, boxes: Boxes, limits: Bounds) -> None:
        self._db = connection
        self._boxes = boxes
        self._limits = limits
        self._known: dict[int, tuple[tuple[int, ...], Crowd]] = {}

    def of(self, party: str) -> Crowd:
        """Who sent what waits in a box or is given out; nobody while it is less than half full."""
        box = self._boxes.find(party)
        if box is None or not self._crowded(box):
            return NOBODY
        # Refused senders change nothing, so a flood of them costs one look.
        tallies = (box.live, box.done, box.dead)
        stamp = tuple(part for each in tallies for part in (each.count, each.bytes))
        known = self._known.get(box.number)
        if known is None or known[0] != stamp:
            self._boxes.place(box)
            rows = self._db.rows(_COUNT, (box.number,))
            known = (stamp, {party: (count, size) for party, count, size in rows})
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[box.number] = known
        return known[1]

    def _crowded(self, box: Box) -> bool:
        limits, live = self._limits, box.live
        return live.count * 2 >= limits.inbox_count or live.bytes * 2 >= limits.inbox_bytes
