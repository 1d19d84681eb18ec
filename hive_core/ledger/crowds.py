"""Who fills a box: asked only when it is half full, counted once, then followed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hive_core.ledger.box import Box
from hive_core.ledger.boxes import Boxes
from hive_core.ledger.connection import Connection
from hive_core.ledger.letters import NewMessage
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


class _Count:
    """What a box held when it was counted, with what came in since."""

    def __init__(self, box: Box, held: dict[str, tuple[int, int]]) -> None:
        self.held = held
        self.count, self.bytes = box.live.count, box.live.bytes
        self.over = _over(box)

    def fits(self, box: Box) -> bool:
        """Nothing has ended or was rolled back since."""
        live = box.live
        return (self.count, self.bytes) == (live.count, live.bytes) and self.over == _over(box)

    def add(self, sender: str, size: int) -> None:
        count, held = self.held.get(sender, (0, 0))
        self.held[sender] = (count + 1, held + size)
        self.count += 1
        self.bytes += size


def _over(box: Box) -> tuple[int, ...]:
    return (box.done.count, box.done.bytes, box.dead.count, box.dead.bytes)


class Crowds:
    def __init__(self, connection: Connection, boxes: Boxes, limits: Bounds) -> None:
        self._db = connection
        self._boxes = boxes
        self._limits = limits
        self._known: dict[int, _Count] = {}

    def of(self, party: str) -> Crowd:
        """Who sent what waits in a box or is given out; nobody while it is less than half full."""
        box = self._boxes.find(party)
        if box is None or not self._crowded(box):
            return NOBODY
        known = self._known.get(box.number)
        if known is None or not known.fits(box):
            self._boxes.place(box)
            rows = self._db.rows(_COUNT, (box.number,))
            known = _Count(box, {sender: (count, size) for sender, count, size in rows})
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[box.number] = known
        return known.held

    def follow(self, new: NewMessage) -> None:
        """One more message came into a box."""
        box = self._boxes.find(new.recipient) if self._known else None
        if box is not None and (known := self._known.get(box.number)) is not None:
            known.add(new.sender, len(new.body.encode()))

    def _crowded(self, box: Box) -> bool:
        limits, live = self._limits, box.live
        return live.count * 2 >= limits.inbox_count or live.bytes * 2 >= limits.inbox_bytes
