"""Calls that succeed: what the provider gets, what the agent gets, and what is charged."""

from __future__ import annotations

import asyncio
import json

import pytest
from fixtures.models import AGENT, KEY, ModelHost, until
from fixtures.providers import event_reply, json_reply
from proxy.calling import PATHS, USAGE, WIRES, body, calling, request_bytes, stream

COST = (60 * 1.0 + 40 * 0.5 + 7 * 2.0) / 1e6


async def check_settlement(host: ModelHost, status: str = "done") -> None:
    settled = (await host.settlements())[0]
    assert (settled["status"], settled["model"], settled["estimated"]) == (status, "m", False)
    tokens = [settled[key] for key in ("tokens_in", "tokens_out", "cache_read", "cache_write")]
    assert tokens == [100, 7, 40, 0]
    assert settled["cost"] == pytest.approx(COST)
    assert 0 <= settled["ttft_ms"] <= settled["latency_ms"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_is_passed_on_and_charged(wire: str) -> None:
    answer = {"id": "x", "usage": USAGE[wire]}

    async def main() -> None:
        reply = json_reply(answer, request_id="req-1", set_cookie="a=b")
        async with calling(wire, reply) as (host, provider):
            headers = {"authorization": "Bearer agents-own", "x-other": "1", "cookie": "c=d",
                       "anthropic-version": "v", "x-hive-task": "t-1",
                       "x-hive-hand-back": "1"}  # fmt: skip
            result = await host.post(PATHS[wire], body(wire), headers)
            assert (result.status, result.json) == (200, answer)
            assert result.headers["request-id"] == "req-1"
            assert "set-cookie" not in result.headers
            request = provider.requests[0]
            assert request.json == {**body(wire), "model": "provider/name"}
            assert request.line == f"POST {PATHS[wire]} HTTP/1.1"
            assert request.headers["anthropic-version"] == "v"
            assert (
                not {"x-other", "x-hive-task", "x-hive-hand-back", "cookie"}
                & request.headers.keys()
            )
            assert "agents-own" not in str(request.headers)
            own = request.headers["x-api-key" if wire == "messages" else "authorization"]
            assert own.removeprefix("Bearer ") == KEY
            assert host.hived.reserved[0].items() >= {
                "agent": AGENT, "sub": "", "alias": "m", "wire": wire, "task": "t-1",
                "hand_back": True, "tools": False, "out_most": 8192,
                "bytes": len(json.dumps(body(wire))),
            }.items()  # fmt: skip
            await check_settlement(host)

    asyncio.run(main())


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_is_passed_on_and_charged(wire: str) -> None:
    async def main() -> None:
        events = stream(wire)
        async with calling(wire, event_reply(*events)) as (host, provider):
            sent = {"stream": True, "stream_options": {"include_usage": True}}
            result = await host.post(PATHS[wire], body(wire, **sent))
            assert result.headers["content-type"] == "text/event-stream"
            assert result.body == b"".join(events)
            assert provider.requests[0].json == {**body(wire, **sent), "model": "provider/name"}
            await check_settlement(host)

    asyncio.run(main())


def test_a_chat_stream_reports_usage_to_hive_alone() -> None:
    async def main() -> None:
        events = stream("chat")
        async with calling("chat", event_reply(*events)) as (host, provider):
            result = await host.post(PATHS["chat"], body("chat", stream=True))
            assert provider.requests[0].json["stream_options"] == {"include_usage": True}
            assert result.body == b"".join([*events[:-2], events[-1]])
            await check_settlement(host)

    asyncio.run(main())


def test_events_come_as_the_provider_sends_them() -> None:
    async def main() -> None:
        gate = asyncio.Semaphore(1)
        events = stream("chat")
        async with calling("chat", event_reply(*events, gate=gate.acquire)) as (host, _):
            reader, writer = await host.connect()
            writer.write(request_bytes("chat", body("chat", stream=True)))
            got = b""
            for event in events[:2]:
                while event not in got:
                    got += await asyncio.wait_for(reader.read(1000), 10)
                gate.release()
            writer.close()

    asyncio.run(main())


def test_parts_of_events_are_joined_and_split_anywhere() -> None:
    async def main() -> None:
        whole = b"".join(stream("messages"))
        pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
        async with calling("messages", event_reply(*pieces)) as (host, _):
            result = await host.post(PATHS["messages"], body("messages", stream=True))
            assert result.body == whole
            await check_settlement(host)

    asyncio.run(main())


def test_a_running_call_is_noted() -> None:
    async def main() -> None:
        events = stream("messages", texts=("x" * 400,))
        async with calling("messages", event_reply(*events[:3], hangs=True)) as (host, provider):
            reader, writer = await host.connect()
            writer.write(request_bytes("messages", body("messages", stream=True)))
            await until(lambda: any(n["tokens_out"] == 100 for n in host.hived.noted))
            assert host.hived.noted[-1]["reservation"] == "r1"
            writer.close()
            settled = (await host.settlements())[0]
            assert (settled["status"], settled["tokens_out"]) == ("gone", 100)
            assert (settled["estimated"], settled["tokens_in"]) == (True, 100)
            await until(lambda: provider.closed == 1)
            del reader

    asyncio.run(main())


def test_the_prefix_of_two_calls_that_begin_the_same_is_the_same() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            first = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
            for messages in (first, [*first[:1], {"role": "user", "content": "b"}],
                             [*first, {"role": "assistant", "content": "c"}]):  # fmt: skip
                await host.post(PATHS["chat"], {"model": "m", "messages": messages})
            prefixes = [settled["prefix"] for settled in await host.settlements(3)]
            assert prefixes[0] == prefixes[1] != prefixes[2]
            assert all(len(prefix) == 64 for prefix in prefixes)

    asyncio.run(main())


def test_tokens_of_a_messages_call_are_counted_for_nothing() -> None:
    async def main() -> None:
        async with calling("messages", json_reply({"input_tokens": 9})) as (host, provider):
            result = await host.post("/v1/messages/count_tokens?beta=true", body("messages"))
            assert result.json == {"input_tokens": 9}
            assert provider.requests[0].line.split()[1] == "/v1/messages/count_tokens?beta=true"
            assert host.hived.reserved[0].items() >= {"bytes": 0, "out_most": 0}.items()
            settled = (await host.settlements())[0]
            assert (settled["status"], settled["tokens_in"], settled["cost"]) == ("done", 0, 0)

    asyncio.run(main())


def test_a_connection_serves_one_call_after_another() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({"usage": USAGE["chat"]})) as (host, provider):
            one, last = (request_bytes("chat", body("chat"), more) for more in ("", "close"))
            answer = await host.talk(one + one + last)
            assert answer.count(b"HTTP/1.1 200") == 3
            assert len(provider.requests) == len(await host.settlements(3)) == 3

    asyncio.run(main())


