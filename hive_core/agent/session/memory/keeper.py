"""Reflects in the background: a thread that begins a reflection when turns have ended.

No turn waits for it. Between two reflections lies the cooldown of `[memory]`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.log import MAIN
from hive_core.agent.session.memory.budget import DailyTokens
from hive_core.agent.session.memory.entries import MemoryStore
from hive_core.agent.session.memory.recall import MemoryRecall
from hive_core.agent.session.memory.reflection import Reflection
from hive_core.agent.session.memory.settings import MemorySettings
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.services import SessionServices, describe_fault, say
from hive_core.agent.session.state import ConversationState

FILE: Final = "memory.json"
_AGAIN: Final = 60.0

HoldConversation = Callable[[str], AbstractContextManager[OpenConversation]]


class MemoryKeeper:
    """The memory of one session."""

    def __init__(
        self, services: SessionServices, settings: MemorySettings, pool: RuntimePool,
        hold: HoldConversation,
    ) -> None:  # fmt: skip
        self._services = services
        self._settings = settings
        self._pool = pool
        self._hold = hold
        self._budget = DailyTokens(services.folder / FILE, settings.tokens)
        self._due: dict[str, float] = {}
        self._rests_until = 0.0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def recall(self, link: Link) -> MemoryRecall:
        """What finds memories for a turn."""
        return MemoryRecall(self._store(link), self._pool, self._budget)

    def note(self, name: str, state: ConversationState) -> None:
        """A turn of this conversation may have ended: have it reflected on, where it is due."""
        if not is_due(name, state, self._settings.every):
            return
        with self._changed:
            self._due.setdefault(name, 0.0)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="memory", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Start no further reflections; the next start continues unfinished ones."""
        with self._changed:
            self._changed.notify_all()

    def _serve(self) -> None:
        with self._services.open_link() as link:
            while (name := self._next()) is not None:
                try:
                    with self._hold(name) as conversation:
                        Reflection(self._store(link), self._pool, self._budget).run(conversation)
                except Exception as error:  # noqa: BLE001 - a fault of ours ends no thread
                    say(f"cannot reflect on {name}: {describe_fault(error)}")
                    link.close()
                    with self._changed:
                        self._due.setdefault(name, time.monotonic() + _AGAIN)
                self._rests_until = time.monotonic() + self._settings.cooldown

    def _next(self) -> str | None:
        """The next conversation to reflect on, when its time has come; None at the end."""
        with self._changed:
            while not self._services.stop.is_set():
                name = min(self._due, key=self._due.__getitem__, default="")
                wait = max(self._due[name], self._rests_until) - time.monotonic() if name else None
                if wait is not None and wait <= 0:
                    del self._due[name]
                    return name
                self._changed.wait(wait)
        return None

    def _store(self, link: Link) -> MemoryStore:
        return MemoryStore(self._services, link, self._settings)


def is_due(name: str, state: ConversationState, every: int) -> bool:
    """Whether a conversation is to be reflected on.

    It has had so many turns since, or its task is over, or a reflection was interrupted.
    """
    is_over = name != MAIN and state.turn is None and not state.paused
    return bool(state.reflection) or len(state.notes) >= every or (is_over and bool(state.notes))
