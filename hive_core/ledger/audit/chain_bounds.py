"""The ends of the hash chain of events, and its size: rows of `meta`."""

from __future__ import annotations

from typing import Final, Literal

from hive_core.ledger.core.connection import Connection

# Number and digest of an event.
End = tuple[int, bytes]
# Bytes that an event takes in addition to its text.
AROUND: Final = 64
_START: Final = (0, bytes(32))


class ChainMarks:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def end(self, key: str) -> End:
        """One end of the chain. `key` is `events_base` or `events_tail`."""
        text = self._db.value("SELECT value FROM meta WHERE key = ?", (key,))
        if not text:
            return _START
        seq, digest = text.split()
        return int(seq), bytes.fromhex(digest)

    def keep(self, key: str, end: End) -> None:
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, f"{end[0]} {end[1].hex()}"))

    def size(self) -> tuple[int, int]:
        """The number of events, and of bytes."""
        text = self._db.value("SELECT value FROM meta WHERE key = 'events_size'")
        count, size = (text or "0 0").split()
        return int(count), int(size)

    def grow(self, count: int, size: int) -> None:
        """Add to both counts; negative values subtract."""
        had = self.size()
        text = f"{max(0, had[0] + count)} {max(0, had[1] + size)}"
        self._db.run("INSERT OR REPLACE INTO meta VALUES ('events_size', ?)", (text,))

    def sum(self, where: Literal["seq < ?", "seq > ?"], seq: int) -> tuple[int, int]:
        """The number of events on one side of `seq`, and of bytes."""
        sql = (
            f"SELECT COUNT(*), COALESCE(SUM(length(CAST(body AS BLOB)) + {AROUND}), 0)"  # noqa: S608
            f" FROM events WHERE {where}"
        )
        count, size = self._db.row(sql, (seq,)) or (0, 0)
        return int(count), int(size)
