"""The trace id of a task and all its parts, in the format of W3C Trace Context."""

from __future__ import annotations

from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.wire.trace_context import parse_traceparent, trace_id

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
            id_ = self._known[task] = self._find(task)
        return id_

    def _find(self, task: str) -> str:
        """The trace that the outermost task was assigned in, or one of its own."""
        here, assigned_in = task, ""
        for _ in range(_DEEP):
            row = self._db.row(
                "SELECT part_of, json_extract(wish, '$.traceparent') FROM tasks WHERE id = ?",
                (here,),
            )
            assigned_in = str(row[1] or "") if row else ""
            if row is None or not row[0]:
                break
            here = str(row[0])
        parent = parse_traceparent(assigned_in)
        return trace_id(here) if parent is None else parent.trace
