"""Which line waits for which topic, and until when."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hive_core.broker.connection import CallOutcome, ClientConnection
from hive_core.ports import Clock


class WaitingConnections:
    """Lines by topic. A touched topic costs as much as the lines that wait for it."""

    def __init__(self, clock: Clock, enqueue: Callable[[ClientConnection], None]) -> None:
        self._clock = clock
        self._enqueue = enqueue
        self._lines: dict[str, dict[ClientConnection, None]] = {}

    def __len__(self) -> int:
        return sum(len(lines) for lines in self._lines.values())

    def park(self, line: ClientConnection, step: CallOutcome) -> None:
        """The line waits; whatever comes first queues it again, once."""
        line.busy = True
        for topic in step.topics:
            self._lines.setdefault(topic, {})[line] = None
        times = [moment for moment in (step.until, step.due) if moment is not None]
        cancel = self._clock.call_at(min(times), lambda: self._end_wait(line)) if times else None
        line.unpark = lambda: self._forget(line, step.topics, cancel)

    def touch(self, topics: Iterable[str]) -> None:
        """What a topic is about has changed."""
        for topic in topics:
            for line in list(self._lines.get(topic, ())):
                self._end_wait(line)

    def drop(self, line: ClientConnection) -> None:
        """The line waits no longer, for whatever reason."""
        if line.unpark is not None:
            line.unpark()
            line.unpark = None
        line.busy = False

    def _end_wait(self, line: ClientConnection) -> None:
        self.drop(line)
        self._enqueue(line)

    def _forget(
        self, line: ClientConnection, topics: Iterable[str], cancel: Callable[[], None] | None
    ) -> None:
        if cancel is not None:
            cancel()
        for topic in topics:
            lines = self._lines.get(topic, {})
            lines.pop(line, None)
            if not lines:
                self._lines.pop(topic, None)
