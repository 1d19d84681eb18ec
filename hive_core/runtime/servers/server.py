"""One MCP server of an agent: started, asked for its tools, and called, all within bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp import types
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from hive_core import VERSION
from hive_core.runtime.connection import Line, SessionClosed
from hive_core.runtime.servers.offered_tools import OfferedTools, plain_text, result_text
from hive_core.runtime.servers.process import ServerProcess

START_SECONDS: Final = 20.0
_PATIENCE: Final = 5.0
_PAGES_MOST: Final = 20
_LISTED_MOST: Final = 1000
_ERROR_MOST: Final = 2000

Send = Callable[[Line], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """What the session says of a server. `tools`: the names that are wanted; None for all."""

    name: str
    words: tuple[str, ...]
    folder: Path
    tools: frozenset[str] | None
    seconds: float = START_SECONDS

    @classmethod
    def of(cls, line: Line) -> ServerCommand:
        words, tools, seconds = line.get("command"), line.get("tools"), line.get("seconds")
        return cls(
            str(line["server"]), tuple(map(str, words if isinstance(words, list) else [])),
            Path(str(line["folder"])),
            frozenset(map(str, tools)) if isinstance(tools, list) else None,
            float(seconds) if isinstance(seconds, int | float) else START_SECONDS,
        )  # fmt: skip

    @property
    def environment(self) -> Mapping[str, str]:
        """A clean one: nothing of the session's own."""
        return {
            "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": str(self.folder),
        }  # fmt: skip


class RunningServer:
    """One server. `run` ends when it is gone; `task`: what runs that."""

    def __init__(self, command: ServerCommand, send: Send) -> None:
        self.command = command
        self.task: asyncio.Task[None] | None = None
        self._send = send
        self._process = ServerProcess(command.words, command.folder, command.environment)
        self._client: Client | None = None
        self._gone = asyncio.Event()
        self._told = asyncio.Event()
        self._reason = "it was stopped"

    async def run(self) -> None:
        """Start it, say which tools it has, and keep it until it ends or is stopped."""
        try:
            await self._serve()
            reason = self._process.reason
        except TimeoutError:
            reason = f"it did not answer within {self.command.seconds:g} s"
        # Whatever a foreign program does is a sentence for its agent.
        except Exception as error:  # noqa: BLE001
            reason = self._process.reason if _is_gone(error) else plain_error(error)
        finally:
            self._client = None
            self._gone.set()
            await self._process.end()
        self._reason = reason
        await self._tell({"type": "failed", "server": self.command.name, "error": reason})
        self._told.set()

    def stop(self) -> None:
        """End it."""
        self._gone.set()
        if self._client is None and self.task is not None:
            self.task.cancel()

    async def call(self, line: Line) -> tuple[str, bool]:
        """Call a tool; whatever happens is a text for the model, and whether it is an error."""
        seconds = line.get("seconds")
        if self._client is None:
            return await self._end_reason(), True
        try:
            async with asyncio.timeout(seconds if isinstance(seconds, int | float) else None):
                return await self._call(self._client, line)
        except TimeoutError:
            return f"the call did not end in {seconds} s, its effect is unknown", True
        except Exception as error:  # noqa: BLE001 - as above
            reason = plain_error(error)
            if _is_gone(error):
                reason = f"{await self._end_reason()}; the effect of the call is unknown"
            return reason, True

    async def _call(self, client: Client, line: Line) -> tuple[str, bool]:
        arguments = line.get("arguments")
        result = await client.call_tool(
            str(line.get("tool")), arguments if isinstance(arguments, dict) else {}
        )
        return result_text(result), result.is_error is True

    async def _end_reason(self) -> str:
        """Why it is gone, once its session has been told: the session starts it again."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._told.wait(), _PATIENCE)
        return f"the server {self.command.name} has ended: {self._reason}"

    async def _serve(self) -> None:
        deadline = asyncio.timeout(self.command.seconds)
        info = types.Implementation(name="hive", version=VERSION)
        async with deadline, Client(self._process.connect(), client_info=info) as client:
            offered = OfferedTools(self.command.name, self.command.tools)
            offered.read(await _list_tools(client))
            deadline.reschedule(None)
            self._client = client
            await self._tell({
                "type": "tools", "server": self.command.name, "rows": offered.rows,
                "warnings": offered.warnings,
            })  # fmt: skip
            await self._wait()

    async def _wait(self) -> None:
        """Wait until it is stopped or has ended."""
        stopped = asyncio.ensure_future(self._gone.wait())
        ended = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait((stopped, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._client = None
            stopped.cancel()
            ended.cancel()

    async def _tell(self, line: Line) -> None:
        try:
            await self._send(line)
        except SessionClosed:
            self._gone.set()


async def _list_tools(client: Client) -> list[types.Tool]:
    """All its tools, page by page."""
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(_PAGES_MOST):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) >= _LISTED_MOST:
            break
    return tools[:_LISTED_MOST]


def plain_error(error: BaseException) -> str:
    """A fault as one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return plain_text(str(error), _ERROR_MOST)
    return plain_text(f"{type(error).__name__}: {error}", _ERROR_MOST)


def _is_gone(error: BaseException) -> bool:
    """Whether the connection was lost, so that the process says why."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return isinstance(error, MCPError) and error.error.code == types.CONNECTION_CLOSED
