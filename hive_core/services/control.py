"""The calls of a service to hived, over one Varlink connection that is made again when it breaks.

What hived has to know is not lost while it is away: reports are repeated until it has answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from hive_core import varlink
from hive_core.errors import HIVE, BadFrame, Busy, Internal, StorageFull, Unreachable, from_wire
from hive_core.services.journal import ReportJournal
from hive_core.varlink import FrameReader, Message

log = logging.getLogger(__name__)
_ANSWER: Final = 10.0  # seconds for an answer of hived
_READ: Final = 1 << 16
_REPORTS_MOST: Final = 10_000
_FIRST_WAIT: Final = 0.05
_LAST_WAIT: Final = 2.0


@dataclass(slots=True)
class ControlConnection:
    """Calls of one connection are answered in their order."""

    writer: asyncio.StreamWriter
    waiting: deque[asyncio.Future[Message]] = field(default_factory=deque)

    def call(self, method: str, parameters: Message) -> asyncio.Future[Message]:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        self.writer.write(varlink.encode({"method": HIVE + method, "parameters": parameters}))
        return future

    def take(self, frame: bytes) -> None:
        reply = varlink.decode(frame)
        if not self.waiting:
            raise BadFrame("an answer to no call")
        future = self.waiting.popleft()
        parameters = reply.get("parameters")
        values = parameters if isinstance(parameters, dict) else {}
        error = reply.get("error")
        if future.done():
            return
        if error is None:
            future.set_result(values)
        else:
            future.set_exception(from_wire(str(error), values))

    def fail_all(self) -> None:
        self.writer.close()
        for future in self.waiting:
            if not future.done():
                future.set_exception(Unreachable("hived closed the connection"))
                future.exception()  # its caller may have gone
        self.waiting.clear()


@dataclass(slots=True)
class DaemonLink:
    """`run` keeps the connection; the other methods may be called at any time.

    `connected` is called for each new connection, `late` with an answer that its caller no longer
    waits for.
    """

    path: Path
    patience: float = 3.0  # seconds that a new call waits for hived
    connected: Callable[[], None] = lambda: None
    late: Callable[[Message], None] = lambda answer: None  # noqa: ARG005 - nothing to undo
    connection: ControlConnection | None = None
    _is_connected: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self.path))
            except OSError as error:
                log.debug("Cannot reach hived at %s: %s", self.path, error)
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LAST_WAIT)
                continue
            wait = _FIRST_WAIT
            await self._serve(reader, ControlConnection(writer))

    async def _serve(self, reader: asyncio.StreamReader, connection: ControlConnection) -> None:
        self.connection = connection
        self._is_connected.set()
        frames = FrameReader()
        self.connected()
        try:
            while data := await reader.read(_READ):
                for frame in frames.feed(data):
                    connection.take(frame)
        except (OSError, BadFrame) as error:
            log.warning("Lost the connection to hived: %s", error)
        finally:
            self._is_connected.clear()
            self.connection = None
            connection.fail_all()

    async def call(self, method: str, parameters: Message) -> Message:
        """The answer of hived. HiveError; Unreachable where there is none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                await self._is_connected.wait()
        if self.connection is None:
            raise Unreachable("hived does not answer")
        future = self.connection.call(method, parameters)
        try:
            async with asyncio.timeout(_ANSWER):
                return await asyncio.shield(future)
        except TimeoutError:
            future.add_done_callback(self._take_late)
            raise Unreachable("hived does not answer in time") from None
        except asyncio.CancelledError:
            future.add_done_callback(self._take_late)
            raise

    def _take_late(self, future: asyncio.Future[Message]) -> None:
        if not future.cancelled() and future.exception() is None:
            self.late(future.result())


@dataclass(slots=True)
class DaemonReports:
    """Calls of one method, by key, each repeated until hived has answered it.

    The journal keeps them for the next process.
    """

    link: DaemonLink
    method: str
    journal: ReportJournal = field(default_factory=ReportJournal)
    _reports: dict[str, Message] = field(default_factory=dict)
    _refused: list[str] = field(default_factory=list)
    _drained: asyncio.Event = field(default_factory=asyncio.Event)

    def __len__(self) -> int:
        """How many reports hived has not answered yet."""
        return len(self._reports)

    def start(self) -> None:
        """Take over what an earlier process could not send."""
        self._reports = {**self.journal.start(), **self._reports}

    def add(self, key: str, parameters: Message) -> None:
        """Tell hived now, or when it is there again."""
        self.journal.keep(key, parameters)
        if len(self._reports) >= _REPORTS_MOST:
            oldest = next(iter(self._reports))
            log.error("Cannot keep the report %s %s: too many wait", self.method, oldest)
            del self._reports[oldest]
            self.journal.drop(oldest)
        self._reports[key] = parameters
        self._send(key)

    def send_all(self) -> None:
        """Send all open reports again, on a new connection."""
        self._refused.clear()
        for key in list(self._reports):
            self._send(key)

    def send_refused(self) -> None:
        """Repeat the reports that hived refused for now."""
        refused, self._refused = self._refused, []
        for key in refused:
            self._send(key)

    async def drain(self, seconds: float) -> None:
        """Wait until hived has answered every report, at the end of the program."""
        self._drained.clear()
        if self._reports:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._drained.wait()

    def _send(self, key: str) -> None:
        if self.link.connection is not None and key in self._reports:
            future = self.link.connection.call(self.method, self._reports[key])
            future.add_done_callback(partial(self._take_reply, key))

    def _take_reply(self, key: str, future: asyncio.Future[Message]) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Unreachable):
            return  # sent again on the next connection
        if isinstance(error, (Busy, StorageFull, Internal)):
            self._refused.append(key)
            return
        if error is not None:
            log.error("hived refused the report %s %s: %s", self.method, key, error)
        self._reports.pop(key, None)
        self.journal.drop(key)
        if not self._reports:
            self._drained.set()
