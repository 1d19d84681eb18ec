"""The agent's own MCP servers, as its session has them: which tools they offer, and their calls.

They are children of one process of uid 1000 with the libraries for them, which is started with the
first turn and ended with the session. A call is made only under a grant of the tool `mcp`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.output import complaint
from hive_core.agent.session.runtimes.builtin import (
    BuiltinRuntime,
    Line,
    RuntimeCommand,
    RuntimeGone,
)
from hive_core.agent.session.server_settings import ServerSettings
from hive_core.errors import HiveError

MODULE: Final = "hive_core.runtime.servers"
START_SECONDS: Final = 20.0
CALL_SECONDS: Final = 120.0
# The process itself starts in about a second, several at once on a busy machine in a few.
_PATIENCE: Final = 20.0
_MERCY: Final = 4.0  # seconds that it has to end the servers
_RETRY: Final = 300.0  # seconds until a server that is not required is tried again


class RequiredServerFailed(HiveError):
    """An MCP server that the configuration requires cannot be used."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its model sees it; `tool` is its name at the server."""

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, object]


@dataclass(slots=True)
class _ServerState:
    """What is known of one server. `tools` None: it does not run."""

    settings: ServerSettings
    tools: list[ServerTool] | None = None
    fault: str = ""
    failed_at: float = 0.0
    starts: bool = False


@dataclass(slots=True)
class PendingServerCall:
    """A call that runs. `result` is set with `done`."""

    id: int
    done: threading.Event = field(default_factory=threading.Event)
    content: str = ""
    is_error: bool = True


class McpServers:
    """All servers of one session; used by the threads of its conversations."""

    def __init__(
        self, command: RuntimeCommand, settings: Sequence[ServerSettings], folder: Path,
        seconds: float = START_SECONDS,
    ) -> None:  # fmt: skip
        self._command = command
        self._folder = folder
        self._seconds = seconds
        self._states = {row.name: _ServerState(row) for row in settings}
        self._calls: dict[int, PendingServerCall] = {}
        self._last_call = 0
        self._process: BuiltinRuntime | None = None
        self._is_closed = False
        self._changed = threading.Condition(threading.RLock())

    @property
    def names(self) -> list[str]:
        """The servers of the configuration."""
        return list(self._states)

    def tools(self) -> list[ServerTool]:
        """The tools of all servers that run; starts what does not.

        RequiredServerFailed where a server that is required cannot be started.
        """
        if not self._states:
            return []
        with self._changed:
            for state in self._states.values():
                if self._must_start(state):
                    self._start(state)
            self._changed.wait_for(
                lambda: not any(state.starts for state in self._states.values()),
                self._seconds + _PATIENCE,
            )
            for state in self._states.values():
                if state.starts:
                    self._note_failure(state, "it did not start in time")
                if state.settings.required and state.tools is None:
                    raise RequiredServerFailed(
                        f"the required MCP server {state.settings.name} failed: {state.fault}"
                    )
            return [tool for state in self._states.values() for tool in state.tools or ()]

    def begin_call(self, tool: ServerTool, arguments: Mapping[str, object]) -> PendingServerCall:
        """Begin a call; `done` is set when it has ended."""
        with self._changed:
            self._last_call += 1
            call = PendingServerCall(self._last_call)
            self._calls[call.id] = call
            try:
                self._open_process().send({
                    "type": "call", "id": call.id, "server": tool.server, "tool": tool.tool,
                    "arguments": dict(arguments), "seconds": CALL_SECONDS,
                })  # fmt: skip
            except RuntimeGone as error:
                self._end_call(call.id, f"cannot call {tool.name}: {error.reason}", is_error=True)
        return call

    def cancel(self, call: PendingServerCall) -> None:
        """End a call; what it did stays."""
        with self._changed:
            if self._process is not None and call.id in self._calls:
                with suppress(RuntimeGone):
                    self._process.send({"type": "cancel", "id": call.id})
            self._end_call(call.id, "stopped, effect unknown", is_error=True)

    def close(self) -> None:
        """End the servers."""
        with self._changed:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.close(_MERCY)

    def _must_start(self, state: _ServerState) -> bool:
        if state.tools is not None or state.starts:
            return False
        waits = state.fault and not state.settings.required
        return not waits or time.monotonic() - state.failed_at > _RETRY

    def _start(self, state: _ServerState) -> None:
        row = state.settings
        try:
            self._open_process().send({
                "type": "start", "server": row.name, "command": list(row.command),
                "folder": str(self._folder), "seconds": self._seconds,
                "tools": None if row.tools is None else list(row.tools),
            })  # fmt: skip
        except RuntimeGone as error:
            self._note_failure(state, error.reason)
        else:
            state.starts = True

    def _open_process(self) -> BuiltinRuntime:
        if self._is_closed:
            raise RuntimeGone("the session ends")
        if self._process is None:
            events: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
            self._process = self._command.open(events, module=MODULE)
            threading.Thread(
                target=self._listen, args=(self._process, events), name="servers", daemon=True
            ).start()
        return self._process

    def _listen(
        self, process: BuiltinRuntime, events: queue.SimpleQueue[tuple[str, object]]
    ) -> None:
        """Take what the process says, until it is gone."""
        while True:
            kind, value = events.get()
            with self._changed:
                if kind == "line" and isinstance(value, dict):
                    self._hear(value)
                    self._changed.notify_all()
                    continue
                if self._process is process:
                    self._process = None
                self._end_all(str(value))
                self._changed.notify_all()
            process.close(_MERCY)
            return

    def _hear(self, line: Line) -> None:
        state = self._states.get(str(line.get("server")))
        match line.get("type"):
            case "tools" if state is not None:
                state.starts, state.fault = False, ""
                state.tools = _tools(state.settings.name, line.get("rows"))
                for warning in _texts(line.get("warnings")):
                    complaint(f"MCP server {state.settings.name}: {warning}")
            case "failed" if state is not None:
                self._note_failure(state, str(line.get("error"))[:1500])
            case "result":
                self._end_call(
                    line.get("id"), str(line.get("content")), is_error=bool(line.get("is_error"))
                )
            case _:
                pass

    def _note_failure(self, state: _ServerState, why: str) -> None:
        state.tools, state.starts, state.fault = None, False, why
        state.failed_at = time.monotonic()
        complaint(f"MCP server {state.settings.name} does not run: {why}")

    def _end_all(self, why: str) -> None:
        for state in self._states.values():
            if state.starts or state.tools is not None:
                self._note_failure(state, why)
        for id_ in list(self._calls):
            self._end_call(id_, f"{why}, effect unknown", is_error=True)

    def _end_call(self, id_: object, content: str, *, is_error: bool) -> None:
        call = self._calls.pop(id_, None) if isinstance(id_, int) else None
        if call is not None:
            call.content, call.is_error = content, is_error
            call.done.set()


def _tools(server: str, rows: object) -> list[ServerTool]:
    """The rows that the process sends, as far as they have the form of a tool."""
    tools = []
    for row in rows if isinstance(rows, list) else []:
        schema = row.get("schema") if isinstance(row, dict) else None
        if isinstance(schema, dict) and str(row.get("name")).startswith(f"mcp__{server}__"):
            tools.append(ServerTool(
                str(row["name"]), server, str(row.get("tool")), str(row.get("description")), schema
            ))  # fmt: skip
    return tools


def _texts(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []
