"""Calls that are refused before a provider is asked: by hived, by a bound, for what they hold."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import pytest
from fixtures.models import SECONDS
from fixtures.providers import (
    json_reply,
)
from proxy.calling import PATHS, WIRES, body, calling

from hive_core.errors import Busy, HiveError, LimitReached, NotAllowed, NotFound
from hive_core.model.config.models import ModelLimits
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.limits import CallLimits

OTHER = '[models.other]\nprovider = "p"\nname = "other/name"\n'


def kind_of(wire: str, answer: Any) -> str:  # noqa: ANN401 - JSON
    """The type of an error, in the place where clients of this wire look for it."""
    assert (answer.get("type") == "error") == (wire == "messages")
    return str(answer["error"]["type"])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("refusal", "status", "kinds"),
    [
        (LimitReached("x has no budget", rule="budget"), 402,
         ("insufficient_quota", "billing_error")),
        (LimitReached("too fast", rule="rate", retry_after=7.2), 429,
         ("rate_limit_error", "rate_limit_error")),
        (NotAllowed("not yours"), 403, ("permission_error", "permission_error")),
        (NotFound("no such model"), 404, ("invalid_request_error", "not_found_error")),
        (Busy("later"), 503, ("server_error", "overloaded_error")),
    ],
)  # fmt: skip
def test_a_refusal_of_hived_has_its_status_and_the_form_of_the_wire(
    wire: str, refusal: HiveError, status: int, kinds: tuple[str, str]
) -> None:
    async def main() -> None:
        async with calling(wire, json_reply({})) as (host, provider):
            host.hived.refusal = refusal
            result = await host.post(PATHS[wire], body(wire))
            assert result.status == status
            assert kind_of(wire, result.json) == kinds[wire == "messages"]
            assert refusal.reason in result.json["error"]["message"]
            assert result.headers.get("retry-after") == {429: "7", 503: "1"}.get(status)
            assert (result.headers.get("x-should-retry") == "false") == (status < 429)
            assert not provider.requests

    asyncio.run(main())


BAD: list[tuple[bytes, int, str]] = [
    (b"", 400, "not a JSON object"),
    (b"[]", 400, "not a JSON object"),
    (b'{"model":"m"', 400, "not JSON"),
    (b'{"model":"m"}x', 400, "more follows"),
    (b'{"model":"m","a":NaN}', 400, "NaN"),
    (b'{"model":"m","a":"\xff"}', 400, "not UTF-8"),
    (b'{"model":"m","model":"other"}', 400, "there twice"),
    (b'{"model":"m","Model":"other"}', 400, "small letters"),
    ('{"model":"m","\u017ftream":true}'.encode(), 400, "small letters"),
    (b'{"model":"m","mod\\u0065l":"other"}', 400, "there twice"),
    (b'{"messages":[]}', 400, "`model` is missing"),
    (b'{"model":["m"]}', 400, "`model` is missing"),
    (b'{"model":"m","models":["other"]}', 400, "`models` is not offered"),
    (b'{"model":"m","service_tier":"priority"}', 400, "`service_tier`"),
    (b'{"model":"m","stream":1}', 400, "`stream`"),
    (b'{"model":"m","max_tokens":-1}', 400, "`max_tokens`"),
    (b'{"model":"nobody"}', 404, "model 'nobody' does not exist"),
    (b'{"model":"m","a":' + b"[" * 65 + b"]" * 65 + b"}", 400, "nests deeper than 64"),
    (b'{"model":"m","a":' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400, "deeper"),
    (b'{"model":"m","a":[' + b"0," * 600_000 + b"0]}", 400, "more than 500000 values"),
]


@pytest.mark.parametrize(("data", "status", "reason"), BAD, ids=range(len(BAD)))
def test_a_bad_body_is_refused_before_anybody_is_asked(
    data: bytes, status: int, reason: str
) -> None:
    async def main() -> None:
        async with calling("chat", json_reply({}), more=OTHER) as (host, provider):
            result = await host.post(PATHS["chat"], data)
            assert result.status == status
            assert reason in result.json["error"]["message"]
            assert not host.hived.calls
            assert not provider.requests

    asyncio.run(main())


@pytest.mark.parametrize(
    "key", ["background", "previous_response_id", "conversation", "prompt", "models"]
)
def test_what_escapes_the_judgement_of_hived_is_refused(key: str) -> None:
    async def main() -> None:
        async with calling("responses", json_reply({})) as (host, provider):
            result = await host.post(PATHS["responses"], body("responses", **{key: "x"}))
            assert result.status == 400
            assert f"`{key}` is not offered" in result.json["error"]["message"]
            assert not provider.requests

    asyncio.run(main())


def test_the_wrong_wire_is_told_the_right_path() -> None:
    async def main() -> None:
        async with calling("messages", json_reply({})) as (host, _):
            result = await host.post(PATHS["chat"], body("chat"))
            assert result.status == 400
            assert "POST /v1/messages" in result.json["error"]["message"]
            result = await host.post("/v1/embeddings", body("chat"))
            assert result.status == 404
            result = await host.post("/v1/messages/../models", body("chat"))
            assert result.status == 404

    asyncio.run(main())


@pytest.mark.parametrize("size", [10, 600_000])
def test_a_client_that_writes_its_whole_request_first_reads_the_refusal(size: int) -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            reader, writer = await host.connect()
            head = f"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n".encode()
            for _ in range(2):  # the connection stays open: nothing of the body is left in it
                writer.write(head + b"x" * size)
                await asyncio.wait_for(writer.drain(), SECONDS)
                answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
                assert b" 404 " in answer.split(b"\r\n")[0]
                (length,) = re.findall(rb"content-length: (\d+)", answer.lower())
                await reader.readexactly(int(length))
            writer.close()

    asyncio.run(main())


MIB = 1 << 20


def write_then_read(path: str, head: bytes, parts: Iterable[bytes]) -> bytes:
    """The first line of the answer to a client that reads nothing before all is written."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(path)
        connection.sendall(head)
        for part in parts:
            connection.sendall(part)
        return connection.makefile("rb").readline()


