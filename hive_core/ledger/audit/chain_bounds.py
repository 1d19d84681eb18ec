"""The ends of the hash chain of events, and its size: rows of `meta`."""

from __future__ import annotations

from typing import Final

from hive_core.ledger.core.connection import Connection

# Number and digest of an event.
End = tuple[int, bytes]
# Bytes that an event takes in addition to its text.
AROUND: Final = 64
_START: Final = (0, bytes(32))
_TAIL, _SIZE = "events_tail", "events_size"
_KEEP: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


def _end_text(end: End) -> str:
    return f"{end[0]} {end[1].hex()}"


class ChainMarks:
    """The rows, and in memory what they hold: each COMMIT asks. A rollback reads them again."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._ends: dict[str, End] = {}
        self._size: tuple[int, int] | None = None
        connection.undo.always(self._forget)

    def _forget(self) -> None:
        self._ends.clear()
        self._size = None

    def end(self, key: str) -> End:
        """One end of the chain. `key` is `events_base` or `events_tail`."""
        if key not in self._ends:
            seq, digest = (self._text(key) or "0 ").split(" ")
            self._ends[key] = (int(seq), bytes.fromhex(digest)) if digest else _START
        return self._ends[key]

    def keep(self, key: str, end: End) -> None:
        self._db.run(_KEEP, (key, _end_text(end)))
        self._ends[key] = end

    def size(self) -> tuple[int, int]:
        """The number of events, and of bytes."""
        if self._size is None:
            count, size = (self._text(_SIZE) or "0 0").split()
            self._size = int(count), int(size)
        return self._size

    def grow(self, count: int, size: int) -> None:
        """Add to both counts; negative values subtract."""
        grown = self._size_after(count, size)
        self._db.run(_KEEP, (_SIZE, f"{grown[0]} {grown[1]}"))
        self._size = grown

    def extend(self, tail: End, count: int, size: int) -> None:
        """Keep a new tail, and add the events before it to the counts."""
        grown = self._size_after(count, size)
        rows = (_TAIL, _end_text(tail), _SIZE, f"{grown[0]} {grown[1]}")
        self._db.run(f"{_KEEP}, (?, ?)", rows)
        self._ends[_TAIL], self._size = tail, grown

    def _size_after(self, count: int, size: int) -> tuple[int, int]:
        had = self.size()
        return max(0, had[0] + count), max(0, had[1] + size)

    def _text(self, key: str) -> str | None:
        text: str | None = self._db.value("SELECT value FROM meta WHERE key = ?", (key,))
        return text

    def sum_below(self, seq: int) -> tuple[int, int]:
        """The number of events below `seq`, and of bytes."""
        sql = (
            f"SELECT COUNT(*), COALESCE(SUM(length(CAST(body AS BLOB)) + {AROUND}), 0)"  # noqa: S608
            " FROM events WHERE seq < ?"
        )
        count, size = self._db.row(sql, (seq,)) or (0, 0)
        return int(count), int(size)
