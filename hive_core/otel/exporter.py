"""The loop of hive-otel: read events, build spans, send them, and only then keep the place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hive_core.errors import HiveError
from hive_core.otel.builder import SpanBuilder
from hive_core.otel.events import KINDS, LogEvent
from hive_core.otel.receiver import Unsent
from hive_core.otel.spans import Span
from hive_core.otel.state import OtelState
from hive_core.services.login import LoginConnection
from hive_core.services.replies import Row, rows_of
from hive_core.services.retries import pause_after
from hive_core.services.service_files import ServiceStateFile
from hive_core.varlink import Message

log = logging.getLogger(__name__)
EVERY: Final = 2.0
PAGE: Final = 500
BATCH: Final = 512


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in their order; `more`: whether others follow at once."""

    events: Sequence[Row]
    cursor: str
    more: bool = False
    gap: object = None


class EventSource(Protocol):
    """Where events come from."""

    async def events(self, after: str | None) -> EventPage:
        """Events after a position; without one only the position."""
        ...


class SpanReceiver(Protocol):
    """Where spans go."""

    async def send(self, spans: list[Span]) -> Unsent | None: ...


class EventReader(LoginConnection):
    """The events over login.sock."""

    async def events(self, after: str | None) -> EventPage:
        if after is None:  # what was before is in no trace
            params: Message = {"last": 1, "limit": 1}
            rows = rows_of(await self.call("list_events", params), "events")
            return EventPage([], str(rows[-1]["seq"]) if rows else "0")
        params = {"after": after, "kinds": list(KINDS), "limit": PAGE}
        page = await self.call("list_events", params)
        rows, following = rows_of(page, "events"), page.get("next")
        last = str(following or (rows[-1]["seq"] if rows else after))
        return EventPage(rows, last, more=bool(following), gap=page.get("gap"))


@dataclass
class TraceExporter:
    """One step takes one page. While the receiver is away nothing is read: the log is the queue."""

    source: EventSource
    receiver: SpanReceiver
    file: ServiceStateFile[OtelState]
    now: Callable[[], float]
    texts: bool = False
    state: OtelState = field(default_factory=OtelState)
    _unsent: list[Span] = field(default_factory=list)
    _kept: str | None = None
    _gap: object = None
    _more: bool = False
    _attempts: int = 0

    def load(self) -> None:
        self.state = self.file.load()
        self._kept = self.state.cursor

    async def run(self) -> None:
        """Export until cancelled."""
        while True:
            pause = await self.step()
            await asyncio.sleep(pause)

    async def step(self) -> float:
        """Read, send, save; the seconds until the next step."""
        if not self._unsent:
            await self._read()
        if (unsent := await self._send()) is not None:
            pause = max(unsent.after, pause_after(self._attempts))
            self._attempts += 1
            log.warning("Cannot send spans, again in %.0f s: %s", pause, unsent.reason)
            return pause
        self._attempts = 0
        if self.state.cursor != self._kept and self.file.save(self.state):
            self._kept = self.state.cursor
        return 0.0 if self._more else EVERY

    async def _read(self) -> None:
        """Build the spans of the next page."""
        self._more = False
        try:
            page = await self.source.events(self.state.cursor)
        except HiveError as error:
            log.warning("Cannot ask hived: %s", error)
            return
        if page.gap and page.gap != self._gap:  # it stays until another event comes
            log.warning("Events were pruned before they were sent: %s", page.gap)
        self._gap = page.gap
        builder = SpanBuilder(self.state, self.texts)
        for row in page.events:
            builder.take(LogEvent.read(row))
        builder.flush(self.now())
        self.state.cursor, self._unsent, self._more = page.cursor, builder.spans, page.more

    async def _send(self) -> Unsent | None:
        """Send what was built. After a crash before the end it is built and sent again."""
        while self._unsent:
            if (unsent := await self.receiver.send(self._unsent[:BATCH])) is not None:
                return unsent
            del self._unsent[:BATCH]
        return None
