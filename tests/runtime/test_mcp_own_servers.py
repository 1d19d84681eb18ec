"""`hive-agent mcp` with the tools of own MCP servers, which the session calls (row Q46)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hive_core.agent.server_tools import CALL, LIST, SOCKET_NAME, socket_path
from hive_core.errors import NotAllowed
from hive_core.varlink import Message

if TYPE_CHECKING:  # half a second to import, in each process that only collects the tests
    from mcp import types

    from hive_core.runtime.mcp.server import AgentTools

ECHO = {"name": "mcp__own__echo", "description": "Say it.", "schema": {"type": "object"}}


@dataclass
class FakeService:
    """Answers calls from a table, and keeps what it was asked."""

    answers: dict[str, Message]
    asked: list[tuple[str, Message]] = field(default_factory=list)

    async def call(self, operation: str, params: Message) -> Message:
        self.asked.append((operation, params))
        if operation not in self.answers:
            raise NotAllowed("cannot use mcp: the plan waits for approval")
        return self.answers[operation]


def call(tools: AgentTools, name: str, arguments: Message) -> types.CallToolResult:
    from mcp import types  # noqa: PLC0415

    context: Any = None
    params = types.CallToolRequestParams(name=name, arguments=arguments)

    async def run() -> types.CallToolResult:
        await tools.list_tools(context, None)
        return await tools.call_tool(context, params)

    return asyncio.run(run())


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    return str(getattr(block, "text", ""))


def test_a_tool_of_an_own_server_is_called_by_the_session_and_not_by_the_broker() -> None:
    from hive_core.runtime.mcp.server import AgentTools  # noqa: PLC0415

    broker = FakeService({"list_toolset": {"tools": []}})
    answer: Message = {"content": "you said hi", "is_error": False}
    session = FakeService({LIST: {"tools": [ECHO]}, CALL: answer})
    result = call(AgentTools(broker, session), "mcp__own__echo", {"text": "hi"})
    assert (text(result), result.is_error) == ("you said hi", False)
    assert [name for name, _ in broker.asked] == ["list_toolset"]
    assert session.asked[-1] == (CALL, {"name": "mcp__own__echo", "arguments": {"text": "hi"}})


def test_a_call_that_hived_does_not_grant_is_an_error_that_the_model_reads() -> None:
    from hive_core.runtime.mcp.server import AgentTools  # noqa: PLC0415

    session = FakeService({LIST: {"tools": [ECHO]}})
    tools = AgentTools(FakeService({"list_toolset": {"tools": []}}), session)
    result = call(tools, "mcp__own__echo", {})
    assert result.is_error
    assert "the plan waits for approval" in json.loads(text(result))["reason"]


def test_the_socket_of_the_session_is_beside_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVE_MESSAGE_FILE", raising=False)
    assert socket_path() is None
    monkeypatch.setenv("HIVE_MESSAGE_FILE", str(tmp_path / "id"))
    assert socket_path() is None
    (tmp_path / SOCKET_NAME).touch()
    assert socket_path() == tmp_path / SOCKET_NAME
