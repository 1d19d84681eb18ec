"""The runtime of a session: `python3 -m hive_core.runtime.child [DESCRIPTOR]`.

The descriptor is its end of the socket to the session; 3 when none is named.

It holds no state that its session could not give it again, runs no tool and writes no file. It ends
when its session closes the connection.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import sys
from contextlib import suppress
from typing import Final

import httpx2

from hive_core.runtime.connection import Line, SessionClosed, SessionConnection
from hive_core.runtime.failure import failure_fields
from hive_core.runtime.loop import TurnLoop
from hive_core.runtime.turn_request import TurnRequest, with_system
from hive_core.runtime.wire import build_model, http_client

DESCRIPTOR: Final = 3
SOCKET: Final = "/run/hive/model.sock"


class RuntimeChild:
    """Serves the turns of one session, one at a time."""

    def __init__(self, session: SessionConnection, client: httpx2.AsyncClient) -> None:
        self._session = session
        self._client = client
        self._loop: TurnLoop | None = None
        self._task: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Serve until the session ends."""
        await self._session.send({"type": "ready", "python": platform.python_version()})
        # A fault of a turn ends the process: its session starts another one from the log.
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    line = await self._session.receive()
                except SessionClosed:
                    await self._cancel()
                    return
                await self._hear(line, group)

    async def _hear(self, line: Line, group: asyncio.TaskGroup) -> None:
        match line.get("type"):
            case "turn":
                await self._cancel()
                history = self._session.take_descriptor() if line.get("history") else b""
                self._task = group.create_task(self._run(line, history))
            case "cancel":
                await self._cancel()
            case _:
                if self._loop is not None:
                    self._loop.hear(line)

    async def _run(self, line: Line, history: bytes) -> None:
        """One turn, from its line to its `end`."""
        try:
            end = await self._run_loop(line, history)
        except asyncio.CancelledError:
            end = {"type": "end", "status": "cancelled", "text": ""}
        finally:
            self._loop = None
        await self._session.send(end)

    async def _run_loop(self, line: Line, history: bytes) -> Line:
        try:
            request = TurnRequest.of(line, history)
            await self._render_system(request)
            request.history = with_system(request.history, request.system)
            model = build_model(request.choice, self._client)
        except ValueError as error:
            return {"type": "end", "status": "error", "text": "", **failure_fields(error)}
        self._loop = loop = TurnLoop(self._session, request, model)
        try:
            return await loop.run()
        except asyncio.CancelledError:
            return loop.end("cancelled")

    async def _render_system(self, request: TurnRequest) -> None:
        """Render the system prompt of a new conversation; the session keeps it."""
        if request.context and not request.system:
            # Imported here: only the first turn of a conversation needs it.
            from hive_core.runtime.prompts import render, render_system  # noqa: PLC0415

            name = request.template
            request.system = (
                render(name, request.context) if name else render_system(request.context)
            )
            await self._session.send({"type": "system", "text": request.system})

    async def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with suppress(SessionClosed, asyncio.CancelledError):
                await self._task
        self._task = None


async def serve(end: socket.socket, path: str) -> None:
    """Serve a session behind this socket, with the model behind that path."""
    async with http_client(path) as client:
        with suppress(SessionClosed):
            await RuntimeChild(SessionConnection(end), client).serve()


def main() -> None:
    """Entry point."""
    end = socket.socket(fileno=int(sys.argv[1]) if sys.argv[1:] else DESCRIPTOR)
    asyncio.run(serve(end, os.environ.get("HIVE_MODEL_SOCKET", SOCKET)))


if __name__ == "__main__":
    main()
