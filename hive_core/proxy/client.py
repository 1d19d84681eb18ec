"""The client's side of one request, as ASGI gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from hive_core.proxy.failure import CallFailed
from hive_core.proxy.route import Headers
from hive_core.proxy.wires.base import WireFormat, dump

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
BODY_SECONDS: Final = 60.0
# A request that is refused before its body is read: how much of the body is read in any case, and
# how long.
_DROPPED_FREE: Final = 1 << 20
_DROPPED_SECONDS: Final = 20.0
_DIGITS: Final = 15
_CLOSE: Final = (b"connection", b"close")


class ClientGone(Exception):
    """The client closed its connection, or does not read."""


@dataclass(slots=True)
class ClientSide:
    headers: Headers
    receive: Receive
    send_message: Send
    is_started: bool = False
    has_whole_body: bool = False
    is_finished: bool = False

    def header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key == name), b"")

    async def read_body(self, most: int, count: Callable[[int], None]) -> bytes:
        """The whole body; `count` is called with the size of each part. CallFailed: 408, 413."""
        length = self.header(b"content-length")
        if length.isdigit() and (len(length) > _DIGITS or int(length) > most):
            raise _too_large(most)
        parts, size, is_more = [], 0, True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while is_more:
                    part, is_more = await self._next_part()
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    count(len(part))
                    parts.append(part)
        except TimeoutError:
            raise CallFailed(408, f"the body did not come in {BODY_SECONDS:.0f} s") from None
        return b"".join(parts)

    async def drop_body(self, may_drop: Callable[[int], bool]) -> None:
        """Read the rest of the body, while `may_drop` allows it, and keep nothing of it.

        Most clients write a whole request before they read. Where the connection is closed
        meanwhile they report a broken pipe, and not the answer.
        """
        if self.has_whole_body or not self._has_body() or self.header(b"expect"):
            return
        part, size, is_more = b"", 0, True
        with suppress(TimeoutError):
            async with asyncio.timeout(_DROPPED_SECONDS):
                while is_more and (size <= _DROPPED_FREE or may_drop(len(part))):
                    part, is_more = await self._next_part()
                    size += len(part)

    async def _next_part(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether more follows. ClientGone."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.has_whole_body = not message.get("more_body", False)
        return message.get("body", b""), not self.has_whole_body

    def _has_body(self) -> bool:
        length = self.header(b"content-length").strip(b"0")
        return bool(length or self.header(b"transfer-encoding"))

    async def wait_until_gone(self) -> None:
        """Return when the client closes its connection. Only after the whole body."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Headers) -> None:
        self.is_started = True
        if not self.has_whole_body and self._has_body():
            headers = [*headers, _CLOSE]  # what is left of the body is not read
        start = {"type": "http.response.start", "status": status, "headers": headers}
        await self.send_message(start)

    async def send(self, data: bytes) -> None:
        await self.send_message({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        self.is_finished = True
        await self.send_message({"type": "http.response.body", "body": data, "more_body": False})

    async def reply(self, status: int, headers: Headers, data: bytes) -> None:
        """A whole answer."""
        await self.start(status, [*headers, (b"content-length", str(len(data)).encode())])
        await self.finish(data)

    async def reply_json(self, value: object) -> None:
        await self.reply(200, [(b"content-type", b"application/json")], dump(value))

    async def fail(
        self,
        failure: CallFailed,
        wire: WireFormat,
        may_drop: Callable[[int], bool] = lambda _size: False,
    ) -> None:
        """Answer with an error in the form of the client's wire."""
        headers = [(b"content-type", b"application/json"), *failure.headers]
        with suppress(ClientGone):
            await self.drop_body(may_drop)
            await self.reply(failure.status, headers, dump(wire.error_body(failure)))


def _too_large(most: int) -> CallFailed:
    return CallFailed(413, f"the body is larger than {most} bytes", retry=False)
