"""The MCP server of one agent: its operations as tools, in both eras of the protocol.

Which tools there are and what a call may do is decided by the daemon behind the agent's own socket.
This process decides nothing and keeps nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final, Protocol

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from hive_core import VERSION
from hive_core.agent import catalog
from hive_core.agent.current_message import current_message
from hive_core.agent.server_tools import CALL, LIST
from hive_core.errors import HiveError, InvalidArgument, MethodNotFound
from hive_core.runtime.mcp.refusals import CalledTool, refusal
from hive_core.varlink import Message

NAME: Final = "hive"
INSTRUCTIONS: Final = (
    "The tools of this agent in its tree of agents: tasks, plans, messages, questions, artifacts,"
    " and the agents below it. A failed call says in `next` what to do."
)
_IN_TURN_OF: Final = "in_turn_of"

_Context = ServerRequestContext[Any]


class OperationCaller(Protocol):
    """The broker, or the session: what answers calls by name."""

    async def call(self, operation: str, params: Message) -> Message:
        """The answer; HiveError where there is none."""
        ...


class AgentTools:
    """The operations that the caller's toolset has, and the tools of its own MCP servers, which
    its session calls; `session`: absent outside a turn of one.
    """

    def __init__(self, broker: OperationCaller, session: OperationCaller | None = None) -> None:
        self._broker = broker
        self._own_servers = session
        self._server_tools: dict[str, types.Tool] = {}
        # Of this connection: the ids of its requests begin anew with the next one.
        self._session = os.urandom(16).hex()
        self._tools: dict[str, types.Tool] = {}
        self._named = _operations_in_turns()

    async def list_tools(
        self, _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """All tools, as they are now."""
        try:
            await self._read_toolset()
        except HiveError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        return types.ListToolsResult(tools=[*self._tools.values(), *self._server_tools.values()])

    async def call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """One call. Whatever is wrong with it is a result, which the model reads."""
        try:
            if params.name in self._server_tools and self._own_servers is not None:
                return await _call_server_tool(self._own_servers, params)
            reply = await self._call(params.name, params.arguments or {}, context.request_id)
        except HiveError as error:
            return _tool_result(refusal(error, self._tool_of_call(params.name)), is_error=True)
        return _tool_result(reply)

    async def _call(
        self, name: str, arguments: Mapping[str, object], request: types.RequestId | None
    ) -> Message:
        if name not in self._tools:
            await self._read_toolset()
        tool = self._tools.get(name)
        if tool is None:
            raise MethodNotFound(name)
        for key in arguments:
            if key not in tool.input_schema["properties"]:
                raise InvalidArgument(f"{name} has no parameter {key[:64]!r}", field=key[:64])
        values = {key: value for key, value in arguments.items() if value is not None}
        if name in self._named and (message := current_message()):
            values[_IN_TURN_OF] = message
        if tool.annotations is None or not tool.annotations.read_only_hint:
            values["idempotency_key"] = self._key(request)
        return await self._broker.call(name, values)

    async def _read_toolset(self) -> None:
        rows = (await self._broker.call("list_toolset", {})).get("tools")
        tools = [
            _tool(row) for row in (rows if isinstance(rows, list) else [])
            if row["kind"] == "operation"
        ]  # fmt: skip
        self._tools = {tool.name: tool for tool in tools}
        if self._own_servers is not None:
            rows = (await self._own_servers.call(LIST, {})).get("tools")
            own = [_server_tool(row) for row in (rows if isinstance(rows, list) else [])]
            self._server_tools = {tool.name: tool for tool in own}

    def _key(self, request: types.RequestId | None) -> str:
        """The same key for the same request of this connection, so it has one effect."""
        # 1 and "1" are two ids.
        text = json.dumps([self._session, request])
        return hashlib.sha256(text.encode()).hexdigest()

    def _tool_of_call(self, name: str) -> CalledTool:
        tool = self._tools.get(name)
        return CalledTool(name, tool.input_schema if tool else {}, self._tools)


def build_server(tools: AgentTools) -> Server[Any]:
    """The server that offers these tools."""
    return Server(
        NAME, version=VERSION, instructions=INSTRUCTIONS,
        on_list_tools=tools.list_tools, on_call_tool=tools.call_tool,
    )  # fmt: skip


def _tool(row: Mapping[str, Any]) -> types.Tool:
    """A row of `list_toolset` as a tool."""
    hints = row["hints"]
    return types.Tool(
        name=row["name"], description=row["description"], input_schema=row["schema"],
        annotations=types.ToolAnnotations(
            read_only_hint=hints["read_only"], destructive_hint=hints["destructive"],
            idempotent_hint=hints["idempotent"], open_world_hint=hints["open_world"],
        ),
    )  # fmt: skip


def _server_tool(row: Mapping[str, Any]) -> types.Tool:
    """A tool of an own server. Nothing is known of it, so it may change anything."""
    return types.Tool(
        name=row["name"], description=row["description"], input_schema=row["schema"],
        annotations=types.ToolAnnotations(destructive_hint=True, open_world_hint=True),
    )  # fmt: skip


async def _call_server_tool(
    session: OperationCaller, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """A call is not repeated: what it did before the connection broke is unknown."""
    reply = await session.call(CALL, {"name": params.name, "arguments": params.arguments or {}})
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=str(reply.get("content")))],
        is_error=reply.get("is_error") is True,
    )


def _tool_result(content: Message, *, is_error: bool = False) -> types.CallToolResult:
    """The same facts as structured content and as text: some clients show only one of them."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=content,
        is_error=is_error,
    )  # fmt: skip


def _operations_in_turns() -> frozenset[str]:
    """The operations that name the message for which they are called."""
    return frozenset(
        row.name for row in catalog.load() if any(flag.name == _IN_TURN_OF for flag in row.flags)
    )
