"""Reads that pages share: equal ones at the same time are one call, and its reply is kept for 1 s.

All logins may read the same, so a reply does not depend on whose call brought it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import HiveError
from hive_core.varlink import Message
from hive_core.web.logins import BrowserLogin

KEPT_SECONDS: Final = 1.0
_MOST: Final = 256


@dataclass(frozen=True, slots=True)
class RunningRead:
    """A call on its way, and the login on whose connection it is."""

    login: BrowserLogin
    reply: asyncio.Task[Message]


@dataclass(slots=True)
class SharedReads:
    """`clock` returns monotonic seconds."""

    clock: Callable[[], float]
    _generation: int = 0
    _running: dict[str, RunningRead] = field(default_factory=dict)
    _kept: dict[str, tuple[float, Message]] = field(default_factory=dict)

    async def read(self, login: BrowserLogin, operation: str, /, **parameters: object) -> Message:
        """The reply of hived; HiveError where it refuses."""
        values: Message = {key: value for key, value in parameters.items() if value is not None}
        key = f"{self._generation} {operation} {json.dumps(values, sort_keys=True)}"
        at, reply = self._kept.get(key, (0.0, {}))
        if key in self._kept and self.clock() - at < KEPT_SECONDS:
            return reply
        while (running := self._running.get(key)) is not None:
            try:
                return await asyncio.shield(running.reply)
            except HiveError:
                # A login that ended in its own call says nothing about the others that wait for it.
                if running.login is login or not running.login.connection.closed.is_set():
                    raise
        return await asyncio.shield(self._start(key, login, operation, values))

    def forget(self) -> None:
        """Forget all replies, also those on their way: a change may have outdated them."""
        self._generation += 1
        self._kept.clear()

    def _start(
        self, key: str, login: BrowserLogin, operation: str, values: Message
    ) -> asyncio.Task[Message]:
        reply = asyncio.create_task(self._call(key, login, operation, values))
        self._running[key] = RunningRead(login, reply)
        return reply

    async def _call(
        self, key: str, login: BrowserLogin, operation: str, values: Message
    ) -> Message:
        try:
            reply = await login.connection.call(operation, values)
        finally:
            # At once, and not in a callback of its task: who asks before that would be answered
            # with the same fault again and again, and the event loop would never go on.
            del self._running[key]
        self._keep(key, reply)
        return reply

    def _keep(self, key: str, reply: Message) -> None:
        """Keep a reply, and none that is older than a second: each may be a thousand events."""
        now = self.clock()
        self._kept.pop(key, None)
        for oldest, (at, _) in list(self._kept.items()):
            if len(self._kept) < _MOST and now - at < KEPT_SECONDS:
                break
            del self._kept[oldest]
        if key.startswith(f"{self._generation} "):  # nobody asks for one that was forgotten
            self._kept[key] = now, reply