def test_a_body_may_come_byte_by_byte() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({"usage": USAGE["chat"]})) as (host, provider):
            reader, writer = await host.connect()
            for byte in request_bytes("chat", body("chat"), "close"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert b" 200 " in await reader.readline()
            assert provider.requests[0].json["model"] == "provider/name"
            writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("size", [1000, 70_000, 300_000, 3_000_000])
def test_bodies_of_all_sizes_are_passed_on(size: int) -> None:
    async def main() -> None:
        async with calling("chat", json_reply({"usage": USAGE["chat"]})) as (host, provider):
            data = json.dumps(body("chat", text="\u00e4" * size), ensure_ascii=False).encode()
            assert (await host.post(PATHS["chat"], data)).status == 200
            assert provider.requests[0].body == data.replace(b'"m"', b'"provider/name"', 1)

    asyncio.run(main())


def test_the_models_of_an_agent_are_listed_for_all_wires() -> None:
    async def main() -> None:
        more = '[models.other]\nprovider = "p"\nname = "o"\ncontext = 50_000\nmax_output = 100\n'
        async with calling("responses", json_reply({}), more=more) as (host, _):
            host.hived.models = [{"alias": "other"}, {"alias": "unknown-here"}]
            result = (await host.ask("GET", "/v1/models")).json
            assert [row["id"] for row in result["data"]] == ["other"]
            assert result["data"][0].items() >= {
                "context": 50_000, "max_output": 100, "wire": "responses", "name": "o",
                "object": "model", "type": "model",
            }.items()  # fmt: skip
            assert host.hived.calls[0] == ("ListModels", {"agent": "worker"})
            assert (await host.ask("HEAD", "/")).status == 200

    asyncio.run(main())
