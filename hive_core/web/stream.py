"""An event stream to one browser: it begins as ASGI messages, and then its frames are written as
they come.

A frame of a stream takes a call of the transport, and neither a task that wakes up nor an event of
the HTTP library: with 200 streams these were a fifth of what hive-web took.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Receive, Send

from hive_core.web.frames import GZIP_HEADER, Frame, as_chunk, pack_block
from hive_core.web.guard import SECURITY_HEADERS

UNREAD_MOST: Final = 64
_FIRST: Final = b"retry: 1000\n\n"
WriteChunk = Callable[[bytes], bool]


@dataclass(slots=True, eq=False)
class EventStream:
    """Frames wait here until the browser has taken those before. With too many it is cut off.

    `abort` ends the connection without sending what waits in its buffer; `agent` is the one whose
    running turns are followed. `write_chunk` writes a chunk of HTTP/1.1 and returns whether it did:
    it does not while the browser has not taken what was written before. None: the body has no
    chunks (HTTP/1.0), and each frame is an ASGI message.
    """

    topics: frozenset[str]
    packed: bool
    abort: Callable[[], None]
    agent: str = ""
    write_chunk: WriteChunk | None = None
    _waiting: deque[Frame] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    is_ended: bool = False
    _is_begun: bool = False  # its head and its first event are out
    _before: int = 0  # frames from before it began, which do not count as unread

    def offer(self, frame: Frame) -> None:
        if frame.topic and frame.topic not in self.topics:
            return
        if self._is_begun and not self._waiting and self._write(frame):
            return
        self._waiting.append(frame)
        self._ready.set()
        if len(self._waiting) > UNREAD_MOST + self._before:
            self.end()

    def replay(self, frame: Frame) -> None:
        """Add a frame that came before the stream; however many these are, none is lost."""
        self._waiting.append(frame)
        self._before += 1
        self._ready.set()

    def end(self) -> None:
        """End the stream. The browser reconnects and continues after its last frame."""
        self.is_ended = True
        self._waiting.clear()
        self._ready.set()
        self.abort()

    async def serve(self, receive: Receive, send: Send) -> None:
        """Send frames until either side ends."""
        gone = asyncio.create_task(_await_disconnect(receive, self._leave))
        try:
            await send(self._start())
            await self._send(send, _FIRST, pack_block(_FIRST), head=GZIP_HEADER)
            self._is_begun = True
            while not self.is_ended:
                await self._ready.wait()
                self._ready.clear()
                await self._send_waiting(send)
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    def _write(self, frame: Frame) -> bool:
        """Write a frame before all that waits; return whether it was written."""
        if self.write_chunk is None:
            return False
        return self.write_chunk(frame.packed_chunk if self.packed else as_chunk(frame.plain))

    async def _send_waiting(self, send: Send) -> None:
        while self._waiting and not self.is_ended:
            frames = list(self._waiting)
            plain = b"".join(frame.plain for frame in frames)
            await self._send(send, plain, b"".join(frame.packed for frame in frames))
            for _ in frames[: len(self._waiting)]:
                self._waiting.popleft()
            self._before = 0

    async def _send(self, send: Send, plain: bytes, packed: bytes, head: bytes = b"") -> None:
        body = head + packed if self.packed else plain
        await send({"type": "http.response.body", "body": body, "more_body": True})

    def _leave(self) -> None:
        self.is_ended = True
        self._ready.set()

    def _start(self) -> dict[str, object]:
        headers = {**SECURITY_HEADERS, "content-type": "text/event-stream"}
        if self.packed:
            headers["content-encoding"] = "gzip"
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        return {"type": "http.response.start", "status": 200, "headers": pairs}


async def _await_disconnect(receive: Receive, leave: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()
