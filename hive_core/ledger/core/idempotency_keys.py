"""Stored results of calls with an idempotency key; successful calls only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hive_core.ledger.core.connection import Connection

KEPT: Final = 7 * 86_400.0
_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A stored result.

    `digest` is that of the parameters, to distinguish a repeat from a misuse.
    """

    digest: str
    operation: str
    result: str


class Keys:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def lookup(self, caller: str, key: str) -> StoredResult | None:
        row = self._db.row(
            "SELECT digest, operation, result FROM keys WHERE caller = ? AND key = ?", (caller, key)
        )
        return StoredResult(*row) if row else None

    def store(self, caller: str, key: str, stored: StoredResult, now: float) -> None:
        self._db.run(
            "INSERT INTO keys (caller, key, digest, operation, result, at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (caller, key, stored.digest, stored.operation, stored.result, now),
        )

    def prune(self, now: float, retention: float = KEPT) -> int:
        """Delete keys older than `retention`, a limited number at a time; return how many."""
        return self._db.run(
            "DELETE FROM keys WHERE at < ? AND id IN (SELECT id FROM keys ORDER BY id LIMIT ?)",
            (now - retention, _AT_ONCE),
        )
