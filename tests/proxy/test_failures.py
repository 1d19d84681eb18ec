"""Calls that fail: at the provider, at hived, in the middle, and by what the agent sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fixtures.models import KEY, until
from fixtures.providers import (
    EVENTS,
    ProviderReply,
    event_reply,
    fake_provider,
    flood,
    json_reply,
)
from proxy.calling import PATHS, USAGE, WIRES, body, calling, request_bytes, sse, stream

from hive_core.model.config.models import parse_models
from hive_core.proxy.config import ProxyConfig
from hive_core.proxy.price import PriceTable

OTHER = '[models.other]\nprovider = "p"\nname = "other/name"\n'


@pytest.mark.parametrize("wire", WIRES)
def test_errors_before_the_first_byte_are_tried_again(wire: str) -> None:
    async def main() -> None:
        replies = [
            json_reply({"error": {"message": "busy"}}, 529),
            ProviderReply(200, EVENTS, [], breaks=True),
            json_reply({"usage": USAGE[wire]}),
        ]
        async with calling(wire, *replies) as (host, provider):
            result = await host.post(PATHS[wire], body(wire))
            assert result.status == 200
            assert len(provider.requests) == 3
            assert len({request.body for request in provider.requests}) == 1
            assert [s["status"] for s in await host.settlements()] == ["done"]

    asyncio.run(main())


def test_the_last_error_is_passed_on_without_keys() -> None:
    async def main() -> None:
        error = {"error": {"message": f"slow down {KEY}!", "type": "rate"}}
        async with calling("chat", json_reply(error, 429, retry_after="0")) as (host, provider):
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.status == 429
            assert result.headers["retry-after"] == "0"
            assert result.json == {"error": {"message": "slow down ***!", "type": "rate"}}
            assert len(provider.requests) == 3
            settled = (await host.settlements())[0]
            assert (settled["status"], settled["tokens_in"], settled["cost"]) == ("error", 0, 0)

    asyncio.run(main())


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_inside_a_stream_is_passed_on_without_keys(wire: str) -> None:
    """Also where its bytes come in two parts, and where the stream breaks in the event."""
    error = {"type": "error", "error": {"type": "api_error", "message": f"key {KEY} is used up"}}
    event = sse(error, "error")
    cut = event.index(KEY.encode()) + 5

    async def main() -> None:
        for parts in ((event,), (event[:cut], event[cut:]), (event.rstrip(b"\n"),)):
            async with calling(wire, event_reply(*parts)) as (host, _):
                result = await host.post(PATHS[wire], body(wire, stream=True))
                assert result.status == 200
                assert KEY.encode() not in result.body
                if len(parts[0]) != len(event) - 2:
                    assert b"key *** is used up" in result.body

    asyncio.run(main())


def test_an_error_in_an_answer_of_status_200_is_passed_on_without_keys() -> None:
    async def main() -> None:
        said = {"error": {"message": f"key {KEY} is used up"}}
        async with calling("chat", json_reply(said)) as (host, _):
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.json == {"error": {"message": "key *** is used up"}}

    asyncio.run(main())


@pytest.mark.parametrize("key", ["sk-abcdefgh/ij/k", 'sk-"quoted"\\key'])
def test_a_key_is_masked_as_json_writes_it(key: str) -> None:
    config = ProxyConfig(parse_models(""), {"p": key}, {}, PriceTable(parse_models("")))
    plain = json.dumps({"message": f"bad {key}"})
    for text in (plain, plain.replace("/", "\\/"), f"bad {key}"):
        masked = config.mask(text.encode())
        assert b"bad ***" in masked
        assert key[3:8].encode() not in masked


@pytest.mark.parametrize(
    ("reply", "tries"),
    [
        (json_reply({"error": "no"}, 400), 1),
        (json_reply({"error": "no"}, 500, x_should_retry="false"), 1),
        (json_reply({"error": "no"}, 429, retry_after="11"), 1),
        (json_reply({"error": "no"}, 503), 3),
    ],
)
def test_what_cannot_help_is_not_tried_again(reply: ProviderReply, tries: int) -> None:
    async def main() -> None:
        async with calling("chat", reply) as (host, provider):
            result = await host.post(PATHS["chat"], body("chat"))
            assert (result.status, result.json) == (reply.status, {"error": "no"})
            assert len(provider.requests) == tries

    asyncio.run(main())


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_refused_key_is_the_hosts_fault_and_its_words_stay_there(status: int) -> None:
    async def main() -> None:
        reply = json_reply({"error": f"bad key {KEY[:6]}...{KEY[-4:]} of org-17"}, status)
        async with calling("messages", reply) as (host, provider):
            result = await host.post(PATHS["messages"], body("messages"))
            assert result.status == 502
            assert "org-17" not in result.body.decode()
            assert "refused the key of this host" in result.json["error"]["message"]
            assert len(provider.requests) == 1

    asyncio.run(main())


def test_a_fallback_answers_and_is_charged() -> None:
    async def main() -> None:
        async with fake_provider(json_reply({"usage": USAGE["chat"]})) as second:
            more = f"""
            [providers.second]
            base_url = "{second.base_url}"
            [models.other]
            provider = "second"
            name = "other/name"
            price_in = 0.0
            price_out = 1.0
            [models.first]
            provider = "p"
            name = "first/name"
            fallback = ["m", "other"]
            """
            async with calling("chat", json_reply({}, 500), more=more) as (host, provider):
                result = await host.post(PATHS["chat"], {**body("chat"), "model": "first"})
                assert result.status == 200
                names = [request.json["model"] for request in provider.requests]
                assert names == ["first/name"] * 3 + ["provider/name"] * 3
                assert second.requests[0].json["model"] == "other/name"
                assert "authorization" not in second.requests[0].headers
                assert host.hived.reserved[0]["alias"] == "first"
                settled = (await host.settlements())[0]
                assert (settled["model"], settled["cost"]) == ("other", 7 / 1e6)

    asyncio.run(main())


def test_redirects_and_compressed_answers_are_not_followed() -> None:
    async def main() -> None:
        for reply in (
            ProviderReply(307, (("location", "http://127.0.0.1:1/"),)),
            json_reply({}, content_encoding="gzip"),
        ):
            async with calling("chat", reply) as (host, provider):
                result = await host.post(PATHS["chat"], body("chat"))
                assert result.status == 502
                assert "redirect" in result.json["error"]["message"]
                assert len(provider.requests) == 1

    asyncio.run(main())


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_ends_with_an_error_event_and_is_not_repeated(wire: str) -> None:
    async def main() -> None:
        begin = stream(wire)[:2]
        reply = event_reply(*begin, b"data: {unfinis", breaks=True)
        async with calling(wire, reply) as (host, provider):
            result = await host.post(PATHS[wire], body(wire, stream=True))
            assert result.status == 200
            assert result.body.startswith(b"".join(begin))
            assert b"unfinis" not in result.body
            error = result.events[-1]
            assert error.get("type", "error") == "error"
            assert "stopped in the middle" in json.dumps(error)
            if wire == "responses":
                assert error["sequence_number"] == 2
            assert len(provider.requests) == 1
            settled = (await host.settlements())[0]
            assert (settled["status"], settled["estimated"]) == ("broken", True)

    asyncio.run(main())


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_ends_too_early_is_broken(wire: str) -> None:
    async def main() -> None:
        async with calling(wire, event_reply(*stream(wire)[:2])) as (host, _):
            result = await host.post(PATHS[wire], body(wire, stream=True))
            assert "stopped in the middle" in result.body.decode()
            assert (await host.settlements())[0]["status"] == "broken"

    asyncio.run(main())


def test_an_error_that_the_provider_streams_is_passed_on_once() -> None:
    async def main() -> None:
        error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
        begin = stream("messages")[:2]
        async with calling("messages", event_reply(*begin, error)) as (host, _):
            result = await host.post(PATHS["messages"], body("messages", stream=True))
            assert result.body == b"".join(begin) + error
            assert (await host.settlements())[0]["status"] == "broken"

    asyncio.run(main())


def test_an_answer_that_breaks_before_its_end_is_an_error() -> None:
    async def main() -> None:
        reply = ProviderReply(pieces=[b'{"id":'], breaks=True)
        async with calling("chat", reply) as (host, provider):
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.status == 502
            assert len(provider.requests) == 1
            assert (await host.settlements())[0]["status"] == "broken"

    asyncio.run(main())


def test_a_provider_that_does_not_begin_to_answer_is_given_up() -> None:
    async def main() -> None:
        more = "[limits]\nfirst_byte = 0.2\n"
        async with calling("chat", ProviderReply(hangs=True), more=more) as (host, provider):
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.status == 504
            assert [s["status"] for s in await host.settlements()] == ["timeout"]
            await until(lambda: provider.closed == 1)

    asyncio.run(main())


def test_a_provider_that_is_silent_in_its_answer_is_given_up() -> None:
    async def main() -> None:
        more = "[limits]\nsilence = 0.2\n"
        reply = event_reply(stream("chat")[0], hangs=True)
        async with calling("chat", reply, more=more) as (host, provider):
            result = await host.post(PATHS["chat"], body("chat", stream=True))
            assert "silent" in result.events[-1]["error"]["message"]
            assert [s["status"] for s in await host.settlements()] == ["timeout"]
            await until(lambda: provider.closed == 1)

    asyncio.run(main())


def test_a_client_that_leaves_ends_the_call_at_the_provider() -> None:
    async def main() -> None:
        reply = event_reply(*stream("chat")[:2], hangs=True)
        async with calling("chat", ProviderReply(hangs=True), reply) as (host, provider):
            for count in (1, 2):
                _, writer = await host.connect()
                writer.write(request_bytes("chat", body("chat", stream=True)))
                await until(lambda: len(provider.requests) == count)  # noqa: B023 - awaited here
                writer.close()
                await until(lambda: provider.closed == count)  # noqa: B023
            assert [s["status"] for s in await host.settlements(2)] == ["gone", "gone"]

    asyncio.run(main())


def test_a_flood_is_cut_and_takes_no_memory() -> None:
    async def main() -> None:
        event = b'data: {"choices":[{"delta":{"content":"' + b"x" * 60_000 + b'"}}]}\n\n'
        replies = [
            ProviderReply(pieces=flood(b" " * 65_536, 1 << 30)),
            ProviderReply(200, EVENTS, flood(event, 1 << 30)),
            ProviderReply(200, EVENTS, flood(b"x" * 65_536, 1 << 30)),
        ]
        more = "[limits]\nbody = 4_000_000\n"
        async with calling("chat", *replies, more=more) as (host, provider):
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.status == 502
            for _ in range(2):
                result = await host.post(PATHS["chat"], body("chat", stream=True))
                assert "larger than" in result.body[-300:].decode()
            assert provider.sent < 100 << 20  # with what the kernel buffers
            assert {s["status"] for s in await host.settlements(3)} == {"broken"}

    asyncio.run(main())


ABSURD: list[Any] = [
    None, "many", -5, 1e30, 10**40, True, [1], {"a": {"b": 1}}, 0.5,
]  # fmt: skip


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("number", ABSURD, ids=range(len(ABSURD)))
def test_absurd_usage_is_estimated(wire: str, number: object) -> None:
    async def main() -> None:
        usage = dict.fromkeys(USAGE[wire], number)
        replies = [json_reply({"usage": usage}), event_reply(*stream(wire, usage))]
        async with calling(wire, *replies) as (host, _):
            assert (await host.post(PATHS[wire], body(wire))).status == 200
            assert (await host.post(PATHS[wire], body(wire, stream=True))).status == 200
            for settled in await host.settlements(2):
                assert settled["status"] == "done"
                assert settled["estimated"] is True
                assert 0 < settled["tokens_in"] < 100
                assert 0 <= settled["tokens_out"] < 100
                assert settled["cache_read"] <= settled["tokens_in"]

    asyncio.run(main())


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 100_000, b"not json", b"", b'"text"'])
def test_an_answer_that_is_no_object_is_passed_on_and_estimated(data: bytes) -> None:
    async def main() -> None:
        replies = [
            ProviderReply(pieces=[data] if data else []),
            event_reply(b"data: " + data + b"\n\n"),
        ]
        async with calling("chat", *replies) as (host, _):
            result = await host.post(PATHS["chat"], body("chat"))
            assert (result.status, result.body) == (200, data)
            result = await host.post(PATHS["chat"], body("chat", stream=True))
            assert result.body.startswith(b"data: " + data)
            assert [s["status"] for s in await host.settlements(2)] == ["done", "broken"]
            assert all(s["estimated"] for s in await host.settlements(2))

    asyncio.run(main())
