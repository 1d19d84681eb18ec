"""A conversation that is open: its log, and what other threads bring into its turn."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

from hive_core.agent.session.log import ConversationLog
from hive_core.agent.session.records import Record
from hive_core.agent.session.recovery import Step, step_of
from hive_core.agent.session.state import ConversationState

Event = tuple[str, object]


class OpenConversation:
    """One thread runs its turn; the mailbox writes input. All go through one lock."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.ending = ""  # why the turn is to be stopped
        self.kill_call: Callable[[], None] | None = None
        self._log = ConversationLog(folder, name)
        self._changed = threading.Condition(threading.RLock())

    @property
    def state(self) -> ConversationState:
        return self._log.state

    @property
    def is_idle(self) -> bool:
        """Whether no turn is open."""
        return self._log.state.turn is None

    def step(self) -> Step:
        with self._changed:
            return step_of(self._log.state)

    def append(self, record: Record) -> Record:
        """Log a record; it is on disk when this returns."""
        with self._changed:
            row = self._log.append(record)
            self._changed.notify_all()
            return row

    def start_segment(self, records: list[Record]) -> None:
        with self._changed:
            self._log.start_segment(records)

    def has_seen(self, message: str) -> bool:
        """Whether the log has this message."""
        with self._changed:
            return message in self._log.state.seen

    def add_input(self, record: Record, *, urgent: bool = False) -> bool:
        """Log an input, of the open turn or of a new one; False for a message that is there.

        A turn that has ended takes no more: then this waits until it is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: (turn := self.state.turn) is None or turn.end is None)
            if record.get("id") and str(record["id"]) in self.state.seen:
                return False
            turn = self.state.turn
            number = self.state.turns + 1 if turn is None else turn.number
            row = self._log.append({**record, "t": "input", "turn": number})
            self.events.put(("urgent" if urgent else "input", row))
        return True

    def take_unseen(self) -> list[Record]:
        """The inputs that the next request carries; their events, which say the same, are gone."""
        with self._changed:
            self.drop_events()
            turn = self.state.turn
            return [] if turn is None else turn.unseen

    def drop_events(self) -> None:
        """Forget what happened: the log has it."""
        while not self.events.empty():
            self.events.get_nowait()

    def stop_turn(self, why: str) -> None:
        """Have the open turn stopped."""
        self.ending = why or "stopped"
        self.interrupt()

    def interrupt(self) -> None:
        """Interrupt the request or the program that runs now."""
        self.events.put(("stop", ""))
        kill = self.kill_call
        if kill is not None:
            kill()

    def close(self) -> None:
        with self._changed:
            self._log.close()
