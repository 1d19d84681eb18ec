"""`hive-agent session`: mail becomes turns of a model, at most `parallel` of them at once.

A conversation has one thread while its turn runs. Two more receive: one all mail but work, so that
it joins a running turn, and one the tasks, while there is room to begin one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.session.calls import CallRunner
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.exchange import ModelExchange
from hive_core.agent.session.live import LiveText
from hive_core.agent.session.log import MAIN, conversations
from hive_core.agent.session.parking import Parked, escalate
from hive_core.agent.session.records import Record
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.services import SessionServices, say
from hive_core.agent.session.turn import TurnRunner
from hive_core.errors import HiveError

_SEEN_MOST: Final = 2000
_SETTLE: Final = 5.0  # seconds that threads have to end
_TRIES: Final = (1.0, 4.0)


class AgentSession:
    """The conversations of one agent, and the threads that run their turns."""

    def __init__(self, services: SessionServices, parallel: int = 1) -> None:
        self.services = services
        self.pool = RuntimePool(services.runtime, services.settings.idle)
        self._open: dict[str, OpenConversation] = {}
        self._users: dict[str, int] = {}
        self._running: dict[str, threading.Thread] = {}
        self._parked: dict[str, Parked] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._changed = threading.Condition(threading.RLock())
        self._free = parallel

    # What comes in.

    def has_seen(self, mark: str) -> bool:
        """Whether a message, or an attempt of a task, is in a log already."""
        return mark in self._seen

    def add_input(self, name: str, record: Record, *, urgent: bool = False) -> bool:
        """Log an input and have its turn run; False for a message that was logged before.

        `name` empty: the conversation that runs, where it is only one; else main.
        """
        name = name or self._target()
        conversation = self._hold(name)
        try:
            is_new = conversation.add_input(record, urgent=urgent)
        finally:
            self._release(name)
        self._note_seen(str(record.get("id") or ""))
        return is_new

    def wake(self, *, budget: bool) -> None:
        """Run the parked turns again; `budget`: those that wait for a budget."""
        with self._changed:
            names = [name for name, parked in self._parked.items() if parked.budget == budget]
            for name in names:
                self._start(name, after_park=True)

    def stop_turn(self, name: str, why: str) -> bool:
        """Stop the open turn of a conversation; False when none is open."""
        with self._changed:
            conversation = self._open.get(name)
            if conversation is None or conversation.is_idle:
                return False
            conversation.stop_turn(why)
            self._start(name, after_park=True)
            return True

    def wait_for_room(self) -> bool:
        """Wait until one more turn can run; False when the session ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self.services.stop.is_set())
            return not self.services.stop.is_set()

    @property
    def has_room(self) -> bool:
        return self._free > 0

    @property
    def is_resting(self) -> bool:
        """Whether no turn runs."""
        return not self._running

    def is_open(self, name: str) -> bool:
        """Whether a conversation has an open turn."""
        with self._changed:
            conversation = self._open.get(name)
            return conversation is not None and not conversation.is_idle

    # The life of the session.

    def resume(self) -> None:
        """Take up the turns that an earlier process left open."""
        for name in conversations(self.services.folder):
            conversation = self._hold(name)
            for mark in sorted(conversation.state.seen)[-_SEEN_MOST:]:
                self._note_seen(mark)
            self._release(name)

    def close(self) -> None:
        """End all turns where they are; their logs say how they go on."""
        self.services.stop.set()
        with self._changed:
            threads = list(self._running.values())
            for conversation in self._open.values():
                conversation.interrupt()
            self._changed.notify_all()
        for thread in threads:
            thread.join(_SETTLE)
        self.pool.close()

    # Conversations. A user holds one open; the last one closes it when no turn is left.

    def _target(self) -> str:
        with self._changed:
            running = [name for name in self._running if self.is_open(name)]
            return running[0] if len(running) == 1 else MAIN

    def _hold(self, name: str) -> OpenConversation:
        with self._changed:
            if name not in self._open:
                self._open[name] = OpenConversation(self.services.folder, name)
            self._users[name] = self._users.get(name, 0) + 1
            return self._open[name]

    def _release(self, name: str) -> None:
        with self._changed:
            self._users[name] -= 1
            parked = self._parked.get(name)
            if parked is None or not parked.budget:
                self._start(name, after_park=True)
            self._close_idle(name)

    def _close_idle(self, name: str) -> None:
        conversation = self._open.get(name)
        if (
            conversation is not None and conversation.is_idle
            and not self._users.get(name) and name not in self._running
        ):  # fmt: skip
            self._users.pop(name, None)
            self._open.pop(name).close()

    def _start(self, name: str, *, after_park: bool) -> None:
        """Have a thread run the open turn, unless one does."""
        conversation = self._open.get(name)
        if conversation is None or conversation.is_idle or name in self._running:
            return
        was_parked = after_park and self._parked.pop(name, None) is not None
        thread = threading.Thread(
            target=self._run, args=(conversation, was_parked), name=name, daemon=True
        )
        self._running[name] = thread
        thread.start()

    def _run(self, conversation: OpenConversation, was_parked: bool) -> None:  # noqa: FBT001 - args=
        """The thread of one conversation, until no turn is open or until it has to wait."""
        parked: Parked | None = None
        if self._take_room():
            try:
                with self.services.open_link() as link:
                    if was_parked:
                        self.services.try_ask(link, "report_activity", blocked=False, reason="")
                    parked = self._run_turns(conversation, link)
            except HiveError as error:
                say(f"conversation {conversation.name}: {error.reason}")
                parked = Parked(error.reason)
            finally:
                self._give_room()
        with self._changed:
            del self._running[conversation.name]
            if parked is not None:
                self._parked[conversation.name] = parked
            elif not self.services.stop.is_set():
                self._start(conversation.name, after_park=False)
            self._close_idle(conversation.name)
            self._changed.notify_all()

    def _run_turns(self, conversation: OpenConversation, link: Link) -> Parked | None:
        while not conversation.is_idle and not self.services.stop.is_set():
            context = self._read_context(conversation, link)
            if isinstance(context, Parked):
                return context
            with Link(self.services.socket, patience=0.0, answer=5.0) as live_link:
                live = LiveText(live_link, conversation.name)
                parked = TurnRunner(
                    self.services, conversation, link, context,
                    ModelExchange(conversation, context, self.pool, live),
                    CallRunner(link, self.services.place, self.services.stop),
                ).run()  # fmt: skip
            if parked is not None:
                return parked
        return None

    def _read_context(self, conversation: OpenConversation, link: Link) -> TurnContext | Parked:
        for pause in _TRIES:
            try:
                return TurnContext.read(self.services, link)
            except HiveError as error:
                say(f"conversation {conversation.name}: {error.reason}")
                self.services.stop.wait(pause)
        try:
            return TurnContext.read(self.services, link)
        except HiveError as error:
            parked = Parked(error.reason)
            escalate(self.services, link, conversation, parked)
            return parked

    def _take_room(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self.services.stop.is_set())
            if self.services.stop.is_set():
                return False
            self._free -= 1
            return True

    def _give_room(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def _note_seen(self, mark: str) -> None:
        if mark:
            self._seen[mark] = None
            if len(self._seen) > _SEEN_MOST:
                self._seen.popitem(last=False)
