"""When a turn goes in circles: equal calls with equal results, text without work, failed requests.

A pure value: the session asks it after each call, each answer and each failure.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Final

SAME_CALLS: Final = 3
TEXTS_ONLY: Final = 2
FAILURES: Final = 3
# Calls of one answer that are run.
CALLS_MOST: Final = 128
TOO_MANY: Final = (
    f"not run: one answer may have at most {CALLS_MOST} calls; make it again if needed"
)
# Calls whose sense is to be repeated until something happens.
WAITS: Final = frozenset({
    "wait_for", "get_task", "list_tasks", "get_batch", "list_agents", "get_worker_status",
})  # fmt: skip


@dataclass(slots=True)
class TurnGuard:
    """Counts what repeats. Each question returns the reason to escalate, or an empty text."""

    _last: str = ""
    _same: int = 0
    _texts: int = 0
    _failures: int = field(default=0)

    def note_call(self, name: str, arguments: object, content: str) -> str:
        """A call was answered."""
        self._texts = 0
        if name in WAITS:
            return ""
        digest = hashlib.sha256(
            json.dumps([name, arguments, content], sort_keys=True).encode(errors="replace")
        ).hexdigest()
        self._same = self._same + 1 if digest == self._last else 1
        self._last = digest
        if self._same < SAME_CALLS:
            return ""
        return f"the model made the same call of {name} {self._same} times with the same result"

    def note_text(self) -> str:
        """An answer had no call, and the task of the turn is open."""
        self._texts += 1
        if self._texts < TEXTS_ONLY:
            return ""
        return f"the model wrote {self._texts} texts without a call, and the task is still open"

    def note_failure(self, why: str) -> str:
        """A request to the model failed."""
        self._failures += 1
        if self._failures < FAILURES:
            return ""
        return f"the model could not be reached {self._failures} times: {why}"

    def note_answer(self) -> None:
        """A request was answered: earlier failures no longer count."""
        self._failures = 0
