"""Calls of tools of the agent's own MCP servers: each under a grant, and never repeated."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.session.servers import (
    CALL_SECONDS,
    McpServers,
    PendingServerCall,
    ServerTool,
)
from hive_core.agent.session.state import ToolCall
from hive_core.errors import Conflict, HiveError, TimedOut, Unreachable

GRANT_TOOL: Final = "mcp"
_AWAY: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_SPARE: Final = 10.0  # seconds beyond those of the call, for its answer to arrive


class ServerCallRunner:
    """Runs one call after another; another thread may stop the one that runs."""

    def __init__(self, link: Link, servers: McpServers, stop: threading.Event) -> None:
        self._link = link
        self._servers = servers
        self._stop = stop
        self._pending: PendingServerCall | None = None
        self._is_ended = False
        self._lock = threading.Lock()

    def run(self, call: ToolCall, tool: ServerTool, task: str) -> PendingServerCall:
        """The call with its result. HiveError where hived does not grant it."""
        grant = self._grant(call, tool, task)
        status = "killed"
        try:
            with self._lock:
                if self._is_ended:
                    raise Conflict("the turn of this call has ended")
                self._pending = pending = self._servers.begin_call(tool, call.arguments)
            if not pending.done.wait(CALL_SECONDS + _SPARE):
                self._servers.cancel(pending)
            status = "failed" if pending.is_error else "ok"
            return pending
        finally:
            self._pending = None
            # The grant expires by itself if this call fails.
            with suppress(HiveError):
                self._link.ask(
                    "end_tool", grant=grant, status=status, idempotency_key=f"{call.key}:end"
                )

    def kill(self) -> None:
        """End the call that runs now."""
        with self._lock:
            pending = self._pending
        if pending is not None:
            self._servers.cancel(pending)

    def end(self) -> None:
        """End the call that runs now; none begins after it."""
        with self._lock:
            self._is_ended = True
        self.kill()

    def _grant(self, call: ToolCall, tool: ServerTool, task: str) -> str:
        """Ask until an answer comes: the key makes a repetition harmless."""
        tries = 0
        while True:
            try:
                return str(self._link.ask(
                    "use_tool", tool=GRANT_TOOL, argument=[tool.server, tool.tool], task=task,
                    seconds=CALL_SECONDS, idempotency_key=f"{call.key}:grant",
                )["grant"])  # fmt: skip
            except (Unreachable, TimedOut):
                self._link.close()
                if self._stop.wait(_AWAY[min(tries, len(_AWAY) - 1)]):
                    raise
                tries += 1
