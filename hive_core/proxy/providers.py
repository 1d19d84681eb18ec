"""Asks the provider of a model, of whatever kind it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.model.config.models import ProviderKind
from hive_core.proxy.config import ProxyConfig
from hive_core.proxy.failure import CallFailed, provider_fault
from hive_core.proxy.meter import estimate_tokens
from hive_core.proxy.provider import ModelTarget, ProviderBroke, ProviderCall, UpstreamAnswer
from hive_core.proxy.route import Purpose
from hive_core.proxy.scripted import ScriptedModel
from hive_core.proxy.small import small_answer, small_request
from hive_core.proxy.upstream import Upstream
from hive_core.proxy.wires.base import dump

_ANSWER_MOST: Final = 1 << 20
_OK: Final = 200
JSON: Final = (b"content-type", b"application/json")
STREAM: Final = (b"content-type", b"text/event-stream")


@dataclass(frozen=True, slots=True)
class Providers:
    upstream: Upstream
    small_socket: Path

    async def open(
        self, config: ProxyConfig, target: ModelTarget, call: ProviderCall
    ) -> UpstreamAnswer:
        """CallFailed, ProviderUnreachable: no answer began."""
        config.check_key(target)
        if target.provider.kind is ProviderKind.SCRIPTED:
            return await self._open_scripted(config, target, call)
        if target.provider.kind is ProviderKind.HTTP:
            return await self.upstream.open(target, call)
        if call.route.purpose is Purpose.COUNT:
            raise CallFailed(400, "the embedded model does not count tokens")
        if target.provider.path is None:
            return await self._open_small(target, call)
        data = call.data_for(target.model)
        return await self._post_small(data)

    async def _open_scripted(
        self, config: ProxyConfig, target: ModelTarget, call: ProviderCall
    ) -> UpstreamAnswer:
        if call.route.purpose is Purpose.COUNT:
            count = dump({"input_tokens": estimate_tokens(len(call.body.data))})
            return UpstreamAnswer(200, [JSON], _pieces([count]))
        rules = config.rules[target.model.provider]
        model = ScriptedModel(rules, call.route.wire, target.model.name)
        return await model.open(call.body, include_usage=_wants_usage(call))

    async def _open_small(self, target: ModelTarget, call: ProviderCall) -> UpstreamAnswer:
        wire, body = call.route.wire, call.body
        conversation = wire.conversation(body)
        request = small_request(conversation, target.model.context, wire.most_out(body))
        answer = await self._post_small(request)
        try:
            data = await _read(answer)
        finally:
            await answer.close()
        if answer.status != _OK:
            return UpstreamAnswer(answer.status, answer.headers, _pieces([data]))
        said, name = small_answer(data, conversation), target.model.name
        if body.is_stream:
            events = list(wire.answer_events(said, name, include_usage=_wants_usage(call)))
            return UpstreamAnswer(200, [STREAM], _pieces(events))
        return UpstreamAnswer(200, [JSON], _pieces([dump(wire.answer_body(said, name))]))

    async def _post_small(self, data: bytes) -> UpstreamAnswer:
        base = f"unix:{self.small_socket}"
        return await self.upstream.post(base, "/chat/completions", [JSON], data)


def _wants_usage(call: ProviderCall) -> bool:
    return call.include_usage or call.body.includes_usage


async def _read(answer: UpstreamAnswer) -> bytes:
    data = b""
    try:
        async for chunk in answer.chunks:
            data += chunk
            if len(data) > _ANSWER_MOST:
                raise provider_fault("hive-small answered with too much")
    except ProviderBroke as error:
        raise provider_fault("hive-small stopped in the middle of its answer") from error
    return data


async def _pieces(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)
