"""A receiver of traces whose answers have no end, or that asks to wait for years."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx2
from fixtures.otlp import otlp_receiver

from hive_core.otel.receiver import OtlpReceiver, Unsent
from hive_core.otel.spans import Span

SPAN = Span(name="chat m1", trace="1" * 32, id="2" * 16, start=1.0, end=2.0)


def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + bytes(128 * 1024))
        with suppress(OSError):
            await reader.read()  # until hive-otel has closed
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    async def send() -> Unsent | None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, httpx2.AsyncClient(trust_env=False) as client, asyncio.timeout(15):
            outcome = await OtlpReceiver(f"http://127.0.0.1:{port}", client, {}).send([SPAN])
            await ended.wait()
            return outcome

    assert asyncio.run(send()) is None


def test_a_receiver_is_tried_again_after_an_hour_at_the_latest() -> None:
    async def send(url: str) -> Unsent | None:
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await OtlpReceiver(url, client, {}).send([SPAN])

    with otlp_receiver() as otlp:
        otlp.answers = [(503, {"Retry-After": "999999999"})]
        unsent = asyncio.run(send(otlp.url))
    assert unsent is not None
    assert unsent.after == 3600.0
