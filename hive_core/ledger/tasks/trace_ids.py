"""One trace for a task and all that is part of it, in the form that other tools read (W3C)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from hive_core.ledger.core.connection import Connection

_KNOWN: Final = 4096
_DEEP: Final = 64


class TraceIds:
    """Ids are random and what a task is part of never changes, so an answer stays right."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._known: dict[str, str] = {}

    def of(self, task: str) -> str:
        """32 hexadecimal digits, the same for the outermost task and everything below it."""
        found = self._known.get(task)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[task] = trace_id(self._outermost(task))
        return found

    def _outermost(self, task: str) -> str:
        here = task
        for _ in range(_DEEP):
            above = self._db.value("SELECT part_of FROM tasks WHERE id = ?", (here,))
            if not above:
                break
            here = str(above)
        return here


def trace_id(task: str) -> str:
    return blake2b(task.encode(), digest_size=16).hexdigest()
