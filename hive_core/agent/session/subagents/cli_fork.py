"""Named sub-agents of an agent whose model is run by a CLI.

The CLI calls `hive_fork_subagent` over MCP, and its session runs the sub-agent, on the built-in
runtime. A clone would need the conversation, which the CLI keeps in a form of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.agent.session.context import TurnContext
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.server_socket import SessionTool, SessionToolCall
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.state import ToolCall
from hive_core.agent.session.subagents.chain import SubagentChain
from hive_core.agent.session.subagents.fork import ForkRunner
from hive_core.agent.session.toolset import FORK
from hive_core.agent.task_run import mapping
from hive_core.errors import Conflict
from hive_core.varlink import Message

# Less than CLIs wait for the answer of a tool.
SECONDS_MOST: Final = 540
_ABOUT: Final = (
    "Run a sub-agent of your configuration in your container for one task, wait for it, and return"
    " its result: status, content, error and metadata. It begins with the task alone."
)


@dataclass(frozen=True, slots=True)
class CliForkTool(SessionTool):
    """The tool in one turn of a conversation."""

    services: SessionServices
    conversation: OpenConversation
    context: TurnContext

    @property
    def row(self) -> Message:
        (row,) = [row for row in self.context.toolset.rows if row["name"] == FORK]
        schema = {**mapping(row.get("schema")), "required": ["agent", "task"]}
        return {"name": FORK, "description": _ABOUT, "schema": schema}

    def open_call(self) -> SessionToolCall:
        link = self.services.open_link()
        chain = SubagentChain(self.services, link)
        runner = ForkRunner(self.services, link, self.conversation, self.context, chain)
        return _CliForkCall(self.conversation, link, runner)


@dataclass(frozen=True, slots=True, eq=False)
class _CliForkCall(SessionToolCall):
    conversation: OpenConversation
    link: Link
    runner: ForkRunner

    def run(self, arguments: Mapping[str, object], key: str) -> Message:
        turn = self.conversation.state.turn
        if turn is None:
            raise Conflict("no turn runs that could have a sub-agent")
        asked = arguments.get("timeout_seconds")
        seconds = asked if isinstance(asked, int) and asked else SECONDS_MOST
        call = ToolCall(
            key, FORK, {**arguments, "timeout_seconds": min(seconds, SECONDS_MOST)}, key
        )
        with self.link:
            answer = self.runner.run(call, turn)
        return {"content": answer.content, "is_error": answer.is_error}

    def kill(self) -> None:
        self.runner.kill()


def cli_fork_tool(
    services: SessionServices, conversation: OpenConversation, context: TurnContext
) -> SessionTool | None:
    """The tool for the CLI that runs a turn; None where there is no CLI, or no such tool."""
    if services.cli is None or FORK not in context.toolset.kinds:
        return None
    return CliForkTool(services, conversation, context)
