"""Passes an answer on to the client as it comes, and reads from it what the call used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from hive_core.model.config.models import ModelLimits
from hive_core.proxy.attempts import BegunAnswer
from hive_core.proxy.client import ClientGone, ClientSide
from hive_core.proxy.failure import CallFailed, provider_fault
from hive_core.proxy.meter import (
    DONE,
    EVENT_MOST,
    AnswerMeter,
    EventCutter,
    event_data,
    parse_object,
)
from hive_core.proxy.provider import ProviderBroke
from hive_core.proxy.route import client_headers
from hive_core.proxy.wires.base import WireFormat

TIMEOUT: Final = 504
_STREAM: Final = b"text/event-stream"


@dataclass(slots=True)
class Relay:
    client: ClientSide
    wire: WireFormat
    meter: AnswerMeter
    limits: ModelLimits
    drops_usage: bool  # whether the client did not ask for the event of usage
    hold: Callable[[int], None]  # counts what of an answer is in memory; CallFailed: too much is
    counted: Callable[[], None]  # called when the provider has said all that the call used
    mask: Callable[[bytes], bytes]  # takes keys out of what a provider says
    first_at: float | None = field(default=None, init=False)
    _is_sending: bool = field(default=False, init=False)
    _was_counted: bool = field(default=False, init=False)

    async def run(self, begun: BegunAnswer) -> str:
        """Pass the answer on and return its status. CallFailed: nothing was passed on yet."""
        self.first_at = monotonic()
        if begun.answer.header(b"content-type").lower().startswith(_STREAM):
            return await self._stream(begun)
        return await self._whole(begun)

    async def _whole(self, begun: BegunAnswer) -> str:
        parts: list[bytes] = []
        async with self._bounds() as count:
            async for chunk in begun.chunks():
                count(chunk)
                self.hold(len(chunk))
                parts.append(chunk)
        data = b"".join(parts)
        self.meter.read_answer(parse_object(data))
        self._note_use()
        status = begun.answer.status
        await self.client.reply(status, client_headers(begun.answer.headers), self.mask(data))
        return "done"

    async def _stream(self, begun: BegunAnswer) -> str:
        await self.client.start(begun.answer.status, client_headers(begun.answer.headers))
        cutter = EventCutter()
        failure = provider_fault("the provider stopped in the middle of its answer")
        try:
            async with self._bounds() as count:
                async for chunk in begun.chunks():
                    count(chunk)
                    await self._pass_on(cutter.feed(chunk))
        except CallFailed as error:
            failure = error
        if self.meter.is_complete or self.meter.is_failed:
            await self.client.finish(self.mask(cutter.take_rest()))
            return "done" if self.meter.is_complete else "broken"
        await self.client.finish(self.wire.error_event(failure, self.meter.sequence))
        return "timeout" if failure.status == TIMEOUT else "broken"

    @asynccontextmanager
    async def _bounds(self) -> AsyncIterator[Callable[[bytes], None]]:
        """Limits on time and size. CallFailed where the provider breaks one of them.

        The function that it returns is called with each part of the answer.
        """
        loop, size, silence = asyncio.get_running_loop(), 0, self.limits.silence

        def count(chunk: bytes) -> None:
            nonlocal size
            limit.reschedule(loop.time() + silence)
            size += len(chunk)
            if size > self.limits.body:
                raise provider_fault(f"the answer is larger than {self.limits.body} bytes")

        try:
            async with asyncio.timeout(silence) as limit:
                yield count
        except TimeoutError:
            if self._is_sending:
                raise ClientGone from None
            raise provider_fault(f"the provider was silent for {silence:.0f} s", TIMEOUT) from None
        except ProviderBroke as error:
            raise provider_fault("the provider stopped in the middle of its answer") from error

    async def _pass_on(self, events: list[bytes]) -> None:
        # Each event is whole, so a key in it is, too.
        data = self.mask(b"".join(self._events(events)))
        self._note_use()
        if data:
            self._is_sending = True
            await self.client.send(data)
            self._is_sending = False

    def _note_use(self) -> None:
        if self.meter.is_counted and not self._was_counted:
            self._was_counted = True
            self.counted()

    def _events(self, events: list[bytes]) -> Iterator[bytes]:
        """Read events, and return those that the client gets."""
        for event in events:
            if len(event) <= EVENT_MOST and self._is_dropped(event):
                continue
            yield event

    def _is_dropped(self, event: bytes) -> bool:
        data = event_data(event)
        if not data:
            return False
        if data == DONE:
            self.meter.read_done()
            return False
        self.meter.read(parse_object(data))
        return self.drops_usage and self.meter.is_usage_event
