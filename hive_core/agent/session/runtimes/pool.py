"""Runtimes that wait for their next turn: each is ended after it was idle for a while."""

from __future__ import annotations

import queue
import threading
from typing import Final, Protocol

from hive_core.agent.session.runtimes.builtin import Line
from hive_core.agent.session.runtimes.cli import CliRuntime
from hive_core.agent.session.runtimes.cli_command import CliCommand

_AT_ONCE: Final = 4  # runtimes that wait


class SessionRuntime(Protocol):
    """What runs the model of a session: the built-in runtime, or a CLI."""

    @property
    def pid(self) -> int:
        """Its process; 0: none runs now."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether it can take a further turn."""
        ...

    def attach(self, events: queue.SimpleQueue[tuple[str, object]]) -> None:
        """Have the lines from now on in another queue."""
        ...

    def send(self, line: Line, history: bytes | None = None) -> None:
        """Send a line; RuntimeGone when no process reads it."""
        ...

    def close(self) -> None:
        """End it, and wait for it."""
        ...


class RuntimeSource(Protocol):
    """What starts runtimes, each in its own way."""

    def open(self, events: queue.SimpleQueue[tuple[str, object]], wire: str) -> SessionRuntime:
        """A runtime whose lines go into `events`; RuntimeGone when none can be had."""
        ...


class RuntimePool:
    """Starts runtimes, and keeps those that are idle for `idle` seconds."""

    def __init__(self, source: RuntimeSource | CliCommand, idle: float) -> None:
        self._source = source
        self._idle = idle
        self._waiting: dict[SessionRuntime, tuple[str, threading.Timer]] = {}
        self._lock = threading.Lock()

    @property
    def is_cli(self) -> bool:
        """Whether a CLI runs the model."""
        return isinstance(self._source, CliCommand)

    @property
    def waiting(self) -> int:
        """How many runtimes are idle."""
        return len(self._waiting)

    def take(
        self, events: queue.SimpleQueue[tuple[str, object]], wire: str = "", conversation: str = ""
    ) -> SessionRuntime:
        """A runtime whose lines go into `events`: one that waits, or a new one for this wire.

        The process of a CLI remembers the conversation that it had: only that one gets it again.
        """
        while (runtime := self._take_waiting(conversation)) is not None:
            if runtime.is_alive:
                runtime.attach(events)
                return runtime
            runtime.close()
        if isinstance(self._source, CliCommand):
            return CliRuntime(self._source, events)
        return self._source.open(events, wire)

    def give_back(self, runtime: SessionRuntime, conversation: str = "") -> None:
        """Keep a runtime whose turn has ended, in place of the one that waits longest."""
        runtime.attach(queue.SimpleQueue())
        ended = runtime
        if self._idle > 0 and runtime.is_alive:
            timer = threading.Timer(self._idle, self._end, [runtime])
            timer.daemon = True
            with self._lock:
                self._waiting[runtime] = (conversation, timer)
                timer.start()
                if len(self._waiting) <= _AT_ONCE:
                    return
                ended = next(iter(self._waiting))
                self._waiting.pop(ended)[1].cancel()
        ended.close()

    def close(self) -> None:
        """End all idle runtimes."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for runtime, (_, timer) in waiting.items():
            timer.cancel()
            runtime.close()
        if isinstance(self._source, CliCommand):
            self._source.close()

    def _take_waiting(self, conversation: str) -> SessionRuntime | None:
        """The most recently used idle runtime that can take this conversation."""
        with self._lock:
            for runtime, (served, timer) in reversed(self._waiting.items()):
                if not self.is_cli or served == conversation:
                    timer.cancel()
                    del self._waiting[runtime]
                    return runtime
        return None

    def _end(self, runtime: SessionRuntime) -> None:
        with self._lock:
            waits = self._waiting.pop(runtime, None) is not None
        if waits:
            runtime.close()
