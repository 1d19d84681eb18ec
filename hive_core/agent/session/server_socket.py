"""The tools of the agent's own MCP servers for a CLI: a socket beside its process.

`hive-agent mcp` lists and calls them here. The session takes the grant for each call, as it does
for the built-in runtime, so whoever else of the container connects gets no more than that.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.agent.reconnect import Link, new_key, wire_name
from hive_core.agent.server_tools import CALL, LIST
from hive_core.agent.session.server_calls import ServerCallRunner
from hive_core.agent.session.servers import McpServers, ServerTool
from hive_core.agent.session.state import ToolCall
from hive_core.agent.task_run import mapping
from hive_core.errors import BadFrame, HiveError, InvalidArgument
from hive_core.varlink import FRAME_LIMIT, FrameReader, Message, decode, encode

_AT_ONCE: Final = 8  # connections
_CONTENT_MOST: Final = FRAME_LIMIT // 8
_READ: Final = 65536
_PAUSE: Final = 0.1


class ServerToolSocket:
    """Serves one process of a CLI, in one turn after another."""

    def __init__(self, path: Path, servers: McpServers, broker: str) -> None:
        self._servers = servers
        self._broker = broker
        self._tools: Mapping[str, ServerTool] = {}
        self._task = ""
        self._stop = threading.Event()
        self._running: set[ServerCallRunner] = set()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o666)  # the folder is root's; each call needs a grant
        self._listener.listen(_AT_ONCE)
        threading.Thread(target=self._accept, name="server tools", daemon=True).start()

    def begin_turn(self, tools: Sequence[ServerTool], task: str) -> None:
        """Offer these tools from now on. Calls of the turn before are ended."""
        with self._lock:
            self._tools, self._task = {tool.name: tool for tool in tools}, task
        self._kill_calls()

    def close(self) -> None:
        """End the calls that run, and serve nobody any more."""
        self._stop.set()
        self.begin_turn([], "")
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def reply(self, message: Message) -> Message:
        """The reply to one message."""
        params = mapping(message.get("parameters"))
        try:
            match message.get("method"):
                case method if method == wire_name(LIST):
                    return {"parameters": {"tools": self._rows()}}
                case method if method == wire_name(CALL):
                    return {"parameters": self._call(params)}
                case method:
                    raise InvalidArgument(
                        f"there is no method {str(method)[:64]!r}", field="method"
                    )
        except HiveError as error:
            return {"error": error.wire, "parameters": error.parameters}

    def _accept(self) -> None:
        """Have a thread serve each connection, up to a limit."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._stop.wait(_PAUSE):
                    return
                continue  # no descriptor is free, or the peer was gone before it was accepted
            if self._places.acquire(blocking=False):
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        try:
            with connection, suppress(OSError, BadFrame):
                while data := connection.recv(_READ):
                    for frame in reader.feed(data):
                        connection.sendall(encode(self.reply(decode(frame))))
        finally:
            self._places.release()

    def _rows(self) -> list[Message]:
        return [
            {"name": tool.name, "description": tool.description, "schema": dict(tool.schema)}
            for tool in self._tools.values()
        ]

    def _call(self, params: Mapping[str, object]) -> Message:
        with self._lock:
            tool, task = self._tools.get(str(params.get("name"))), self._task
        if tool is None:
            name = str(params.get("name"))[:64]
            raise InvalidArgument(f"the MCP server of {name!r} does not run", field="name")
        arguments = dict(mapping(params.get("arguments")))
        with Link(self._broker) as link:
            runner = ServerCallRunner(link, self._servers, self._stop)
            self._running.add(runner)
            try:
                done = runner.run(ToolCall("", tool.name, arguments, new_key()), tool, task)
            finally:
                self._running.discard(runner)
        content = done.content[:_CONTENT_MOST].encode(errors="replace").decode()
        return {"content": content, "is_error": done.is_error}

    def _kill_calls(self) -> None:
        for runner in [*self._running]:
            runner.kill()