def with_length(size: int) -> tuple[bytes, Iterable[bytes]]:
    return b"content-length: %d\r\n\r\n" % size, repeat(b"x" * MIB, size // MIB)


def in_chunks(size: int) -> tuple[bytes, Iterable[bytes]]:
    chunk = b"%x\r\n%s\r\n" % (MIB, b"x" * MIB)
    return b"transfer-encoding: chunked\r\n\r\n", [*repeat(chunk, size // MIB), b"0\r\n\r\n"]


@pytest.mark.parametrize(
    ("form", "sizes"), [(with_length, (33 * MIB, 40 * MIB)), (in_chunks, (33 * MIB,))]
)
def test_a_client_that_writes_far_more_than_the_limit_reads_413(
    form: Callable[[int], tuple[bytes, Iterable[bytes]]], sizes: tuple[int, ...]
) -> None:
    """With the limit of the shipped settings, 32 MiB."""

    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            for size in sizes:
                head, parts = form(size)
                head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\n".encode() + head
                line = await asyncio.to_thread(write_then_read, str(host.socket), head, parts)
                assert line.startswith(b"HTTP/1.1 413 "), size
            assert not host.hived.calls

    asyncio.run(main())


def test_an_agent_that_sends_refused_bodies_without_end_is_no_longer_read() -> None:
    clock = [0.0]
    limits, settings = CallLimits(lambda: clock[0]), ModelLimits(body=1500)
    assert [limits.may_drop("ann", settings, 2500) for _ in range(3)] == [True, True, False]
    assert limits.may_drop("bob", settings, 2500)
    clock[0] = 61.0
    assert limits.may_drop("ann", settings, 2500)
    clock[0] = 200.0
    limits.sweep()
    assert limits.may_drop("ann", settings, 6000)


def test_hived_is_asked_again_soon_after_a_refusal_because_someone_may_have_given_more() -> None:
    clock = [0.0]
    limits, key = CallLimits(lambda: clock[0]), ("ann", "m", "")
    limits.refuse(key, "an hour is full", 1000.0)
    with pytest.raises(CallFailed, match="an hour is full") as refused:
        limits.check_refused(key)
    assert (refused.value.status, refused.value.retry_after) == (429, 1000.0)
    limits.check_refused(("bob", "m", ""))
    clock[0] = 2.0
    limits.check_refused(key)


def test_a_body_that_is_too_large_is_refused() -> None:
    async def main() -> None:
        more = "[limits]\nbody = 1024\n"
        async with calling("chat", json_reply({}), more=more) as (host, _):
            data = json.dumps(body("chat", x="a" * 2000)).encode()
            assert (await host.post(PATHS["chat"], data)).status == 413
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (data[:900], data[900:]))
            head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
            head += "transfer-encoding: chunked\r\n\r\n"
            answer = await host.talk(head.encode() + chunks + b"0\r\n\r\n")
            assert b" 413 " in answer.split(b"\r\n")[0]
            assert not host.hived.calls

    asyncio.run(main())
