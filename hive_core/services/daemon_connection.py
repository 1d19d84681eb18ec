"""An asynchronous Varlink connection to hived: calls, one after another, or one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from hive_core import varlink
from hive_core.errors import HIVE, BadFrame, TimedOut, Unreachable, from_wire
from hive_core.varlink import SILENCE, FrameReader, Message

SECONDS: Final = 30.0
_READ: Final = 1 << 16
_REPLIES_MOST: Final = 64  # that wait; then reading pauses


def wire_method(operation: str) -> str:
    """`list_agents` as `org.hive.Broker.ListAgents`."""
    return HIVE + "".join(map(str.capitalize, operation.split("_")))


@dataclass(slots=True, eq=False)
class DaemonConnection:
    """`closed` is set when hived, or this program, has ended the connection."""

    writer: asyncio.StreamWriter
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    _replies: asyncio.Queue[Message | None] = field(
        default_factory=lambda: asyncio.Queue(_REPLIES_MOST)
    )
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, path: Path) -> Self:
        try:
            reader, writer = await asyncio.open_unix_connection(str(path))
        except OSError as error:
            raise Unreachable(f"cannot reach {path}: {error.strerror or error}") from error
        connection = cls(writer)
        connection._reading = asyncio.create_task(connection._read(reader))
        return connection

    async def call(
        self, operation: str, parameters: Message | None = None, seconds: float = SECONDS
    ) -> Message:
        """The reply's parameters. HiveError: what hived answers, Unreachable or TimedOut."""
        async with self._turn:
            try:
                self._send(operation, parameters or {})
                async with asyncio.timeout(seconds):
                    return _parameters(await self._receive())
            except TimeoutError as error:
                self.close()
                raise TimedOut(SILENCE) from error
            except asyncio.CancelledError:
                self.close()  # the next reply would be that of this call
                raise

    async def stream(
        self, operation: str, parameters: Message | None = None
    ) -> AsyncIterator[Message]:
        """Yield each reply of a call with `more`. A caller that stops early must close it."""
        async with self._turn:
            self._send(operation, parameters or {}, more=True)
            is_whole = False
            try:
                while not is_whole:
                    reply = await self._receive()
                    is_whole = not reply.get("continues")
                    yield _parameters(reply)
            finally:
                if not is_whole:
                    self.close()

    def close(self) -> None:
        self.closed.set()
        self.writer.close()
        if self._reading is not None:
            self._reading.cancel()

    def _send(self, operation: str, parameters: Message, *, more: bool = False) -> None:
        if self.closed.is_set():
            raise Unreachable("the connection to hived is closed")
        message: Message = {"method": wire_method(operation), "parameters": parameters}
        self.writer.write(varlink.encode({**message, "more": True} if more else message))

    async def _receive(self) -> Message:
        reply = await self._replies.get()
        if reply is None:
            raise Unreachable("hived closed the connection")
        return reply

    async def _read(self, reader: asyncio.StreamReader) -> None:
        frames = FrameReader()
        try:
            while data := await reader.read(_READ):
                for frame in frames.feed(data):
                    await self._replies.put(varlink.decode(frame))
        except (OSError, BadFrame):
            pass  # it ends as if hived had closed
        finally:
            self.closed.set()
            self.writer.close()
            if self._replies.full():
                self._replies.get_nowait()
            self._replies.put_nowait(None)


def _parameters(reply: Message) -> Message:
    parameters = reply.get("parameters")
    values = parameters if isinstance(parameters, dict) else {}
    error = reply.get("error")
    if error is not None:
        raise from_wire(str(error), values)
    return values
