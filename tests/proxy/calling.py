"""One model on one provider, and requests of each wire for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fixtures.models import KEY, ModelHost, model_host
from fixtures.providers import FakeProvider, ProviderReply, fake_provider

MODELS = """
[providers.p]
wire = "{wire}"
base_url = "{url}"
key = "p"
[models.m]
provider = "p"
name = "provider/name"
price_in = 1.0
price_out = 2.0
price_cache_read = 0.5
"""
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
TURNS = {"chat": "messages", "responses": "input", "messages": "messages"}
WIRES = list(PATHS)
USAGE: dict[str, dict[str, Any]] = {
    "chat": {"prompt_tokens": 100, "completion_tokens": 7,
             "prompt_tokens_details": {"cached_tokens": 40}},
    "responses": {"input_tokens": 100, "output_tokens": 7,
                  "input_tokens_details": {"cached_tokens": 40}},
    "messages": {"input_tokens": 60, "output_tokens": 7, "cache_read_input_tokens": 40},
}  # fmt: skip


@asynccontextmanager
async def calling(
    wire: str, *replies: ProviderReply, more: str = ""
) -> AsyncIterator[tuple[ModelHost, FakeProvider]]:
    """hive-model with the alias `m` on a provider that gives these replies."""
    async with fake_provider(*replies) as provider:
        models = MODELS.replace("{wire}", wire).replace("{url}", provider.base_url)
        text = models + more.replace("{url}", provider.base_url)
        async with model_host(text, keys={"p": KEY + "\n"}) as host:
            yield host, provider


def body(wire: str, **more: object) -> dict[str, object]:
    message = {"role": "user", "content": "Hi"}
    return {"model": "m", TURNS[wire]: [message], **more}


def sse(data: object, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def request_bytes(wire: str, value: object, connection: str = "") -> bytes:
    data = json.dumps(value).encode()
    more = f"connection: {connection}\r\n" if connection else ""
    head = f"POST {PATHS[wire]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n{more}\r\n"
    return head.encode() + data


def stream(
    wire: str, usage: Mapping[str, object] | None = None, texts: tuple[str, ...] = ("He", "llo")
) -> list[bytes]:
    """A whole stream with this usage, as the real providers of the wire send it."""
    usage = USAGE[wire] if usage is None else usage
    match wire:
        case "chat":
            return list(_chat_stream(usage, texts))
        case "responses":
            kind = "response.output_text.delta"
            deltas: list[dict[str, object]] = [{"type": kind, "delta": text} for text in texts]
            end: dict[str, object] = {"type": "response.completed", "response": {"usage": usage}}
            begin: dict[str, object] = {"type": "response.created"}
            events = [begin, *deltas, end]
            return [sse({**e, "sequence_number": n}, str(e["type"])) for n, e in enumerate(events)]
        case _:
            return [sse(event, str(event["type"])) for event in _messages_stream(usage, texts)]


def _chat_stream(usage: Mapping[str, object], texts: tuple[str, ...]) -> Iterator[bytes]:
    head = {"id": "c", "object": "chat.completion.chunk"}
    for text in texts:
        yield sse({**head, "choices": [{"index": 0, "delta": {"content": text}}]})
    yield sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield sse({**head, "choices": [], "usage": usage})
    yield sse("[DONE]")


def _messages_stream(
    usage: Mapping[str, object], texts: tuple[str, ...]
) -> Iterator[dict[str, object]]:
    yield {"type": "message_start", "message": {"usage": {**usage, "output_tokens": 1}}}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for text in texts:
        yield {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    end = {"output_tokens": usage.get("output_tokens")}
    yield {"type": "message_delta", "delta": {}, "usage": end}
    yield {"type": "message_stop"}
