"""Connections that wait for topics, with their deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hive_core.broker.connection import CallOutcome, ClientConnection
from hive_core.ports import Clock


class WaitingConnections:
    """Connections by topic. To touch a topic costs time for those that wait for it only."""

    def __init__(self, clock: Clock, enqueue: Callable[[ClientConnection], None]) -> None:
        self._clock = clock
        self._enqueue = enqueue
        self._connections: dict[str, dict[ClientConnection, None]] = {}

    def __len__(self) -> int:
        return sum(len(connections) for connections in self._connections.values())

    def park(self, connection: ClientConnection, outcome: CallOutcome) -> None:
        """Let the connection wait; the first event queues it again, once."""
        connection.busy = True
        for topic in outcome.topics:
            self._connections.setdefault(topic, {})[connection] = None
        times = [moment for moment in (outcome.until, outcome.due) if moment is not None]
        cancel = (
            self._clock.call_at(min(times), lambda: self._end_wait(connection)) if times else None
        )
        connection.unpark = lambda: self._forget(connection, outcome.topics, cancel)

    def touch(self, topics: Iterable[str]) -> None:
        """Queue the connections that wait for one of these topics."""
        for topic in topics:
            for connection in list(self._connections.get(topic, ())):
                self._end_wait(connection)

    def drop(self, connection: ClientConnection) -> None:
        """End the wait of the connection."""
        if connection.unpark is not None:
            connection.unpark()
            connection.unpark = None
        connection.busy = False

    def _end_wait(self, connection: ClientConnection) -> None:
        self.drop(connection)
        self._enqueue(connection)

    def _forget(
        self, connection: ClientConnection, topics: Iterable[str], cancel: Callable[[], None] | None
    ) -> None:
        if cancel is not None:
            cancel()
        for topic in topics:
            connections = self._connections.get(topic, {})
            connections.pop(connection, None)
            if not connections:
                self._connections.pop(topic, None)
