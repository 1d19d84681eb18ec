"""Reserve, note and settle calls at hived, over one Varlink connection that is made again.

What a call used is not lost while hived is away: settlements are repeated under their reservation
until hived has answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Final

from hive_core import varlink
from hive_core.errors import (
    HIVE,
    BadFrame,
    Busy,
    HiveError,
    Internal,
    InvalidArgument,
    InvalidParameter,
    LimitReached,
    NotAllowed,
    NotFound,
    StorageFull,
    Unreachable,
    from_wire,
)
from hive_core.proxy.failure import CallFailed, bad_request, rate_limited, unavailable
from hive_core.varlink import FrameReader, Message

log = logging.getLogger(__name__)
NOTE_EVERY: Final = 5.0
_ANSWER: Final = 10.0  # seconds for an answer of hived
_READ: Final = 1 << 16
_SETTLEMENTS_MOST: Final = 10_000
_FIRST_WAIT: Final = 0.05
_LAST_WAIT: Final = 2.0


@dataclass(frozen=True, slots=True)
class Reservation:
    id: str
    alias: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of one call, as hived records it."""

    reservation: str
    status: str
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    ttft_ms: int = 0
    latency_ms: int = 0
    prefix: str = ""
    estimated: bool = False

    @property
    def parameters(self) -> Message:
        return {part.name: getattr(self, part.name) for part in fields(self)}


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
class Accounts:
    """`run` keeps the connection; the other methods may be called at any time."""

    path: Path
    note_every: float = NOTE_EVERY
    patience: float = 3.0  # seconds that a new call waits for hived
    _connection: ControlConnection | None = None
    _connected: asyncio.Event = field(default_factory=asyncio.Event)
    _open: dict[str, Callable[[], int]] = field(default_factory=dict)
    _settlements: dict[str, Settlement] = field(default_factory=dict)
    _unsettled: list[Settlement] = field(default_factory=list)
    _drained: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def waiting_settlements(self) -> int:
        """How many settlements hived has not answered yet."""
        return len(self._settlements)

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
        self._connection = connection
        self._connected.set()
        frames = FrameReader()
        self._unsettled.clear()
        for settlement in list(self._settlements.values()):
            self._send(settlement)
        try:
            while data := await reader.read(_READ):
                for frame in frames.feed(data):
                    connection.take(frame)
        except (OSError, BadFrame) as error:
            log.warning("Lost the connection to hived: %s", error)
        finally:
            self._connected.clear()
            self._connection = None
            connection.fail_all()

    async def send_notes(self) -> None:
        """Note every open call from time to time, so that hived knows that it still runs."""
        while True:
            await asyncio.sleep(self.note_every)
            if self._connection is None:
                continue
            unsettled, self._unsettled = self._unsettled, []
            for settlement in unsettled:
                self._send(settlement)
            for reservation, tokens_out in list(self._open.items()):
                parameters = {"reservation": reservation, "tokens_out": tokens_out()}
                self._connection.call("NoteModel", parameters).add_done_callback(_ignore)

    async def call(self, method: str, parameters: Message) -> Message:
        """The answer of hived. HiveError; Unreachable or TimedOut where there is none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                await self._connected.wait()
        if self._connection is None:
            raise Unreachable("hived does not answer")
        future = self._connection.call(method, parameters)
        try:
            async with asyncio.timeout(_ANSWER):
                return await asyncio.shield(future)
        except TimeoutError:
            self._return_late(future)
            raise Unreachable("hived does not answer in time") from None
        except asyncio.CancelledError:
            self._return_late(future)
            raise

    def _return_late(self, future: asyncio.Future[Message]) -> None:
        """Settle a reservation that arrives after its call has ended."""

        def settle(done: asyncio.Future[Message]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            if isinstance(reservation := done.result().get("reservation"), str):
                self.settle(Settlement(reservation, "gone", str(done.result().get("alias", ""))))

        future.add_done_callback(settle)

    async def reserve(self, parameters: Message) -> Reservation:
        """CallFailed says why hived does not allow the call."""
        try:
            answer = await self.call("ReserveModel", parameters)
        except HiveError as error:
            raise refusal(error) from error
        reservation, alias = answer.get("reservation"), answer.get("alias")
        if not isinstance(reservation, str) or not isinstance(alias, str):
            raise unavailable("hived answered without a reservation")
        return Reservation(reservation, alias)

    def track(self, reservation: str, tokens_out: Callable[[], int]) -> None:
        """Note this call from time to time until it is settled."""
        self._open[reservation] = tokens_out

    def settle(self, settlement: Settlement) -> None:
        """Tell hived what a call used, now or when it is there again."""
        self._open.pop(settlement.reservation, None)
        if len(self._settlements) >= _SETTLEMENTS_MOST:
            oldest = next(iter(self._settlements))
            log.error("Cannot keep the settlement of %s: too many wait for hived", oldest)
            del self._settlements[oldest]
        self._settlements[settlement.reservation] = settlement
        if self._connection is not None:
            self._send(settlement)

    async def drain(self, seconds: float) -> None:
        """Wait until hived has all settlements, at the end of the program."""
        self._drained.clear()
        if self._settlements:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._drained.wait()

    def _send(self, settlement: Settlement) -> None:
        assert self._connection is not None  # noqa: S101 - checked by all callers
        self._connection.call("SettleModel", settlement.parameters).add_done_callback(
            partial(self._take_reply, settlement)
        )

    def _take_reply(self, settlement: Settlement, future: asyncio.Future[Message]) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Unreachable):
            return  # sent again on the next connection
        if isinstance(error, (Busy, StorageFull, Internal)):
            self._unsettled.append(settlement)
            return
        if error is not None:
            log.error("hived refused the settlement of %s: %s", settlement.reservation, error)
        self._settlements.pop(settlement.reservation, None)
        if not self._settlements:
            self._drained.set()


def _ignore(future: asyncio.Future[Message]) -> None:
    """A note may fail: the settlement says what was used."""
    if not future.cancelled():
        future.exception()


def refusal(error: HiveError) -> CallFailed:
    """The HTTP error for a refusal of hived."""
    match error:
        case LimitReached():
            failure = _limit(error)
        case NotAllowed():
            failure = CallFailed(403, error.reason, retry=False)
        case InvalidArgument() | InvalidParameter():
            failure = bad_request(str(error))
        case NotFound():
            failure = CallFailed(404, error.reason, code="model_not_found", retry=False)
        case _:
            if not isinstance(error, Unreachable):
                log.error("hived refused a reservation: %s: %s", type(error).__name__, error)
            failure = unavailable(f"cannot reserve the call: {error.reason}")
    return failure


def _limit(error: LimitReached) -> CallFailed:
    if error.fields.get("rule") == "budget":
        return CallFailed(402, error.reason, retry=False)
    after = error.fields.get("retry_after")
    is_number = isinstance(after, int | float) and not isinstance(after, bool)
    return rate_limited(error.reason, float(str(after)) if is_number else 60.0)
