"""What the session itself runs for a CLI: a socket beside its process.

`hive-agent mcp` lists and calls here the tools of the agent's own MCP servers, and the one that
forks sub-agents. The session takes the grant for each call of a server, as it does for the built-in
runtime. Only the user of the CLI is served: a sub-agent has a session's tools of its own, or none.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.reconnect import Link, new_key, wire_name
from hive_core.agent.server_tools import CALL, LIST
from hive_core.agent.session.server_calls import ServerCallRunner
from hive_core.agent.session.servers import McpServers, ServerTool
from hive_core.agent.session.state import ToolCall
from hive_core.agent.task_run import mapping
from hive_core.errors import BadFrame, Conflict, HiveError, InvalidArgument
from hive_core.varlink import FRAME_LIMIT, FrameReader, Message, decode, encode

_AT_ONCE: Final = 8  # connections
_CONTENT_MOST: Final = FRAME_LIMIT // 8
_READ: Final = 65536
_PAUSE: Final = 0.1
_CREDENTIALS: Final = struct.Struct("3i")  # unix(7): pid, uid, gid


class SessionToolCall(ABC):
    """One call of a tool that the session runs itself."""

    @abstractmethod
    def run(self, arguments: Mapping[str, object], key: str) -> Message:
        """The answer: `content` and `is_error`."""

    @abstractmethod
    def kill(self) -> None:
        """End the call, from another thread: one that has not begun ends as soon as it does."""


class SessionTool(ABC):
    """A tool that the session runs itself for a CLI, in one turn."""

    @property
    @abstractmethod
    def row(self) -> Message:
        """Its name, description and schema."""

    @abstractmethod
    def open_call(self) -> SessionToolCall:
        """A call, which has not begun."""


@dataclass(slots=True, eq=False)
class TurnTools:
    """What one turn may call. `running`: how to end each of its calls."""

    tools: Mapping[str, ServerTool]
    task: str = ""
    own: SessionTool | None = None
    is_over: bool = False
    running: set[Callable[[], None]] = field(default_factory=set)

    @property
    def rows(self) -> list[Message]:
        rows: list[Message] = [
            {"name": tool.name, "description": tool.description, "schema": dict(tool.schema)}
            for tool in self.tools.values()
        ]
        return rows if self.own is None else [*rows, self.own.row]


class ServerToolSocket:
    """Serves one process of a CLI, in one turn after another. `uid` None: the session's user."""

    def __init__(
        self, path: Path, servers: McpServers | None, broker: str, uid: int | None = None
    ) -> None:
        self._uid = os.geteuid() if uid is None else uid
        self._servers = servers
        self._broker = broker
        self._offered = TurnTools({}, is_over=True)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o666)  # the folder is root's; the kernel says the user of each peer
        self._listener.listen(_AT_ONCE)
        threading.Thread(target=self._accept, name="server tools", daemon=True).start()

    def begin_turn(
        self, tools: Sequence[ServerTool], task: str, own: SessionTool | None = None
    ) -> TurnTools:
        """Offer these tools from now on. Calls of the turn before are ended."""
        offered = TurnTools({tool.name: tool for tool in tools}, task, own)
        with self._lock:
            before, self._offered = self._offered, offered
        self.end_turn(before)
        return offered

    def end_turn(self, offered: TurnTools) -> None:
        """End the calls of a turn, and refuse others. Its tools are listed until the next turn."""
        with self._lock:
            offered.is_over = True
            running = [*offered.running]
        for end_call in running:
            end_call()

    def close(self) -> None:
        """End running calls and close the socket."""
        self._stop.set()
        self.end_turn(self.begin_turn([], ""))
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def reply(self, message: Message) -> Message:
        """The reply to one message."""
        params = mapping(message.get("parameters"))
        try:
            match message.get("method"):
                case method if method == wire_name(LIST):
                    return {"parameters": {"tools": self._offered.rows}}
                case method if method == wire_name(CALL):
                    return {"parameters": self._call(params)}
                case method:
                    raise InvalidArgument(
                        f"this socket does not serve the method {str(method)[:64]!r}",
                        field="method",
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
            if self._is_served(connection) and self._places.acquire(blocking=False):
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()
            else:
                connection.close()

    def _is_served(self, connection: socket.socket) -> bool:
        """Whether the peer is of the user of the CLI; a sub-agent is not."""
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        return int(_CREDENTIALS.unpack(credentials)[1]) == self._uid

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        try:
            with connection, suppress(OSError, BadFrame):
                while data := connection.recv(_READ):
                    for frame in reader.feed(data):
                        connection.sendall(encode(self.reply(decode(frame))))
        finally:
            self._places.release()

    def _call(self, params: Mapping[str, object]) -> Message:
        name, offered = str(params.get("name")), self._offered
        arguments = dict(mapping(params.get("arguments")))
        tool, own = offered.tools.get(name), offered.own
        if own is not None and own.row["name"] == name:
            answer = self._call_own(offered, own, arguments)
        elif tool is not None:
            answer = self._call_server(offered, tool, arguments)
        else:
            raise InvalidArgument(f"the MCP server of {name[:64]!r} does not run", field="name")
        content = str(answer["content"])[:_CONTENT_MOST].encode(errors="replace").decode()
        return {"content": content, "is_error": answer["is_error"]}

    def _call_own(
        self, offered: TurnTools, own: SessionTool, arguments: Mapping[str, object]
    ) -> Message:
        call = own.open_call()
        with self._until_end_of(offered, call.kill):
            return call.run(arguments, new_key())

    def _call_server(
        self, offered: TurnTools, tool: ServerTool, arguments: dict[str, object]
    ) -> Message:
        if self._servers is None:
            raise InvalidArgument("this agent has no MCP servers of its own", field="name")
        with Link(self._broker) as link:
            runner = ServerCallRunner(link, self._servers, self._stop)
            with self._until_end_of(offered, runner.end):
                call = ToolCall("", tool.name, arguments, new_key())
                done = runner.run(call, tool, offered.task)
        return {"content": done.content, "is_error": done.is_error}

    @contextmanager
    def _until_end_of(self, offered: TurnTools, end_call: Callable[[], None]) -> Iterator[None]:
        """Have the end of the turn end a call. Conflict: it has ended since the call was made."""
        with self._lock:
            if offered.is_over:
                raise Conflict("the turn of this call has ended")
            offered.running.add(end_call)
        try:
            yield
        finally:
            with self._lock:
                offered.running.discard(end_call)
