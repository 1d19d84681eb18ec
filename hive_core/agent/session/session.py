"""`hive-agent session`: mail becomes turns of a model, at most `parallel` of them at once.

A conversation has one thread while its turn runs. Two more receive: one all mail but work, so that
it joins a running turn, and one the tasks, while there is room to begin one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.session.calls import CallRunner
from hive_core.agent.session.closing import close_lost_turn
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.exchange import ModelExchange
from hive_core.agent.session.guard import TurnGuard
from hive_core.agent.session.judge import ResultJudge
from hive_core.agent.session.live import LiveText
from hive_core.agent.session.log import MAIN, conversations, has_log
from hive_core.agent.session.memory.keeper import MemoryKeeper
from hive_core.agent.session.parking import Parked, escalate, resume
from hive_core.agent.session.records import Record
from hive_core.agent.session.router import RoutedLetter
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.server_calls import ServerCallRunner
from hive_core.agent.session.servers import RequiredServerFailed
from hive_core.agent.session.services import SessionServices, describe_fault, fault_text, say
from hive_core.agent.session.subagents.chain import SubagentChain
from hive_core.agent.session.subagents.cli_fork import cli_fork_tool
from hive_core.agent.session.subagents.fork import ForkRunner
from hive_core.agent.session.turn import TurnRunner
from hive_core.agent.session.turn_faults import end_faulty_turn
from hive_core.errors import HiveError

_SEEN_MOST: Final = 2000
_SETTLE: Final = 5.0  # seconds that threads have to end
_TRIES: Final = (1.0, 4.0)


class AgentSession:
    """The conversations of one agent, and the threads that run their turns."""

    def __init__(self, services: SessionServices, parallel: int = 1) -> None:
        self.services = services
        self.pool = RuntimePool(
            services.cli or services.forks or services.runtime, services.settings.idle
        )
        self.memory: MemoryKeeper | None = None
        if services.memory.enabled:
            self.memory = MemoryKeeper(services, services.memory, self._side_pool(), self.holding)
        self.judge = ResultJudge(services, self._side_pool())
        self._open: dict[str, OpenConversation] = {}
        self._users: dict[str, int] = {}
        self._running: dict[str, threading.Thread] = {}
        self._paused: dict[str, str] = {}  # the task of each conversation that waits for others
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

        One that cannot be logged starts no turn: what the turn is answered could not be logged
        either, and the letter comes again and again.
        """
        with self.holding(name) as conversation:
            is_new = conversation.add_input(record, urgent=urgent)
            self._hold(name)
        self._release(name)
        self._note_seen(str(record.get("id") or ""))
        return is_new

    def conversation_for(self, letter: RoutedLetter) -> str:
        """The conversation of the letter's own task, or that of the task that waits for it.

        Else it is the one that runs, where it is only one; where none runs, the one that is parked
        after failures, which goes on with any letter; or main.
        """
        if has_log(self.services.folder, letter.conversation):
            return letter.conversation
        with self._changed:
            with_task = {*self._paused, *(name for name in self._open if self._has_task(name))}
            if letter.wakes and len(with_task) == 1:
                return with_task.pop()
            names = [name for name in self._running if self.is_open(name)]
            names = names or [name for name, parked in self._parked.items() if not parked.budget]
            return names[0] if len(names) == 1 else MAIN

    def forget_pause(self, task: str) -> None:
        """A paused task has ended."""
        with self._changed:
            self._paused = {name: of for name, of in self._paused.items() if of != task}

    def note_budget(self) -> None:
        """Run the turns again that wait for a budget, or are about to."""
        with self._changed:
            for conversation in self._open.values():
                conversation.note_budget()
            for name in [name for name, parked in self._parked.items() if parked.budget]:
                self._start(name, after_park=True)

    def stop_turn(self, name: str, task: str, why: str) -> bool:
        """Stop the turn of a task in a conversation; False when none runs."""
        with self._changed:
            conversation = self._open.get(name)
            if conversation is None or not conversation.stop_turn(task, why):
                return False
            self._start(name, after_park=True)
            self._changed.notify_all()  # its thread may wait for room, which it needs no more
            return True

    def remind(self, text: str) -> None:
        """Bring facts that have changed into the turns that run; they begin and wake none."""
        with self._changed:
            for name in self._running:
                self._open[name].add_reminder(text)

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
            if self.memory is not None and (name == MAIN or conversation.state.reflection):
                self.memory.note(name, conversation.state)
            self._release(name)

    def close(self) -> None:
        """End all turns where they are; their logs say how they go on."""
        self.services.stop.set()
        if self.memory is not None:
            self.memory.close()
        with self._changed:
            threads = list(self._running.values())
            if self.services.servers is not None:
                self.services.servers.close()
            for conversation in self._open.values():
                conversation.interrupt()
            self._changed.notify_all()
        for thread in threads:
            thread.join(_SETTLE)
        self.pool.close()
        if self.services.forks is not None:
            self.services.forks.close()

    # Conversations. A user holds one open; the last one closes it when no turn is left.

    def _has_task(self, name: str) -> bool:
        turn = self._open[name].state.turn
        return turn is not None and bool(turn.task)

    def _hold(self, name: str) -> OpenConversation:
        with self._changed:
            if name not in self._open:
                self._open[name] = OpenConversation(self.services.folder, name)
            self._lock_log(name)
            self._users[name] = self._users.get(name, 0) + 1
            return self._open[name]

    def _lock_log(self, name: str) -> None:
        """Write the log of a conversation again, which somebody may have rewound meanwhile."""
        if self._open[name].lock() and self._open[name].is_idle:
            self._parked[name] = Parked("rewound")  # so that its next turn says that it works

    @contextmanager
    def holding(self, name: str) -> Iterator[OpenConversation]:
        """Hold a conversation open for work beside its turns; this starts no turn."""
        conversation = self._hold(name)
        try:
            yield conversation
        finally:
            with self._changed:
                self._users[name] -= 1
                self._close_idle(name)

    def _side_pool(self) -> RuntimePool:
        """The runtimes for questions beside the conversations: those of a CLI cannot take them."""
        if self.services.cli is None:
            return self.pool
        return RuntimePool(self.services.forks or self.services.runtime, 0)

    def _release(self, name: str) -> None:
        with self._changed:
            self._users[name] -= 1
            parked = self._parked.get(name)
            if parked is None or not parked.budget:
                self._start(name, after_park=True)
            self._close_idle(name)

    def _close_idle(self, name: str) -> None:
        conversation = self._open.get(name)
        if conversation is not None:
            self._note_pause(name, str(conversation.state.paused.get("task") or ""))
        if (
            conversation is not None and conversation.is_idle
            and not self._users.get(name) and name not in self._running
        ):  # fmt: skip
            self._users.pop(name, None)
            self._open.pop(name).close()
        elif conversation is not None and name in self._parked and not self._users.get(name):
            conversation.unlock()  # a turn that waits may be rewound

    def _note_pause(self, name: str, task: str) -> None:
        self._paused.pop(name, None)
        if task:
            self._paused[name] = task

    def _start(self, name: str, *, after_park: bool) -> None:
        """Have a thread run the open turn, unless one does."""
        conversation = self._open.get(name)
        if conversation is None or name in self._running:
            return
        self._lock_log(name)
        if conversation.is_idle:
            return
        was_parked = self._parked.pop(name, None) if after_park else None
        conversation.note_parking(is_parked=False)
        thread = threading.Thread(
            target=self._run, args=(conversation, was_parked), name=name, daemon=True
        )
        self._running[name] = thread
        thread.start()

    def _run(self, conversation: OpenConversation, was_parked: Parked | None) -> None:
        """The thread of one conversation, until no turn is open or until it has to wait."""
        parked: Parked | None = None
        conversation.begin_request()
        if self._take_room(conversation):
            try:
                parked = self._run_or_end(conversation, was_parked)
            finally:
                self._give_room()
        with self._changed:
            del self._running[conversation.name]
            if parked is not None:
                self._parked[conversation.name] = parked
                conversation.note_parking(is_parked=True)
                if conversation.has_news(budget=parked.budget):
                    self._start(conversation.name, after_park=True)
            elif not self.services.stop.is_set():
                self._start(conversation.name, after_park=False)
            self._close_idle(conversation.name)
            self._changed.notify_all()

    def _run_or_end(
        self, conversation: OpenConversation, was_parked: Parked | None
    ) -> Parked | None:
        """Run the turns; those that a fault keeps from going on wait or end."""
        try:
            with self.services.open_link() as link:
                if was_parked is not None:
                    resume(self.services, link, conversation, was_parked)
                return self._run_turns(conversation, link)
        except HiveError as error:
            parked = Parked(fault_text(error))
            say(f"conversation {conversation.name}: {parked.why}")
            return parked
        except OSError as error:
            parked = Parked(fault_text(error))
            say(f"conversation {conversation.name}: {parked.why}")
            return self._tell_fault(conversation, parked)
        except Exception as error:  # noqa: BLE001 - a fault of ours ends this turn, not all
            ended = end_faulty_turn(conversation, error)
            return ended and self._tell_fault(conversation, ended)

    def _tell_fault(self, conversation: OpenConversation, parked: Parked) -> Parked:
        """Escalate that a turn waits: its log cannot be written, or its result not passed on."""
        try:
            with self.services.open_link() as link:
                escalate(self.services, link, conversation, parked)
        except Exception as error:  # noqa: BLE001 - as above
            say(f"cannot escalate: {describe_fault(error)}")
        return parked

    def _run_turns(self, conversation: OpenConversation, link: Link) -> Parked | None:
        guard = TurnGuard()
        while not conversation.is_idle and not self.services.stop.is_set():
            conversation.begin_request()
            if conversation.ending and close_lost_turn(self.services, link, conversation):
                self._note_memory(conversation)
                return None  # there may be no room for the next turn
            inputs = len(conversation.inputs)
            context = self._read_context(conversation, link)
            if isinstance(context, Parked):
                return context
            conversation.begin_phase(context.toolset.phase)
            exchange = ModelExchange(
                conversation, context, self.pool, LiveText(link, conversation.name),
                cli_fork_tool(self.services, conversation, context),
            )  # fmt: skip
            runner = TurnRunner(
                self.services, conversation, link, context, exchange,
                self._call_runner(link, context),
                ForkRunner(
                    self.services, link, conversation, context, SubagentChain(self.services, link)
                ),
                guard, inputs=inputs,
                recall=None if self.memory is None else self.memory.recall(link),
            )  # fmt: skip
            parked = runner.run()
            if parked is not None:
                return parked
            self._note_memory(conversation)
            guard = runner.guard if runner.has_moved else TurnGuard()
        return None

    def _note_memory(self, conversation: OpenConversation) -> None:
        if self.memory is not None:
            self.memory.note(conversation.name, conversation.state)

    def _call_runner(self, link: Link, context: TurnContext) -> CallRunner:
        services, servers = self.services, None
        if services.servers is not None:
            servers = ServerCallRunner(link, services.servers, services.stop)
        return CallRunner(
            link, services.place, services.stop, servers, context.toolset.server_tools
        )

    def _read_context(self, conversation: OpenConversation, link: Link) -> TurnContext | Parked:
        turn = conversation.state.turn
        # That of a task is read after the task was begun.
        with_reminder = turn is not None and turn.needs_reminder and not turn.task
        for pause in _TRIES:
            try:
                return TurnContext.read(self.services, link, with_reminder=with_reminder)
            except RequiredServerFailed:
                break
            except HiveError as error:
                say(f"conversation {conversation.name}: {error.reason}")
                self.services.stop.wait(pause)
        try:
            return TurnContext.read(self.services, link, with_reminder=with_reminder)
        except HiveError as error:
            parked = Parked(error.reason)
            escalate(self.services, link, conversation, parked)
            return parked

    def _take_room(self, conversation: OpenConversation) -> bool:
        """Wait for room; False when the session ends. A turn that is to be stopped needs none."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._free > 0 or conversation.ending or self.services.stop.is_set()
            )
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
