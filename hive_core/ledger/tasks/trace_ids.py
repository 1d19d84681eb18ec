"""The trace id of a task and all its parts, in the format of W3C Trace Context."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from hive_core.ledger.core.connection import Connection

_KNOWN: Final = 4096
_DEEP: Final = 64


class TraceIds:
    """Trace ids by task, cached, because the parent of a task never changes."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._known: dict[str, str] = {}

    def of(self, task: str) -> str:
        """32 hexadecimal digits, the same for the outermost task and all its parts."""
        id_ = self._known.get(task)
        if id_ is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            id_ = self._known[task] = trace_id(self._outermost(task))
        return id_

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
