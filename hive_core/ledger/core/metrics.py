"""Sums for whoever watches a host: what was counted since this daemon started, and what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hive_core.ledger.core.connection import Connection


class BatchCounts:
    """How long turns took, by role: how many by the bucket that they fall in, and their sum."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()
        self.seconds = 0.0


class MetricsTally:
    """Counted in memory: a count must cost no fsync. A rollback takes back what it counted."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._counts: Counter[tuple[str, str]] = Counter()
        self.turns: dict[str, BatchCounts] = {}

    def count(self, name: str, label: str) -> None:
        """One more, inside a transaction."""
        self._counts[name, label] += 1
        self._db.undo.steps.append((self._uncount, (name, label)))

    def turn(self, role: str, bucket: float, seconds: float) -> None:
        """One turn of an agent of this role, which fell into this bucket."""
        counts = self.turns.setdefault(role, BatchCounts())
        counts.counts[bucket] += 1
        counts.seconds += seconds
        self._db.undo.note(self._unturn, counts, bucket, seconds)

    def counts_by_label(self, name: str) -> Mapping[str, int]:
        """By label."""
        return {label: count for (of, label), count in self._counts.items() if of == name}

    def tasks(self) -> Mapping[str, int]:
        """Open tasks by state."""
        sql = "SELECT state, COUNT(*) FROM tasks WHERE ended IS NULL GROUP BY state"
        return {str(state): int(count) for state, count in self._db.rows(sql)}

    def approvals(self) -> tuple[int, int, float]:
        """How many wait for the operator; how many were decided, and seconds until they were."""
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
