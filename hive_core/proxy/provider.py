"""What a provider is asked, and what it answers: values that all kinds of providers share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from hive_core.model.config.models import ModelEntry, ModelProvider
from hive_core.proxy.body import AnswerBound, RequestBody
from hive_core.proxy.route import Headers, ModelRoute, Purpose


class ProviderBroke(Exception):
    """The provider stopped in the middle of its answer."""


class ProviderUnreachable(Exception):
    """No answer began: the provider could not be connected to, or closed the connection."""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """One model that can answer a call: the one asked for, or one of its fallbacks."""

    alias: str
    model: ModelEntry
    provider: ModelProvider
    key: str


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A call as all targets get it."""

    route: ModelRoute
    body: RequestBody
    headers: Headers
    include_usage: bool  # whether a chat stream is made to report its usage
    most_out: int | None = None  # tokens of each answer by the limits of one call; None: no limit

    def data_for(self, model: ModelEntry) -> bytes:
        """The body for this model."""
        stated = model.stated_max_output
        bounds = [tokens for tokens in (self.most_out, stated) if tokens is not None]
        if not bounds or self.route.purpose is not Purpose.CALL:
            return self.body.with_model(model.name, include_usage=self.include_usage)
        keys = self.route.wire.output_keys
        bound = AnswerBound(min(bounds), keys, adds=self.most_out is not None)
        return self.body.with_model(model.name, include_usage=self.include_usage, bound=bound)


@dataclass(slots=True)
class UpstreamAnswer:
    """`chunks` ends, or raises ProviderBroke; close it in any case."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]
    stop: Callable[[], Awaitable[None]] | None = None

    async def close(self) -> None:
        if isinstance(self.chunks, AsyncGenerator):
            await self.chunks.aclose()
        if self.stop is not None:  # a generator that never began runs nothing at its end
            await self.stop()

    def header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key.lower() == name), b"")
