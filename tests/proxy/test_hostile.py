"""An agent that speaks raw bytes: what is others' stays out of its reach, and others are served."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress

import pytest
from fixtures.models import AGENT, KEY, OTHER, until
from fixtures.providers import json_reply
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy.calling import PATHS, body, calling, request_bytes

DATA = json.dumps(body("chat")).encode()
HEAD = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\n".encode()
SIZED = b"content-length: %d\r\n" % len(DATA)
CLOSE = b"connection: close\r\n"
RAW: list[tuple[bytes, bytes]] = [
    (b"\r\n" * 100 + b"x\r\n\r\n", b"400"),
    (b"\x16\x03\x01\x02\x00" * 50, b"400"),
    (HEAD + SIZED + b"content-length: 7\r\n" + b"\r\n" + DATA, b"400"),
    (HEAD + SIZED + CLOSE + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
    (HEAD + b"content-length: -1\r\n\r\n" + DATA, b"400"),
    (HEAD + b"content-length: 999999999999\r\n\r\n", b"413"),
    (HEAD + b"content-length: 99999999999999999999999\r\n\r\n", b"400"),
    (HEAD + b"transfer-encoding: gzip\r\n\r\n" + DATA, b"501"),
    (b"GET http://169.254.169.254/latest HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", b"404"),
    (b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", b"404"),
    (b"GET /%2e%2e/test HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", b"404"),
    (b"POST /test HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", b"404"),
    (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"400"),
    (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", b"400"),
    (HEAD.replace(b"POST /v1", b"POST  /v1") + SIZED + b"\r\n" + DATA, b"400"),
]


@pytest.mark.parametrize(("raw", "status"), RAW, ids=range(len(RAW)))
def test_bytes_that_are_no_request_reach_nobody(raw: bytes, status: bytes) -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, provider):
            answer = await host.talk(raw)
            first = answer.split(b"\r\n")[0]
            assert status in first or (status == b"501" and b"400" in first), answer[:200]
            assert not host.hived.calls
            assert not provider.requests
            assert (await host.ask("HEAD", "/")).status == 200

    asyncio.run(main())


def test_names_of_others_in_a_request_reach_nothing_of_theirs() -> None:
    async def main() -> None:
        more = '[models.secret]\nprovider = "p"\nname = "secret"\n'
        async with calling("chat", json_reply({}), more=more) as (host, provider):
            headers = {
                "x-hive-agent": OTHER, "x-forwarded-for": OTHER, "x-api-key": KEY,
                "authorization": f"Bearer {KEY}", "openai-organization": "other",
                "host": "evil.example.org", "x-hive-task": "t" * 5000,
            }  # fmt: skip
            claims = {"user": OTHER, "agent": OTHER, "sub": "s1", "api_key": KEY,
                      "base_url": "http://evil", "metadata": {"agent": OTHER}}  # fmt: skip
            result = await host.post(PATHS["chat"], body("chat", **claims), headers)
            assert result.status == 200
            reserved = host.hived.reserved[0]
            assert (reserved["agent"], reserved["sub"], reserved["alias"]) == (AGENT, "", "m")
            assert len(reserved["task"]) <= 64
            request = provider.requests[0]
            assert request.headers["host"].startswith("127.0.0.1:")
            assert "openai-organization" not in request.headers

    asyncio.run(main())


def test_no_answer_and_no_log_has_a_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        said = {"error": {"message": f"your key {KEY} is bad", "headers": {"x-api-key": KEY}}}
        answers = []
        for status in (400, 401, 403, 404, 429, 500, 503):
            async with calling("messages", json_reply(said, status)) as (host, _):
                result = await host.post(PATHS["messages"], body("messages"))
                answers.append(result.body.decode() + str(result.headers))
                answers.append(json.dumps(host.hived.calls))
                answers.append(await test_operator(host.folder / "operator.sock"))
        assert KEY not in "".join(answers)
        assert KEY not in caplog.text

    async def test_operator(path: object) -> str:
        data = b'{"alias":"m"}'
        head = b"POST /test HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 13\r\n\r\n"
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(head + data)
        answer = await reader.read()
        writer.close()
        assert b'"error"' in answer
        return answer.decode()

    asyncio.run(main())


def test_a_slow_head_and_a_slow_body_hold_nothing_of_others() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            other = host.hived.hand_over(OTHER, name="other")
            await until(lambda: len(host.program.listeners) == 2)
            writers = []
            for beginning in (HEAD, HEAD + SIZED + b"\r\n" + DATA[:5], b"", b"G"):
                for _ in range(3):
                    _, writer = await host.connect(other)
                    writer.write(beginning)
                    writers.append(writer)
            assert (await host.post(PATHS["chat"], body("chat"))).status == 200
            for writer in writers:
                writer.close()

    asyncio.run(main())


def test_chunks_of_one_byte_leave_time_for_others() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            other = host.hived.hand_over(OTHER, name="other")
            await until(lambda: len(host.program.listeners) == 2)
            chunks = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
            flood = HEAD + CLOSE + b"transfer-encoding: chunked\r\n\r\n" + chunks
            flooding = [asyncio.create_task(host.talk(flood, other)) for _ in range(4)]
            assert (await host.post(PATHS["chat"], body("chat"))).status == 200
            assert not any(task.done() for task in flooding)
            for answer in await asyncio.gather(*flooding):
                assert b" 400 " in answer.split(b"\r\n")[0]

    asyncio.run(main())


def test_requests_that_are_no_calls_are_paced() -> None:
    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, _):
            loop = asyncio.get_running_loop()
            began = loop.time()
            get = b"GET /no HTTP/1.1\r\nhost: x\r\n\r\n"
            last = get.replace(b"host", b"connection: close\r\nhost")
            answer = await host.talk(get * 49 + last)
            assert answer.count(b" 404 ") == 50
            assert loop.time() - began >= 0.4

    asyncio.run(main())


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=15)
def test_damaged_requests_never_stop_the_service(data: st.DataObject) -> None:
    requests = []
    for _ in range(6):
        raw = bytearray(request_bytes("chat", body("chat"), "close"))
        for _ in range(data.draw(st.integers(1, 6))):
            at = data.draw(st.integers(0, len(raw)))
            raw[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        requests.append(bytes(raw))

    async def main() -> None:
        async with calling("chat", json_reply({})) as (host, provider):
            for raw in requests:
                reader, writer = await host.connect()
                with suppress(OSError):
                    writer.write(raw)
                    writer.write_eof()
                    await asyncio.wait_for(reader.read(), 20)
                writer.close()
            assert (await host.ask("HEAD", "/")).status == 200
            for request in provider.requests:
                assert request.json["model"] == "provider/name"
            assert {asked["alias"] for asked in host.hived.reserved} <= {"m"}

    asyncio.run(main())
