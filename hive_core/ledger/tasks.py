"""Tasks: what one agent does for another, each with exactly one end."""

from __future__ import annotations

from typing import Final

from hive_core.ledger.connection import Connection

# What moves along when the clock is set (ledger/shifts.py); ?1 is by how many seconds.
MOVED: Final[tuple[str, ...]] = ()


class Tasks:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
