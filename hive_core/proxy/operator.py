"""The operator's socket: a real call to one model, to see that its key and settings work."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from hive_core.model.config.models import ModelLimits, Wire
from hive_core.proxy.app import ModelApp
from hive_core.proxy.attempts import Attempts, BegunAnswer, ProviderError
from hive_core.proxy.body import parse_body
from hive_core.proxy.client import ClientGone, ClientSide, Receive, Send
from hive_core.proxy.config import ProxyConfig
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.meter import AnswerMeter, parse_object
from hive_core.proxy.provider import (
    ModelTarget,
    ProviderBroke,
    ProviderCall,
    ProviderUnreachable,
    UpstreamAnswer,
)
from hive_core.proxy.route import WIRES, ModelRoute, Purpose
from hive_core.proxy.wires.base import dump

_BODY_MOST: Final = 4096
_SHOWN_MOST: Final = 500
_UNAUTHORIZED: Final = 401
_QUESTION: Final = "Reply with the one word OK."
_HEADERS: Final = [
    (b"content-type", b"application/json"), (b"accept", b"application/json"),
    (b"anthropic-version", b"2023-06-01"),
]  # fmt: skip
_BODIES: Final[Mapping[Wire, Mapping[str, Any]]] = {
    Wire.CHAT: {"messages": [{"role": "user", "content": _QUESTION}]},
    Wire.RESPONSES: {"input": _QUESTION},
    Wire.MESSAGES: {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": 64},
}


@dataclass(slots=True)
class OperatorApp:
    """`POST /test` with `{"alias": ALIAS}`. It costs what the call costs, and charges no budget."""

    app: ModelApp

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        client = ClientSide(scope["headers"], receive, send)
        try:
            await self._serve((scope["method"], scope["raw_path"]), client)
        except ClientGone:
            pass
        except CallFailed as failure:
            await client.fail(failure, WIRES[Wire.CHAT])

    async def _serve(self, request: tuple[str, bytes], client: ClientSide) -> None:
        if request != ("POST", b"/test"):
            raise CallFailed(404, "there is only POST /test here")
        asked = parse_object(await client.read_body(_BODY_MOST, lambda _: None))
        await client.reply_json(await self._test(str(asked.get("alias", ""))))

    async def _test(self, alias: str) -> dict[str, Any]:
        config = self.app.config
        if alias not in config.models.models:
            raise CallFailed(404, f"no model {alias[:64]!r}; `hive model list` lists all")
        target = config.targets(alias)[0]
        result = {
            "alias": alias, "provider": target.model.provider, "name": target.model.name,
            "wire": str(target.provider.wire), "price_known": config.prices.is_known(alias),
        }  # fmt: skip
        try:
            return result | await self._call(config, target)
        except CallFailed as failure:
            return result | {"error": _reason(config, failure), "status": failure.status}
        except ProviderError as error:
            said = _what_it_said(config, target, error)
            reason = f"provider {target.model.provider} answered {error.status}{said}"
            return result | {"error": reason, "status": error.status}

    async def _call(self, config: ProxyConfig, target: ModelTarget) -> dict[str, Any]:
        wire = WIRES[target.provider.wire]
        body = parse_body(dump({"model": target.alias, **_BODIES[wire.wire]}), wire.turns_key)
        call = ProviderCall(ModelRoute(Purpose.CALL, wire), body, _HEADERS, include_usage=False)

        async def ask(target: ModelTarget) -> UpstreamAnswer:
            return await self.app.services.providers.open(config, target, call)

        began = monotonic()
        begun = await Attempts(ask, config.models.limits.first_byte, ()).begin_at(target)
        first = monotonic()
        answer = await _read(begun, config.models.limits)
        meter = wire.meter(len(body.data))
        meter.read_answer(answer)
        text = wire.answer_text(answer)
        return {
            "text": config.mask(text.encode(errors="replace")).decode()[:_SHOWN_MOST],
            **_usage(config, target, meter),
            "ttft_ms": round(1000 * (first - began)),
            "latency_ms": round(1000 * (monotonic() - began)),
        }  # fmt: skip


def _reason(config: ProxyConfig, failure: CallFailed) -> str:
    """The message, and why the provider cannot be reached, which agents are not told."""
    cause = failure.__cause__
    why = f": {cause}" if isinstance(cause, ProviderUnreachable) else ""
    return config.mask(f"{failure.message}{why}".encode()).decode()[:_SHOWN_MOST]


def _what_it_said(config: ProxyConfig, target: ModelTarget, error: ProviderError) -> str:
    """The words of the provider; of a refused key nothing, because they may quote a part of it."""
    if error.status == _UNAUTHORIZED and target.provider.key:
        key = target.provider.key
        return f": it refuses the key {key}; `hive model key set {key}` stores another"
    said = config.mask(error.data).decode(errors="replace")[:_SHOWN_MOST]
    return f": {said}" if said else ""


def _usage(config: ProxyConfig, target: ModelTarget, meter: AnswerMeter) -> dict[str, Any]:
    usage = meter.usage()
    return {
        "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out,
        "estimated": usage.estimated, "cost": config.prices.cost(target.alias, usage),
    }  # fmt: skip


async def _read(begun: BegunAnswer, limits: ModelLimits) -> Mapping[str, Any]:
    data = b""
    try:
        async with asyncio.timeout(limits.silence):
            async for chunk in begun.chunks():
                data += chunk
                if len(data) > limits.body:
                    raise CallFailed(502, "the answer is too large")
    except TimeoutError:
        raise CallFailed(504, f"the provider did not answer in {limits.silence:.0f} s") from None
    except ProviderBroke as error:
        raise CallFailed(502, "the provider stopped in the middle of its answer") from error
    finally:
        await begun.answer.close()
    if not (answer := parse_object(data)):
        raise CallFailed(502, "the provider did not answer with a JSON object")
    return answer
