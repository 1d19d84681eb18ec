"""Limits the bytes of ended items for each party: its oldest ones are deleted first.

Ended tasks, questions, batches and waits, plans, stored results of calls with a key, usage of
tasks, jobs, and turns.
"""

from __future__ import annotations

from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.ledger.core.storage_use import HISTORY, StorageUse

# The items of a party to delete next, oldest first, with a limit for each query. Keys are many and
# small. A task that is part of an open one stays.
_OLDEST: Final = {
    "old tasks": (
        "SELECT id FROM tasks t WHERE assigner = ? AND ended IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM tasks p WHERE p.part_of = t.id AND p.part_of <> '' AND p.ended IS NULL)"
        " AND NOT EXISTS (SELECT 1 FROM tasks w WHERE w.id = t.part_of AND w.ended IS NULL)"
        " AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = t.batch AND b.ended IS NULL)"
        " ORDER BY number LIMIT 64"
    ),
    "old questions": (
        "SELECT id FROM questions WHERE asker = ? AND ended IS NOT NULL AND owed IS NULL"
        " ORDER BY number LIMIT 64"
    ),
    "batches": (
        "SELECT id FROM batches WHERE owner = ? AND ended IS NOT NULL ORDER BY number LIMIT 8"
    ),
    # The newest plan of an open task stays.
    "plans": (
        "SELECT id FROM plans p WHERE agent = ? AND (number < (SELECT MAX(number) FROM plans"
        " WHERE task = p.task) OR NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = p.task"
        " AND t.ended IS NULL)) ORDER BY number LIMIT 16"
    ),
    "waits": (
        "SELECT id FROM waits WHERE agent = ? AND ended IS NOT NULL ORDER BY number LIMIT 64"
    ),
    "keys": "SELECT id FROM keys WHERE caller = ? ORDER BY id LIMIT 4096",
    "usage": "SELECT task, kind, source FROM task_usage WHERE agent = ? ORDER BY at LIMIT 256",
    "jobs": "SELECT id FROM jobs WHERE caller = ? AND ended IS NOT NULL ORDER BY id LIMIT 64",
    "judgements": (
        "SELECT number FROM judgements j WHERE agent = ? AND NOT EXISTS (SELECT 1 FROM tasks t"
        " WHERE t.id = j.task AND t.ended IS NULL) ORDER BY number LIMIT 64"
    ),
    "turns": "SELECT number FROM turns WHERE agent = ? ORDER BY number LIMIT 16",
}
# The statements that delete an item: parts first, because their size is charged through the item.
_GONE: Final = {
    "old tasks": (
        "DELETE FROM task_events WHERE task = ?",
        "DELETE FROM plan_steps WHERE plan IN (SELECT id FROM plans WHERE task = ?)",
        "DELETE FROM plans WHERE task = ?",
        "DELETE FROM judgements WHERE task = ?",
        "DELETE FROM tasks WHERE id = ?",
    ),
    "old questions": (
        "DELETE FROM hops WHERE question = ?",
        "DELETE FROM questions WHERE id = ?",
    ),
    "batches": (
        "DELETE FROM batch_items WHERE batch = ?",
        "DELETE FROM batch_workers WHERE batch = ?",
        "DELETE FROM batches WHERE id = ?",
    ),
    "plans": ("DELETE FROM plan_steps WHERE plan = ?", "DELETE FROM plans WHERE id = ?"),
    "waits": ("DELETE FROM awaited WHERE wait = ?", "DELETE FROM waits WHERE id = ?"),
    "keys": ("DELETE FROM keys WHERE id = ?",),
    "usage": ("DELETE FROM task_usage WHERE task = ? AND kind = ? AND source = ?",),
    "jobs": ("DELETE FROM jobs WHERE id = ?",),
    "judgements": ("DELETE FROM judgements WHERE number = ?",),
    "turns": ("DELETE FROM turns WHERE number = ?",),
}


class HistoryTrimmer:
    def __init__(self, connection: Connection, stored: StorageUse) -> None:
        self._db = connection
        self._stored = stored

    def shorten(self, party: str, most: int) -> int:
        """Delete the oldest history of a party until it has at most `most` bytes; return its bytes.

        The noun with the most bytes is trimmed first. Open items stay.
        """
        nouns = set(HISTORY)
        while sum((sizes := self._sizes(party)).values()) > most and nouns:
            noun = max(nouns, key=lambda noun: sizes.get(noun, 0))
            if not self._forget(party, noun):
                nouns.discard(noun)
        return sum(sizes.values())

    def _sizes(self, party: str) -> dict[str, int]:
        return {noun: size for noun, size in self._stored.of(party).items() if noun in HISTORY}

    def _forget(self, party: str, noun: str) -> int:
        rows = self._db.rows(_OLDEST[noun], (party,))
        for sql in _GONE[noun]:
            self._db.run_each(sql, rows)
        return len(rows)
