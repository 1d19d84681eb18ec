"""Event streams: each change once, resumed after the last frame, and cut off when nobody reads."""

from __future__ import annotations

import asyncio
import json
import socket
import zlib
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from fixtures.dashboard import FakeBrowser
from fixtures.event_streams import Event, events, newest, next_of

from hive_core.web.frames import GAP, GZIP_HEADER, KEPT, KEPT_BYTES, FrameLog, as_chunk, pack_block
from hive_core.web.stream import UNREAD_MOST, EventStream


def follow(
    browser: FakeBrowser, after: str = "", *, packed: bool = True, **headers: str
) -> Iterator[Event]:
    connection = browser.web.connect()
    path = f"/live?topics=tree,attention&after={after}"
    encoding = "gzip" if packed else "identity"
    connection.sendall(
        browser.web.request("GET", path, cookie=browser.cookie, accept_encoding=encoding, **headers)
    )
    try:
        yield from events(connection, packed=packed)
    finally:
        connection.close()


def assign(browser: FakeBrowser, agent: str, title: str) -> None:
    browser.web.hived.call("operator", "assign_task", agent=agent, title=title, description="x")


def test_a_changed_agent_is_a_frame_with_its_row(browser: FakeBrowser) -> None:
    for packed in (True, False):
        stream = follow(browser, newest(browser), packed=packed)
        next(stream)
        assign(browser, "carl", f"<b>\r\ntask {packed}")

        frame = json.loads(next_of(stream, "tree")["data"])
        stream.close()  # type: ignore[attr-defined]  # a generator

        (html,) = frame["rows"].values()
        assert "&lt;b&gt;" in html
        assert "⟨U+000D⟩⟨U+000A⟩" in html


def test_a_new_agent_reloads_the_tree(browser: FakeBrowser) -> None:
    stream = follow(browser, newest(browser))
    next(stream)
    browser.web.hived.call("operator", "spawn", name="newcomer", parent="root")

    assert json.loads(next_of(stream, "tree")["data"]) == {"tree": True}


def test_a_new_question_is_a_frame_of_attention(browser: FakeBrowser) -> None:
    stream = follow(browser, newest(browser))
    next(stream)
    browser.web.hived.call("root", "ask_user", items=[{"prompt": "Now <i>what</i>?"}])

    frame = json.loads(next_of(stream, "attention")["data"])

    assert frame["waiting"] >= 1
    assert "Now &lt;i&gt;what&lt;/i&gt;?" in "".join(frame["rows"].values())


def test_a_stream_resumes_after_the_last_frame(browser: FakeBrowser) -> None:
    before = newest(browser)
    stream = follow(browser, before)
    next(stream)
    last: Event = {}
    for agent, title in (("lead", "one"), ("w-9", "two")):
        assign(browser, agent, title)
        last = next(event for event in stream if title in event["data"])

    again = follow(browser, "ignored", last_event_id=before)
    next(again)
    resumed = []
    while last not in resumed:
        resumed.append(next(again))
    assert "one" in next(event for event in resumed if event["event"] == "tree")["data"]


def test_a_stream_goes_on_after_the_daemon_was_away(browser: FakeBrowser) -> None:
    stream = follow(browser, newest(browser))
    next(stream)

    browser.web.hived.cut_connections()
    assign(browser, "w-10", "afterwards")

    assert next(event for event in stream if "tree" in event.get("event", ""))
    assert "afterwards" in browser.get("/tree").text


def test_an_unknown_place_is_a_gap(browser: FakeBrowser) -> None:
    for after in ("", "x", "00000000-1", newest(browser) + "99"):
        stream = follow(browser, after)
        next(stream)
        assert next(stream)["event"] == "gap", after


def test_frames_beyond_the_kept_ones_are_a_gap() -> None:
    log = FrameLog()
    first = log.newest
    for number in range(KEPT + 1):
        log.add("tree", {"number": number})

    assert log.after(first, frozenset({"tree"})) == [GAP]
    assert len(log.after(f"{log.epoch}-1", frozenset({"tree"}))) == KEPT
    assert log.after(log.newest, frozenset({"tree"})) == []


def test_blocks_are_one_gzip_stream_from_any_frame_on() -> None:
    log = FrameLog()
    frames = [log.add("tree", {"rows": {"a": "x" * number}}) for number in range(5)]

    unpacked = zlib.decompressobj(31).decompress(
        GZIP_HEADER + pack_block(b"first") + b"".join(frame.packed for frame in frames[2:])
    )

    assert unpacked == b"first" + b"".join(frame.plain for frame in frames[2:])


def test_a_reader_that_does_not_read_is_cut_off() -> None:
    log, ended = FrameLog(), list[bool]()
    stream = EventStream(frozenset({"tree"}), packed=True, abort=lambda: ended.append(True))
    for number in range(200):
        stream.replay(log.add("tree", {"number": number}))
    for number in range(UNREAD_MOST):
        stream.offer(log.add("tree", {"number": number}))
    stream.offer(log.add("audit", {}))
    assert not ended

    stream.offer(log.add("tree", {}))

    assert ended == [True]
    assert stream.is_ended


