"""Metrics of a host: counts since this daemon started, and the number of open items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hive_core.ledger.core.connection import Connection


class BatchCounts:
    """Durations of agents' turns of one role: the count of each bucket, and their sum."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()
        self.seconds = 0.0


class MetricsTally:
    """Counts in memory, because a count must cost no fsync. A rollback reverts them."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._counts: Counter[tuple[str, str]] = Counter()
        self.turns: dict[str, BatchCounts] = {}

    def count(self, name: str, label: str) -> None:
        """Count one more, inside a transaction."""
        self._counts[name, label] += 1
        self._db.undo.steps.append((self._uncount, (name, label)))

    def turn(self, role: str, bucket: float, seconds: float) -> None:
        """Count one turn of an agent of this role in this bucket."""
        counts = self.turns.setdefault(role, BatchCounts())
        counts.counts[bucket] += 1
        counts.seconds += seconds
        self._db.undo.note(self._unturn, counts, bucket, seconds)

    def counts_by_label(self, name: str) -> Mapping[str, int]:
        """The counts of one name, by label."""
        return {label: count for (of, label), count in self._counts.items() if of == name}

    def tasks(self) -> Mapping[str, int]:
        """Open tasks by state."""
        sql = "SELECT state, COUNT(*) FROM tasks WHERE ended IS NULL GROUP BY state"
        return {str(state): int(count) for state, count in self._db.rows(sql)}

    def approvals(self) -> tuple[int, int, float]:
        """Pending approvals; decided approvals, and the seconds until they were decided."""
        row = self._db.row(
            "SELECT COUNT(*) FILTER (WHERE state = 'pending'), COUNT(decided),"
            " COALESCE(SUM(MAX(decided - created, 0)), 0) FROM approvals"
        )
        return (int(row[0]), int(row[1]), float(row[2])) if row else (0, 0, 0.0)

    def questions(self) -> int:
        """Questions and escalations without an answer."""
        return int(self._db.value("SELECT COUNT(*) FROM questions WHERE ended IS NULL"))

    def _unturn(self, counts: BatchCounts, bucket: float, seconds: float) -> None:
        counts.counts[bucket] -= 1
        counts.seconds -= seconds

    def _uncount(self, name: str, label: str) -> None:
        self._counts[name, label] -= 1
