"""The task of a turn at the broker: whether it may be worked on, and its one end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hive_core.agent.reconnect import Link
from hive_core.agent.session.services import SessionServices
from hive_core.agent.task_client import cut_summary
from hive_core.agent.task_run import mapping
from hive_core.errors import Conflict, NotFound

IN_PROGRESS: Final = "in_progress"
_ENDED: Final = frozenset({"done", "cancelled"})
_STOPPING: Final = "stopping"
_QUEUED: Final = "queued"
_WORKING: Final = frozenset({IN_PROGRESS, "pending_delegation"})
_AWAITING: Final = frozenset({"awaiting_plan_approval", "awaiting_more_information"})

Progress = Literal["works", "waits", "over"]


@dataclass(frozen=True, slots=True)
class SessionTasks:
    """Calls about the task of a turn."""

    services: SessionServices
    link: Link

    def take_up(self, task: str, attempt: int) -> str:
        """Begin a task, or go on with it; the reason why this turn may not, else empty.

        `get_task` comes first: another attempt is another turn, whatever this one had begun.
        """
        try:
            row = mapping(self.services.ask(self.link, "get_task", task=task).get("task"))
            reason = _reason_against(row, attempt)
            if row.get("state") == _STOPPING:
                self.finish(task, "stopped", "ended before it was done", f"stop:{task}:{attempt}")
            if not reason and row.get("offered"):
                # Without a key: a second call changes nothing, and an attempt that was handed back
                # and offered again has to be begun again.
                self.services.ask(self.link, "begin_task", task=task)
        except (Conflict, NotFound) as error:
            return error.reason or "it was withdrawn"
        return reason

    def state(self, task: str) -> str:
        """The state of the task; empty when it is not to be found."""
        return str(self._row(task).get("state") or "")

    def _row(self, task: str) -> Mapping[str, object]:
        try:
            return mapping(self.services.ask(self.link, "get_task", task=task).get("task"))
        except NotFound:
            return {}

    def progress(self, task: str) -> Progress:
        """Whether a task needs its agent now, or waits for others, or is over."""
        row = self._row(task) if task else {}
        state = row.get("state")
        if state in _AWAITING:
            return "waits"
        if state not in _WORKING:
            return "over"
        is_waiting = row.get("open") or self.services.try_ask(self.link, "list_waits").get("waits")
        return "waits" if is_waiting else "works"

    def finish(self, task: str, status: str, summary: str, key: str) -> None:
        """Report the result; a task that has ended meanwhile does not change."""
        self.services.try_ask(
            self.link, "finish_task", task=task, status=status, summary=cut_summary(summary),
            idempotency_key=key[:128],
        )  # fmt: skip


def _reason_against(row: object, attempt: int) -> str:
    fields = mapping(row)
    state = str(fields.get("state") or "")
    if state in _ENDED:
        return f"it has ended ({state})"
    if fields.get("attempt") != attempt:
        return f"it was given out again, as attempt {fields.get('attempt')}"
    if state == _QUEUED and not fields.get("offered"):
        return "it was withdrawn, and waits to be offered again"
    return "it is being stopped" if state == _STOPPING else ""