def test_frames_that_are_kept_are_bounded_by_their_bytes() -> None:
    log, text = FrameLog(), "x" * (KEPT_BYTES // 10)
    frames = [log.add("tree", {"text": text}) for _ in range(13)]
    first, last = frames[0], frames[-1]
    resumed = log.after(f"{log.epoch}-{last.number - 5}", frozenset({"tree"}))
    assert [frame.number for frame in resumed] == list(range(last.number - 4, last.number + 1))
    assert log.after(f"{log.epoch}-{first.number}", frozenset({"tree"})) == [GAP]
    assert sum(len(frame.plain) + len(frame.packed) for frame in resumed) <= KEPT_BYTES


@dataclass
class RecordingConnection:
    """What a stream sends as ASGI messages and what it writes past them, in one order.

    While `is_full` it takes nothing, as a connection whose browser does not read.
    """

    bodies: list[bytes] = field(default_factory=list)
    messages: int = 0
    is_full: bool = False
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> dict[str, Any]:
        await self.ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        while self.is_full:
            await self.emptied.wait()
        self.messages += 1
        if message["type"] == "http.response.body":
            self._take(message["body"])

    def write_chunk(self, chunk: bytes) -> bool:
        if self.is_full:
            return False
        length, _, rest = chunk.partition(b"\r\n")
        assert rest[int(length, 16) :] == b"\r\n"
        self._take(rest[:-2])
        return True

    async def wait_for(self, bodies: int) -> None:
        """Wait until it has taken so many bodies."""
        while len(self.bodies) < bodies:
            self.came.clear()
            await self.came.wait()

    def _take(self, body: bytes) -> None:
        self.bodies.append(body)
        self.came.set()

    def empty(self) -> None:
        self.is_full = False
        self.emptied.set()


@pytest.mark.parametrize("packed", [True, False])
def test_a_frame_is_written_when_it_is_offered(packed: bool) -> None:  # noqa: FBT001 - a parameter
    log = FrameLog()

    async def talk() -> None:
        connection = RecordingConnection()
        stream = EventStream(
            frozenset({"tree"}), packed, lambda: None, write_chunk=connection.write_chunk
        )
        stream.offer(log.add("tree", {"number": 1}))
        assert connection.bodies == []  # its head comes first
        serving = asyncio.create_task(stream.serve(connection.receive, connection.send))
        await connection.wait_for(2)
        begun = connection.messages
        frames = [log.add("tree", {"number": number}) for number in range(2, 5)]
        for frame in frames:
            stream.offer(frame)
            stream.offer(log.add("audit", {}))
            assert connection.bodies[-1] == (frame.packed if packed else frame.plain)
        assert connection.messages == begun
        assert len(connection.bodies) == 2 + len(frames)
        connection.ended.set()
        await serving

    asyncio.run(talk())


def test_frames_of_a_full_connection_follow_in_their_order() -> None:
    log = FrameLog()

    async def talk() -> bytes:
        connection = RecordingConnection()
        stream = EventStream(
            frozenset({"tree"}), packed=False, abort=lambda: None,
            write_chunk=connection.write_chunk,
        )  # fmt: skip
        serving = asyncio.create_task(stream.serve(connection.receive, connection.send))
        await connection.wait_for(1)
        for number in range(30):
            connection.is_full = connection.is_full or number == 10
            stream.offer(log.add("tree", {"number": number}))
            if number == 20:  # what waits is on its way, and later frames wait behind it
                connection.empty()
        await connection.wait_for(12)
        stream.offer(log.add("tree", {"number": 30}))
        connection.ended.set()
        await serving
        return b"".join(connection.bodies)

    text = asyncio.run(talk()).decode()
    data = [line for line in text.splitlines() if line.startswith("data: ")]
    assert [json.loads(line.removeprefix("data: "))["number"] for line in data] == list(range(31))


def read_until(connection: socket.socket, text: bytes) -> bytes:
    data = b""
    while text not in data:
        received = connection.recv(1 << 16)
        assert received, data
        data += received
    return data


def test_a_client_of_http_1_0_gets_the_frames_without_chunks(browser: FakeBrowser) -> None:
    request = browser.web.request(
        "GET", f"/live?topics=tree&after={newest(browser)}", cookie=browser.cookie,
        accept_encoding="identity",
    )  # fmt: skip
    with browser.web.connect() as connection:
        connection.sendall(request.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        data = read_until(connection, b"retry: 1000\n\n")
        browser.web.hived.call("operator", "spawn", name="late", parent="root")
        data += read_until(connection, b'data: {"tree":true}\n\n')

    head, _, body = data.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head.lower()
    assert b"\r" not in body
    lines = {line.partition(b": ")[0] for line in body.split(b"\n") if line}
    assert lines <= {b"retry", b"event", b"id", b"data"}


def test_a_chunk_is_framed_as_the_protocol_says() -> None:
    assert as_chunk(b"x" * 300) == b"12c\r\n" + b"x" * 300 + b"\r\n"
    frame = FrameLog().add("tree", {"rows": {"a": "\r\n" * 20}})
    assert frame.packed == pack_block(frame.plain)
    assert frame.packed_chunk == as_chunk(frame.packed)
