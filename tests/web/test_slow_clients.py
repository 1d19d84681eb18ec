"""Clients of hive-web that send slowly, or nothing, or too many at once: they are cut off."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from hive_core.web.connection import WebConnection, WebServer
from hive_core.web.frames import FrameLog
from hive_core.web.stream import UNREAD_MOST, EventStream

LIFE = 0.4
HEAD = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n"
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass
class RecordingApp:
    """Answers a request that is complete. `/live` is a stream that sends when a test says so."""

    whole: list[bytes] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    send_now: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] == "/live":
            await self._stream(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.whole.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole"})

    async def _stream(self, scope: Message, receive: Receive, send: Send) -> None:
        scope["state"]["connection"].keep_open()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        ended = asyncio.ensure_future(receive())
        due = asyncio.ensure_future(self.send_now.wait())
        await asyncio.wait([ended, due], return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            self.left.set()
        else:
            await send({"type": "http.response.body", "body": b"frame", "more_body": True})
            await ended
        due.cancel()


@asynccontextmanager
async def serving(app: RecordingApp, life: float = LIFE) -> AsyncIterator[int]:
    """The server of hive-web with this application; the value is its port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = WebServer(app, life)
    await server.listen([listening])
    try:
        async with asyncio.timeout(60):
            yield listening.getsockname()[1]
    finally:
        server.close()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(port: int, data: bytes = b"") -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def read_rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server ends the connection."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("data", [b"", b"GET / HT", HEAD, POST, POST + b"abc"])
def test_a_request_that_does_not_end_is_cut_off_without_an_answer(data: bytes) -> None:
    app = RecordingApp()

    async def talk() -> bytes:
        async with serving(app) as port:
            reader, writer = await connect(port, data)
            answer = await read_rest(reader)
            writer.close()
            return answer

    assert asyncio.run(talk()) == b""
    assert app.whole == []


def test_a_client_that_goes_on_sending_is_cut_off_too() -> None:
    """Each crumb comes in time, the request does not."""
    app = RecordingApp()

    async def talk() -> bytes:
        async with serving(app) as port:
            reader, writer = await connect(port, HEAD)
            ended = asyncio.ensure_future(read_rest(reader))
            while not ended.done():
                writer.write(b"x: y\r\n")
                await asyncio.wait([ended], timeout=0.05)
            writer.close()
            return ended.result()

    assert not asyncio.run(talk()).startswith(b"HTTP/1.1 200")
    assert app.whole == []


def test_a_whole_request_is_answered_while_slow_ones_wait() -> None:
    async def talk() -> bytes:
        async with serving(RecordingApp(), 50.0) as port:
            slow = [await connect(port, POST) for _ in range(20)]
            reader, writer = await connect(port, POST + b"0123456789")
            answer = await read_rest(reader)
            for _, one_writer in [*slow, (reader, writer)]:
                one_writer.close()
            return answer

    assert b"whole" in asyncio.run(talk())


