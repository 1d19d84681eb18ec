"""Connections of untrusted peers: one request each, and room for the next peer."""

from __future__ import annotations

import asyncio

import pytest
from fixtures.webhooks import WebhookHost, _street, hook, sign  # noqa: F401
from operations.test_triggers import bodies

from hive_core.host.sockets.slow_clients import CONNECTIONS, WIRE_MOST


def good(path: str, body: bytes = b"{}") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nhive-signature: {sign(body)}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def reply_to(street: WebhookHost, data: bytes) -> bytes:
    """What comes back to a peer that has closed its half."""

    async def talk() -> bytes:
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_unix_connection(str(street.path))
            writer.write(data)
            writer.write_eof()
            reply = await reader.read()
            writer.close()
            return reply

    return street.hive.loop.run_until_complete(talk())


def test_a_client_that_sent_all_is_still_answered(street: WebhookHost) -> None:
    """As `nc -N` and proxies of systemd's do it."""
    assert reply_to(street, good(hook(street), b"x" * 9000)).startswith(b"HTTP/1.1 202")


def test_a_client_that_sent_all_and_too_little_is_not_waited_for(street: WebhookHost) -> None:
    path = hook(street)
    for data in (b"", b"POST /ho", good(path)[:-1], good(path, b"x" * 9000)[:-1]):
        assert reply_to(street, data) == b""
    assert bodies(street.hive, "a") == []


def test_a_second_request_on_a_connection_is_none(street: WebhookHost) -> None:
    path = hook(street)
    assert street.raw(good(path) * 3).count(b"HTTP/1.1 ") == 1
    assert len(bodies(street.hive, "a")) == 1


def test_when_there_are_too_many_the_oldest_makes_room(street: WebhookHost) -> None:
    path, loop = hook(street), street.hive.loop

    async def crowd() -> list[bytes]:
        async with asyncio.timeout(20):
            held = [await asyncio.open_unix_connection(str(street.path)) for _ in range(3)]
            for _ in range(CONNECTIONS - 1):
                held.append(await asyncio.open_unix_connection(str(street.path)))
                held[-1][1].write(b"POST /hook")
            gone = [await reader.read() for reader, _ in held[:2]]
            reader, writer = held[2]
            writer.write(good(path))
            answers = [*gone, await reader.read()]
            for _, writer in held:
                writer.close()
            return answers

    first, second, third = loop.run_until_complete(crowd())
    assert (first, second, third[:12]) == (b"", b"", b"HTTP/1.1 202")


def test_others_have_their_turn_while_one_sends_a_body_in_crumbs(street: WebhookHost) -> None:
    """The loop goes round for each two KiB, and what is more than enough is not looked at."""
    path, loop, rounds = hook(street), street.hive.loop, [0]
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            rounds[0] += 1

    counting = loop.create_task(count())
    assert street.raw(head + b"1\r\nx\r\n" * 50_000) == b""
    counting.cancel()
    assert rounds[0] >= WIRE_MOST // 2048
    assert street.raw(good(path)).startswith(b"HTTP/1.1 202")


def test_a_client_that_breaks_the_rules_of_http_writes_nothing_into_the_log(
    street: WebhookHost, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a stranger could fill the journal with what looks like faults of the daemon."""
    path = hook(street).encode()
    crumbs = b"transfer-encoding: chunked\r\n\r\nzz\r\n"
    twice = b"idempotency-key: 1\r\n" * 2
    for head in (b"POST %b HTTP/1.1\r\n" + twice, b"HEAD %b HTTP/1.1\r\n", b"\xff %b\r\n"):
        assert street.raw(head % path + b"host: x\r\n" + crumbs).count(b"HTTP/1.1 ") <= 1
    assert street.raw(good(hook(street))).startswith(b"HTTP/1.1 202")
    assert caplog.text == ""
