"""The child's end of the socket to its session: one JSON object a line, descriptors beside it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections import deque
from typing import Final

LINE_MOST: Final = 1 << 20
_READ: Final = 1 << 16
_DESCRIPTORS: Final = 4
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

Line = dict[str, object]


class SessionClosed(Exception):
    """The session is gone, or sent what is not its protocol."""


class LineTooLong(ValueError):
    """A line that the session would not read."""


class SessionConnection:
    """Sends and receives lines; a line with `history` takes the next descriptor that came."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0)
        self._socket = end
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._descriptors: deque[int] = deque()
        self._sending = asyncio.Lock()

    async def send(self, line: Line) -> None:
        """Send a line; LineTooLong for one that the session would refuse."""
        # A model may send a lone surrogate, which UTF-8 cannot hold.
        data = _ENCODER.encode(line).encode(errors="replace") + b"\n"
        if len(data) > LINE_MOST:
            raise LineTooLong(f"{len(data)} bytes are more than {LINE_MOST}")
        async with self._sending:
            try:
                await asyncio.get_running_loop().sock_sendall(self._socket, data)
            except OSError as error:
                raise SessionClosed(str(error)) from error

    async def receive(self) -> Line:
        """The next line; SessionClosed at the end."""
        while not self._lines:
            await _readable(self._socket)
            self._read()
        try:
            line = json.loads(self._lines.popleft())
        except ValueError as error:
            raise SessionClosed(f"a line of the session is not JSON: {error}") from error
        if not isinstance(line, dict):
            raise SessionClosed("a line of the session is not an object")
        return line

    def take_descriptor(self) -> bytes:
        """What the descriptor that came first holds; it is closed."""
        if not self._descriptors:
            raise SessionClosed("the session announced a descriptor and sent none")
        with os.fdopen(self._descriptors.popleft(), "rb") as file:
            file.seek(0)
            return file.read()

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _READ, _DESCRIPTORS)
        except BlockingIOError:
            return
        except OSError as error:
            raise SessionClosed(str(error)) from error
        self._descriptors.extend(descriptors)
        if not data:
            raise SessionClosed("the session closed the connection")
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = bytes(self._rest) + whole[0]
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > LINE_MOST:
            raise SessionClosed("a line of the session is too long")
        self._lines.extend(whole)


async def _readable(end: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(end, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_reader(end)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
