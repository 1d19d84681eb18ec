"""A server as a process: lines of bounded length on its standard input and output.

The SDK has a transport like this one, which keeps a line of any length in memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mcp import types
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from hive_core.runtime.servers.offered_tools import plain_text

LINE_MOST: Final = 4 << 20
NO_MESSAGES_MOST: Final = 20  # lines that are not messages, before the server counts as failed
_TAIL: Final = 1000
_MERCY: Final = 1.0


@dataclass(slots=True)
class ServerProcess:
    """How one server is started, and what became of it."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    fault: str = ""  # why its connection was ended
    _tail: bytearray = field(default_factory=bytearray)
    _process: asyncio.subprocess.Process | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[MessageStream, None]:
        """The transport of the SDK; with its end all processes of the server end."""
        process = await asyncio.create_subprocess_exec(
            *self.words, cwd=self.folder, env=dict(self.environment), start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, limit=LINE_MOST,
        )  # fmt: skip
        self._process = process
        into, out, errors = process.stdin, process.stdout, process.stderr
        if into is None or out is None or errors is None:
            raise OSError("the server has no pipes")
        async with create_client_server_memory_streams() as (client, (leaving, arriving)):
            tasks = [
                asyncio.create_task(self._read(out, arriving)),
                asyncio.create_task(self._write(into, leaving)),
                asyncio.create_task(self._read_errors(errors)),
            ]
            try:
                yield client
            finally:
                for task in tasks:
                    task.cancel()
                # A stream that the client has closed already is an error of the task alone.
                await asyncio.gather(*tasks, return_exceptions=True)
                await self.end()

    @property
    def reason(self) -> str:
        """Why it is gone, with its last words."""
        code = self._process.returncode if self._process else None
        why = self.fault or ("it ended" if code is None else f"it ended with {code}")
        tail = plain_text(self._tail.decode(errors="replace"), _TAIL)
        return f"{why}: {tail}" if tail else why

    async def wait(self) -> None:
        """Wait until its connection or its process has ended."""
        await self._ended.wait()

    async def end(self) -> None:
        """End the process with all that it started, which are in a session of their own."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _MERCY)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _MERCY)

    async def _read(
        self, out: asyncio.StreamReader, arriving: WriteStream[SessionMessage | Exception]
    ) -> None:
        """Pass its messages on until it ends or its output is not a message."""
        wrong = 0
        try:
            async with arriving:
                while line := await self._next_line(out):
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except (ValueError, RecursionError):
                        wrong += 1
                        if wrong > NO_MESSAGES_MOST:
                            self.fault = "it sends what is not JSON-RPC"
                            break
                        continue
                    await arriving.send(SessionMessage(message))
        finally:
            self._ended.set()

    async def _next_line(self, stream: asyncio.StreamReader) -> bytes:
        """The next line; empty at the end."""
        try:
            return await stream.readline()
        except ValueError:
            self.fault = f"it sent a line of more than {LINE_MOST} bytes"
            return b""

    async def _write(
        self, into: asyncio.StreamWriter, leaving: ReadStream[SessionMessage | Exception]
    ) -> None:
        """Send it the messages of the client."""
        with suppress(OSError):
            async for message in leaving:
                if isinstance(message, SessionMessage):
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    into.write(text.encode() + b"\n")
                    await into.drain()

    async def _read_errors(self, errors: asyncio.StreamReader) -> None:
        """Keep its last words; a server may write as much as it likes."""
        while data := await errors.read(1 << 16):
            self._tail += data
            del self._tail[:-_TAIL]
