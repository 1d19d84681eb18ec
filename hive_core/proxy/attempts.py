"""Which model answers a call: the one asked for, tried again, or one of its fallbacks.

A provider is asked again only until the first byte of an answer came: what a client has read is
never repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from hive_core.proxy.failure import CallFailed, provider_fault
from hive_core.proxy.provider import (
    ModelTarget,
    ProviderBroke,
    ProviderUnreachable,
    UpstreamAnswer,
)
from hive_core.proxy.route import Headers, client_headers

log = logging.getLogger(__name__)
Open = Callable[[ModelTarget], Awaitable[UpstreamAnswer]]
RETRIES: Final = (0.5, 2.0)  # seconds before the second and the third try
_WAIT_MOST: Final = 10.0  # longer, as the provider asks for it, is left to the client
_ERROR_MOST: Final = 64 << 10
_ERRORS: Final = 400
_SERVER_ERRORS: Final = 500
TOO_MANY: Final = 429
_KEY_REFUSED: Final = (401, 402, 403)


@dataclass(slots=True)
class ProviderError(Exception):
    """An answer with an error, as the provider sent it."""

    status: int
    headers: Headers
    data: bytes

    @override
    def __str__(self) -> str:
        """Without its words, which may quote a key."""
        return f"the provider answered {self.status}"

    @property
    def is_passing(self) -> bool:
        """Whether another try can help."""
        says_no = (b"x-should-retry", b"false") in self.headers
        return (self.status == TOO_MANY or self.status >= _SERVER_ERRORS) and not says_no

    @property
    def wait(self) -> float | None:
        """Seconds until another try, as the provider asks for it."""
        text = next((value for name, value in self.headers if name == b"retry-after"), b"")
        return float(text) if text.isdigit() and len(text) < len("1000000") else None


@dataclass(slots=True)
class BegunAnswer:
    """An answer whose first bytes are there."""

    target: ModelTarget
    answer: UpstreamAnswer
    first: bytes

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.first
        async for chunk in self.answer.chunks:
            yield chunk


@dataclass(frozen=True, slots=True)
class Attempts:
    """Finds the target that answers. `first_byte` is the time limit of each try in seconds."""

    open: Open
    first_byte: float
    retries: Sequence[float] = RETRIES

    async def begin(self, targets: Sequence[ModelTarget]) -> BegunAnswer:
        """The first answer that begins.

        CallFailed or ProviderError: that of the last target which was asked.
        """
        failure: CallFailed | ProviderError = provider_fault("no provider was asked")
        for target in targets:
            try:
                return await self.begin_at(target)
            except ProviderError as error:
                if not error.is_passing and error.status not in _KEY_REFUSED:
                    raise
                failure = _without_key(error, target)
            except CallFailed as error:
                failure = error
            log.warning("model %s failed: %s", target.alias, failure)
        raise failure

    async def begin_at(self, target: ModelTarget) -> BegunAnswer:
        """The answer of this target. CallFailed, or ProviderError with what the provider said."""
        for wait in (*self.retries, None):
            try:
                async with asyncio.timeout(self.first_byte):
                    return await self._begin_once(target)
            except TimeoutError:
                message = f"the provider did not answer in {self.first_byte:.0f} s"
                raise provider_fault(message, 504) from None
            except ProviderUnreachable as error:
                log.info("Cannot reach the provider of %s: %s", target.alias, error)
                if wait is None:
                    raise provider_fault("cannot reach the provider") from error
                await asyncio.sleep(wait)
            except ProviderError as error:
                own = error.wait
                if wait is None or not error.is_passing or (own or 0.0) > _WAIT_MOST:
                    raise
                await asyncio.sleep(wait if own is None else own)
        raise AssertionError("the last try returns or raises")

    async def _begin_once(self, target: ModelTarget) -> BegunAnswer:
        answer = await self.open(target)
        try:
            first = await _first_chunk(answer)
        except BaseException as error:
            await answer.close()
            if isinstance(error, ProviderBroke):
                raise ProviderUnreachable(str(error)) from error
            raise
        return BegunAnswer(target, answer, first)


async def _first_chunk(answer: UpstreamAnswer) -> bytes:
    if answer.status >= _ERRORS:
        headers = client_headers(answer.headers)
        raise ProviderError(answer.status, headers, await _read(answer.chunks))
    return await anext(answer.chunks, b"")


async def _read(chunks: AsyncIterator[bytes]) -> bytes:
    """The beginning of an answer with an error."""
    data = b""
    try:
        async for chunk in chunks:
            data += chunk
            if len(data) >= _ERROR_MOST:
                break
    except ProviderBroke:
        pass
    return data[:_ERROR_MOST]


def _without_key(error: ProviderError, target: ModelTarget) -> CallFailed | ProviderError:
    """A refused key is a fault of the host; what a provider says of it stays here."""
    if error.status not in _KEY_REFUSED:
        return error
    return provider_fault(
        f"provider {target.model.provider} refused the key of this host with {error.status};"
        " its operator has to look at it"
    )
