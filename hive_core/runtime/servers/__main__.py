"""`python3 -m hive_core.runtime.servers DESCRIPTOR`: the client of an agent's MCP servers.

The descriptor is its end of the socket to the session. It decides nothing: the session asks it to
start a server or to call a tool, after hived granted that call. It ends with its session, and its
servers end with it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from typing import Final

from hive_core.runtime.connection import Line, LineTooLong, SessionClosed, SessionConnection
from hive_core.runtime.servers.server import RunningServer, ServerCommand

_CALLS_MOST: Final = 32


class ServersChild:
    """Runs the servers of one session, and the calls of their tools."""

    def __init__(self, session: SessionConnection) -> None:
        self._session = session
        self._servers: dict[str, RunningServer] = {}
        self._calls: dict[object, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Serve until the session ends; then end everything."""
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    await self._hear(await self._session.receive(), group)
            except SessionClosed:
                pass
            for call in self._calls.values():
                call.cancel()
            for server in self._servers.values():
                server.stop()

    async def _hear(self, line: Line, group: asyncio.TaskGroup) -> None:
        match line.get("type"):
            case "start":
                server = RunningServer(ServerCommand.of(line), self._session.send)
                if (before := self._servers.get(server.command.name)) is not None:
                    before.stop()
                self._servers[server.command.name] = server
                server.task = group.create_task(server.run())
            case "call":
                self._begin_call(line, group)
            case "cancel":
                if (call := self._calls.get(line.get("id"))) is not None:
                    call.cancel()
            case _:
                pass

    def _begin_call(self, line: Line, group: asyncio.TaskGroup) -> None:
        id_ = line.get("id")
        call = group.create_task(self._call(line))
        self._calls[id_] = call
        call.add_done_callback(lambda _: self._calls.pop(id_, None))

    async def _call(self, line: Line) -> None:
        server = self._servers.get(str(line.get("server")))
        if server is None or len(self._calls) > _CALLS_MOST:
            content, is_error = "the server does not run, or too many calls run", True
        else:
            content, is_error = await server.call(line)
        answer = {"type": "result", "id": line.get("id"), "content": content, "is_error": is_error}
        try:
            await self._session.send(answer)
        except LineTooLong:
            await self._session.send({**answer, "content": "the result is too long"})


def main() -> None:
    """Serve the session whose descriptor is named."""
    with socket.socket(fileno=int(sys.argv[1])) as end, suppress(KeyboardInterrupt):
        asyncio.run(ServersChild(SessionConnection(end)).serve())


if __name__ == "__main__":
    main()
