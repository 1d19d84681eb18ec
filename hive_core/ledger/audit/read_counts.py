"""Allowed reads, which are not logged but counted by caller and operation."""

from __future__ import annotations

from collections import Counter

from hive_core.ledger.core.connection import Connection


class ReadCounts:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._reads: Counter[tuple[str, str]] = Counter()

    def count(self, caller: str, operation: str) -> None:
        """Count an allowed read; in memory, because a read must cost no fsync."""
        self._reads[caller, operation] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        """How often each caller ran each reading operation."""
        counts = Counter(self._reads)
        for caller, operation, count in self._db.rows("SELECT caller, operation, count FROM reads"):
            counts[caller, operation] += count
        return dict(counts)

    def reads_of(self, caller: str) -> dict[str, int]:
        """How often one caller ran each reading operation."""
        here = {name: count for (who, name), count in self._reads.items() if who == caller}
        counts = Counter(here)
        sql = "SELECT operation, count FROM reads WHERE caller = ?"
        for name, count in self._db.rows(sql, (caller,)):
            counts[name] += count
        return dict(counts)

    def keep_counts(self) -> None:
        """Write the counts to the ledger. Called at intervals and at a clean stop."""
        self._db.run_each(
            "INSERT INTO reads (caller, operation, count) VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET count = count + excluded.count",
            [(*key, count) for key, count in self._reads.items()],
        )
        self._db.undo.note(self._reads.update, Counter(self._reads))
        self._reads.clear()
