"""How many calls run at once, and how many one agent may make in a minute."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from hive_core.model.config.models import ModelLimits
from hive_core.proxy.failure import rate_limited, unavailable

MINUTE: Final = 60.0
RefusedKey = tuple[str, ...]  # agent, alias and task
_REQUESTS_A_SECOND: Final = 20
_BURST: Final = 40  # requests that do not wait
_REMEMBERED: Final = 2.0  # seconds: whoever gives more in the meantime is not in vain
_BODIES: Final = 4  # requests and answers of the largest size that are in memory at once


@dataclass(slots=True)
class CallLimits:
    """Counts the calls of each agent, with those of its sub-agents."""

    now: Callable[[], float] = time.monotonic
    _running: Counter[str] = field(default_factory=Counter)
    _begun: dict[str, deque[float]] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)
    _refused: dict[RefusedKey, tuple[str, float, float]] = field(default_factory=dict)
    _dropped: dict[str, tuple[float, int]] = field(default_factory=dict)
    _bytes: int = 0

    @contextmanager
    def admit(self, agent: str, limits: ModelLimits) -> Iterator[None]:
        """Count a call while it runs. CallFailed (429) where there are too many."""
        if self._running[agent] >= limits.concurrent:
            raise rate_limited(
                f"limit of running model calls of this agent ({limits.concurrent}) reached", 1.0
            )
        if self._running.total() >= limits.concurrent_all:
            raise rate_limited(
                f"host limit of running model calls ({limits.concurrent_all}) reached", 1.0
            )
        self._check_rate(agent, limits.calls_a_minute)
        self._running[agent] += 1
        try:
            yield
        finally:
            self._running[agent] -= 1
            if not self._running[agent]:
                del self._running[agent]

    def _check_rate(self, agent: str, most: int) -> None:
        now, begun = self.now(), self._begun.setdefault(agent, deque())
        while begun and begun[0] <= now - MINUTE:
            begun.popleft()
        if len(begun) >= most:
            wait = begun[len(begun) - most] + MINUTE - now
            raise rate_limited(f"limit of model calls a minute ({most}) reached", wait)
        begun.append(now)

    def refuse(self, key: RefusedKey, reason: str, seconds: float) -> None:
        """Remember a refusal of hived for a moment, so that a client in a loop costs it nothing."""
        now = self.now()
        self._refused[key] = (reason, now + seconds, now + min(seconds, _REMEMBERED))

    def check_refused(self, key: RefusedKey) -> None:
        """CallFailed (429) while a refusal of hived is remembered."""
        reason, ends, forgotten = self._refused.get(key, ("", 0.0, 0.0))
        if (now := self.now()) < forgotten:
            raise rate_limited(reason, ends - now)

    def pace(self, agent: str, limits: ModelLimits) -> float:
        """Seconds that the next request of this agent waits, whatever it asks for.

        A refused request does not count as a call, but costs hive-model work.
        """
        now = self.now()
        gap = 1.0 / max(_REQUESTS_A_SECOND, limits.calls_a_minute / MINUTE * 2)
        due = max(self._due.get(agent, 0.0), now - _BURST * gap)
        self._due[agent] = due + gap
        return max(0.0, due - now)

    def may_drop(self, agent: str, limits: ModelLimits, size: int) -> bool:
        """Count bytes of a refused body that were read for nothing.

        False when the agent has had in this minute what `_BODIES` of the largest size have.
        """
        now = self.now()
        since, dropped = self._dropped.get(agent, (now, 0))
        if since <= now - MINUTE:
            since, dropped = now, 0
        self._dropped[agent] = (since, dropped + size)
        return dropped + size <= _BODIES * limits.body

    def sweep(self) -> None:
        """Forget agents that made no call in the last minute."""
        now = self.now()
        before = now - MINUTE
        for agent in [agent for agent, begun in self._begun.items() if begun[-1] <= before]:
            del self._begun[agent]
        for agent in [agent for agent, due in self._due.items() if due <= before]:
            del self._due[agent]
        for agent in [agent for agent, (at, _) in self._dropped.items() if at <= before]:
            del self._dropped[agent]
        for key in [key for key, (*_, forgotten) in self._refused.items() if forgotten <= now]:
            del self._refused[key]

    @contextmanager
    def hold_bytes(self, limits: ModelLimits) -> Iterator[Callable[[int], None]]:
        """Count the bytes of a body while it is in memory. CallFailed (503) above the limit."""
        held = 0

        def add(size: int) -> None:
            nonlocal held
            if self._bytes + size > _BODIES * limits.body:
                raise unavailable("memory limit for request bodies reached; try again")
            held += size
            self._bytes += size

        try:
            yield add
        finally:
            self._bytes -= held