def test_a_stream_outlives_a_request() -> None:
    app = RecordingApp()

    async def talk() -> bytes:
        async with serving(app, 2.0) as port:  # in which a busy machine has begun the stream
            reader, writer = await connect(port, HEAD.replace(b"/ ", b"/live ", 1) + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
            later, its_writer = await connect(port)
            assert await read_rest(later) == b""  # it began later, and its time is over
            app.send_now.set()
            frame = await reader.readuntil(b"frame")
            for one_writer in (writer, its_writer):
                one_writer.close()
            return frame

    assert asyncio.run(talk()).endswith(b"frame")


def test_a_client_that_stops_sending_ends_its_stream() -> None:
    app = RecordingApp()

    async def talk() -> None:
        async with serving(app, 50.0) as port:
            reader, writer = await connect(port, HEAD.replace(b"/ ", b"/live ", 1) + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write_eof()
            await app.left.wait()
            writer.close()

    asyncio.run(talk())
    assert app.left.is_set()


def test_the_oldest_of_too_many_requests_makes_room_and_a_stream_does_not() -> None:
    app = RecordingApp()

    async def talk() -> tuple[bytes, bytes, bytes]:
        async with serving(app, 50.0) as port:
            stream = await connect(port, HEAD.replace(b"/ ", b"/live ", 1) + b"\r\n")
            await stream[0].readuntil(b"\r\n\r\n")
            most = WebConnection.connections_most
            held = [await connect(port, HEAD) for _ in range(most + 1)]
            first = await read_rest(held[0][0])
            held[1][1].write(b"\r\n")
            second = await read_rest(held[1][0])
            app.send_now.set()
            frame = await stream[0].readuntil(b"frame")
            for _, writer in [stream, *held]:
                writer.close()
            return first, second, frame

    first, second, frame = asyncio.run(talk())
    assert first == b""
    assert second.startswith(b"HTTP/1.1 200")
    assert frame.endswith(b"frame")


@dataclass
class StreamApp:
    """Each request is an event stream, as hive-web serves them."""

    came: asyncio.Queue[tuple[EventStream, WebConnection]] = field(default_factory=asyncio.Queue)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        connection = scope["state"]["connection"]
        connection.keep_open()
        stream = EventStream(
            frozenset({"tree"}), packed=False, abort=connection.abort,
            write_chunk=connection.write_chunk,
        )  # fmt: skip
        self.came.put_nowait((stream, connection))
        await stream.serve(receive, send)  # type: ignore[arg-type]  # messages are dicts


@asynccontextmanager
async def open_stream() -> AsyncIterator[tuple[socket.socket, EventStream, WebConnection]]:
    """A stream whose client takes no more than it must; the value is its socket and the stream."""
    app, loop = StreamApp(), asyncio.get_running_loop()
    async with serving(app, 50.0) as port:  # type: ignore[arg-type]  # another application
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)  # noqa: FBT003 - of the standard library
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, HEAD + b"\r\n")
            stream, connection = await app.came.get()
            yield client, stream, connection


def test_a_stream_whose_client_does_not_read_holds_little_and_is_cut_off() -> None:
    text, log = "x" * 10_000, FrameLog()

    async def talk() -> tuple[int, int]:
        buffered, unread, loop = 0, 0, asyncio.get_running_loop()
        async with open_stream() as (client, stream, connection):
            await loop.sock_recv(client, 1 << 16)
            while not stream.is_ended:
                stream.offer(log.add("tree", {"text": text}))
                buffered = max(buffered, connection.transport.get_write_buffer_size())
                unread = max(unread, len(stream._waiting))
                await asyncio.sleep(0)
            while await loop.sock_recv(client, 1 << 16):
                pass
        return buffered, unread

    buffered, unread = asyncio.run(talk())
    assert 32 * 1024 < buffered < 32 * 1024 + 2 * len(text)
    assert unread == UNREAD_MOST


def test_a_client_that_reads_late_gets_each_frame_once_and_in_order() -> None:
    """Some frames are written at once, and some wait until it reads again."""
    left, log, frames = itertools.cycle((0, 5, 60, 1, 30)), FrameLog(), 400

    async def talk() -> tuple[bytes, int]:
        data, paused, loop = b"", 0, asyncio.get_running_loop()
        async with open_stream() as (client, stream, _):
            data += await loop.sock_recv(client, 1 << 16)
            for number in range(frames):
                stream.offer(log.add("tree", {"number": number, "text": "x" * 10_000}))
                paused = max(paused, len(stream._waiting))
                while len(stream._waiting) > next(left):
                    data += await loop.sock_recv(client, 1 << 16)
            while f'"number":{frames - 1},'.encode() not in data:
                data += await loop.sock_recv(client, 1 << 16)
        return data, paused

    data, paused = asyncio.run(talk())
    assert paused > 1
    numbers = [int(number) for number in re.findall(rb'"number":([0-9]+),', data)]
    assert numbers == list(range(frames))
