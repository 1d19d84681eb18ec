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
        self._is_parked = False  # no thread goes on with its turn
        self._log = ConversationLog(folder, name)
        self._changed = threading.Condition(threading.RLock())
        self._arrived: list[Record] = []  # inputs that the request under way does not have
        # What came since the last request began: a turn that parks now goes on with it.
        self._news: set[str] = set()

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

    def lock(self) -> bool:
        """Write its log again; True when another process has changed it meanwhile."""
        with self._changed:
            return self._log.lock()

    def unlock(self) -> None:
        """Let another process write its log, while its turn waits."""
        with self._changed:
            self._log.unlock()

    def append(self, record: Record) -> Record:
        """Log a record; it is on disk when this returns, with all before it."""
        return self._append(record, sync=True)

    def append_without_sync(self, record: Record) -> Record:
        """Log a record that may share the sync of the next one."""
        return self._append(record, sync=False)

    def append_or_apply(self, record: Record) -> None:
        """Log a record; where the log cannot be written, it counts for this process alone."""
        with self._changed:
            try:
                self._log.append(record)
            except OSError:
                self._log.state.apply(record)

    def sync(self) -> None:
        """Have all records on disk."""
        with self._changed:
            self._log.sync()

    def _append(self, record: Record, *, sync: bool) -> Record:
        with self._changed:
            row = self._log.append(record, sync=sync)
            if row["t"] == "closed":
                self.ending = ""  # it was for this turn, not for the next
            self._changed.notify_all()
            return row

    def start_segment(self, make: Callable[[ConversationState], list[Record]]) -> None:
        """Go on in a new segment with the records that `make` says; no input comes in between."""
        with self._changed:
            self._log.start_segment(make(self._log.state))

    def copy_log(self) -> bytes:
        """The bytes of the log as it is now."""
        with self._changed:
            return self._log.read_bytes()

    def begin_phase(self, phase: str) -> None:
        """Have the system prompt rendered anew where a queen has moved to another phase."""
        with self._changed:
            if phase != self.state.phase:
                self._log.append({"t": "system", "text": "", "phase": phase})

    @property
    def inputs(self) -> list[Record]:
        """The inputs of the open turn so far."""
        with self._changed:
            turn = self.state.turn
            return [] if turn is None else list(turn.inputs)

    def has_seen(self, message: str) -> bool:
        """Whether the log has this message."""
        with self._changed:
            return message in self._log.state.seen

    def add_input(self, record: Record, *, urgent: bool = False) -> bool:
        """Log an input, of the open turn or of a new one; False for a message that is there.

        A turn that has ended takes no more: then this waits until it is closed. Where that failed,
        the input begins the turn behind it. A new turn is about the task that is paused here. A
        task begins a turn of its own, after the open one.
        """
        with self._changed:
            self._changed.wait_for(self._takes_input)
            if record.get("id") and str(record["id"]) in self.state.seen:
                return False
            turn = self.state.turn
            number = self.state.turns + 1 if turn is None else turn.number
            if turn is not None and record.get("kind") == "task":
                self._log.append({**record, "t": "input", "turn": number, "waits": True})
                self._news.add("input")
                return True
            if turn is None and record.get("kind") == "mail":
                record = {**record, **self.state.paused}
            self._arrived.append(self._log.append({**record, "t": "input", "turn": number}))
            self._news.add("input")
            self.events.put(("urgent" if urgent else "input", ""))
        return True

    def _takes_input(self) -> bool:
        turn = self.state.turn
        return turn is None or turn.end is None or self._is_parked

    def note_parking(self, *, is_parked: bool) -> None:
        """Note whether the turn waits. A turn that has ended and waits is not closed yet."""
        with self._changed:
            self._is_parked = is_parked
            self._changed.notify_all()

    def note_budget(self) -> None:
        """A budget of the agent has room again."""
        with self._changed:
            self._news.add("budget")

    def begin_request(self) -> None:
        """What came so far is in the request that begins."""
        with self._changed:
            self._news.clear()

    def has_news(self, *, budget: bool) -> bool:
        """Whether the input that the turn would wait for arrived before it parked."""
        with self._changed:
            return not self._news.isdisjoint({"stop", "budget" if budget else "input"})

    def add_reminder(self, text: str) -> None:
        """Log facts for the open turn; without one they are not needed."""
        with self._changed:
            turn = self.state.turn
            if turn is None or turn.end is not None:
                return
            record = {"t": "input", "turn": turn.number, "kind": "credentials", "text": text}
            self._arrived.append(self._log.append(record))
            self.events.put(("input", ""))

    def take_new_inputs(self) -> list[Record]:
        """The inputs that came since the request was sent, for its runtime, each once."""
        with self._changed:
            rows, self._arrived = self._arrived, []
            return rows

    def take_unseen(self) -> list[Record]:
        """The inputs that the next request carries; their events, which say the same, are gone."""
        with self._changed:
            self.drop_events()
            self.begin_request()
            self._arrived = []
            turn = self.state.turn
            return [] if turn is None else turn.unseen

    def drop_events(self) -> None:
        """Forget what happened: the log has it."""
        while not self.events.empty():
            self.events.get_nowait()

    def stop_turn(self, task: str, why: str) -> bool:
        """Have the turn of a task stopped; False when no turn of it runs."""
        with self._changed:
            turn = self.state.turn
            if turn is None or turn.end is not None or turn.task != task:
                return False
            self.ending = why or "stopped"
            self._news.add("stop")
        self.interrupt()
        return True

    def interrupt(self) -> None:
        """Interrupt the request or the program that runs now."""
        self.events.put(("stop", ""))
        kill = self.kill_call
        if kill is not None:
            kill()

    def close(self) -> None:
        with self._changed:
            self._log.close()
