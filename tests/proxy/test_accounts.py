"""Reservations and settlements while hived, or hive-model itself, comes and goes."""

from __future__ import annotations

import asyncio

import pytest
from fixtures.models import until
from fixtures.providers import ProviderReply, event_reply, json_reply
from proxy.calling import PATHS, USAGE, body, calling, request_bytes, stream

from hive_core.errors import Busy, HiveError, InvalidArgument, LimitReached


def test_without_hived_no_call_is_made() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, provider):
            await host.hived.stop()
            await until(lambda: not host.program.accounts.is_connected)
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.status == 503
            assert result.headers["retry-after"] == "1"
            assert (await host.ask("GET", "/v1/models")).status == 503
            assert not provider.requests

    asyncio.run(main())


def test_a_call_waits_for_a_hived_that_restarts() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({"usage": USAGE["chat"]})) as (host, _):
            await host.hived.stop()
            await until(lambda: not host.program.accounts.is_connected)
            asked = asyncio.create_task(host.post(PATHS["chat"], body("chat")))
            await host.hived.start()
            assert (await asked).status == 200

    asyncio.run(main())


def test_a_settlement_waits_for_a_hived_that_restarts() -> None:
    async def main() -> None:
        gate = asyncio.Semaphore(0)
        reply = event_reply(*stream("chat"), gate=gate.acquire)
        async with calling("chat", reply) as (host, provider):
            asked = asyncio.create_task(host.post(PATHS["chat"], body("chat", stream=True)))
            await until(lambda: len(provider.requests) == 1)
            await host.hived.stop()
            for _ in stream("chat"):
                gate.release()
            assert (await asked).status == 200
            assert not host.hived.settled
            await host.hived.start()
            settled = (await host.settlements())[0]
            assert (settled["reservation"], settled["tokens_out"]) == ("r1", 7)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "count"), [(Busy("later"), 3), (InvalidArgument("no", field="x"), 1)]
)
def test_a_settlement_is_repeated_where_that_can_help(error: HiveError, count: int) -> None:
    async def main() -> None:
        async with calling("chat", json_reply({"usage": USAGE["chat"]})) as (host, _):
            host.hived.settle_error = error
            await host.post(PATHS["chat"], body("chat"))
            settled = await host.settlements(count)
            assert {entry["reservation"] for entry in settled} == {"r1"}
            host.hived.settle_error = None
            await host.program.accounts.drain(10)
            assert host.program.accounts.waiting_settlements == 0

    asyncio.run(main())


def test_a_reservation_that_comes_too_late_is_given_back() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, provider):
            host.hived.delay.clear()
            _, writer = await host.connect()
            writer.write(request_bytes("chat", body("chat")))
            await until(lambda: len(host.hived.reserved) == 1)
            writer.close()
            host.hived.delay.set()
            settled = (await host.settlements())[0]
            assert (settled["reservation"], settled["status"]) == ("r1", "gone")
            assert not provider.requests

    asyncio.run(main())


def test_a_rate_that_hived_refuses_is_not_asked_again_at_once() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            host.hived.refusal = LimitReached("an hour is full", rule="rate", retry_after=1000)
            for _ in range(3):
                result = await host.post(PATHS["chat"], body("chat"))
                assert result.status == 429
                assert 990 <= int(result.headers["retry-after"]) <= 1000
                assert result.json["error"]["message"] == "an hour is full"
            assert len(host.hived.reserved) == 1

    asyncio.run(main())


def test_requests_and_answers_in_memory_are_bounded_together() -> None:
    async def main() -> None:
        more = "[limits]\nbody = 100_000\n"
        gate = asyncio.Semaphore(0)
        answer = b'"' + b"x" * 50_000 + b'"'
        reply = ProviderReply(pieces=[answer, b" "], gate=gate.acquire)
        async with calling("chat", reply, more=more) as (host, provider):
            data = body("chat", text="x" * 90_000)
            asked = [asyncio.create_task(host.post(PATHS["chat"], data)) for _ in range(4)]
            await until(lambda: len(provider.requests) == 4)
            other = host.hived.hand_over("99999999-2222-4333-8444-555555555555", name="other")
            await until(lambda: len(host.program.listeners) == 2)
            result = await host.post(PATHS["chat"], data, socket=other)
            assert (result.status, result.headers["retry-after"]) == (503, "1")
            for _ in range(8):
                gate.release()
            statuses = sorted([(await task).status for task in asked])
            assert statuses[-1] == 503
            gate.release()
            gate.release()
            assert (await host.post(PATHS["chat"], body("chat"), socket=other)).status == 200

    asyncio.run(main())


def test_calls_at_once_and_in_a_minute_are_limited() -> None:
    async def main() -> None:
        more = "[limits]\nconcurrent = 2\ncalls_a_minute = 4\n"
        replies = [ProviderReply(hangs=True), ProviderReply(hangs=True), json_reply({})]
        async with calling("chat", *replies, more=more) as (host, provider):
            writers = []
            for count in (1, 2):
                _, writer = await host.connect()
                writer.write(request_bytes("chat", body("chat")))
                writers.append(writer)
                await until(lambda count=count: len(provider.requests) == count)  # type: ignore[misc]
            result = await host.post(PATHS["chat"], body("chat"))
            assert (result.status, result.headers["retry-after"]) == (429, "1")
            assert (
                "running model calls of this agent (2) reached" in result.json["error"]["message"]
            )
            for writer in writers:
                writer.close()
            await host.settlements(2)
            for status in (200, 200, 429):
                result = await host.post(PATHS["chat"], body("chat"))
                assert result.status == status
            assert 50 <= int(result.headers["retry-after"]) <= 60
            other = host.hived.hand_over("99999999-2222-4333-8444-555555555555", name="other")
            await until(lambda: len(host.program.listeners) == 2)
            assert (await host.post(PATHS["chat"], body("chat"), socket=other)).status == 200

    asyncio.run(main())
