"""Reserve, note and settle calls at hived.

What a call used is not lost while hived is away: settlements are repeated under their reservation
until hived has answered, by the next process too. What a provider has counted is in the journal
before the end of its answer is passed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from hive_core.errors import (
    HiveError,
    InvalidArgument,
    InvalidParameter,
    LimitReached,
    NotAllowed,
    NotFound,
    Unreachable,
)
from hive_core.proxy.failure import CallFailed, bad_request, rate_limited, unavailable
from hive_core.services.control import DaemonLink, DaemonReports
from hive_core.services.journal import ReportJournal
from hive_core.varlink import Message

log = logging.getLogger(__name__)
NOTE_EVERY: Final = 5.0
_UNPRICED_MOST: Final = 1000


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


class Accounts:
    """`run` keeps the connection to hived; the other methods may be called at any time."""

    def __init__(
        self, path: Path, note_every: float = NOTE_EVERY, patience: float = 3.0,
        journal: Path | None = None,
    ) -> None:  # fmt: skip
        self.note_every = note_every
        self._link = DaemonLink(path, patience, self._send_all, self._return_late)
        self._journal = ReportJournal(journal)
        self._settlements = DaemonReports(self._link, "SettleModel", self._journal)
        self._open: dict[str, Callable[[], int]] = {}
        self._unpriced: list[str] | None = None  # None: not looked up yet

    @property
    def is_connected(self) -> bool:
        return self._link.connection is not None

    @property
    def waiting_settlements(self) -> int:
        """How many settlements hived has not answered yet."""
        return len(self._settlements)

    async def run(self) -> None:
        self._settlements.start()
        await self._link.run()

    def _send_all(self) -> None:
        self._settlements.send_all()
        self._send_unpriced()

    def note_unpriced(self, aliases: list[str]) -> None:
        """Tell hived which models have no known price, now and whenever it is there again."""
        self._unpriced = aliases[:_UNPRICED_MOST]
        self._send_unpriced()

    def _send_unpriced(self) -> None:
        if self._unpriced is not None and (connection := self._link.connection) is not None:
            connection.call("NotePrices", {"unknown": self._unpriced}).add_done_callback(_ignore)

    async def send_notes(self) -> None:
        """Note every open call from time to time, so that hived knows that it still runs."""
        while True:
            await asyncio.sleep(self.note_every)
            if (connection := self._link.connection) is None:
                continue
            self._settlements.send_refused()
            for reservation, tokens_out in list(self._open.items()):
                parameters = {"reservation": reservation, "tokens_out": tokens_out()}
                connection.call("NoteModel", parameters).add_done_callback(_ignore)

    async def call(self, method: str, parameters: Message) -> Message:
        """The answer of hived. HiveError; Unreachable where there is none."""
        return await self._link.call(method, parameters)

    def _return_late(self, answer: Message) -> None:
        """Settle a reservation that arrives after its call has ended."""
        if isinstance(reservation := answer.get("reservation"), str):
            self.settle(Settlement(reservation, "gone", str(answer.get("alias", ""))))

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

    def note_use(self, settlement: Settlement) -> None:
        """Keep what a provider has counted, should this process end before it settles the call."""
        self._journal.keep(settlement.reservation, settlement.parameters)

    def settle(self, settlement: Settlement) -> None:
        """Settle a call at hived, or later if hived is away."""
        self._open.pop(settlement.reservation, None)
        self._settlements.add(settlement.reservation, settlement.parameters)

    async def drain(self, seconds: float) -> None:
        """Wait until hived has all settlements, at the end of the program."""
        await self._settlements.drain(seconds)


def _ignore(future: asyncio.Future[Message]) -> None:
    """A note may fail: the settlement says what was used, and prices are told again."""
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
