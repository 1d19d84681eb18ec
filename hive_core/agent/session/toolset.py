"""The tools of the agent as its model sees them, and which of them are tools of execution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from hive_core.agent.reconnect import BatchedCall
from hive_core.agent.session.servers import ServerTool
from hive_core.varlink import Message

REPORT: Final = "finish_task"
FORK: Final = "hive_fork_subagent"
FORMER_FORK: Final = "hive_delegate"
SESSION: Final = "session"  # the kind of tools that the session runs itself
SERVER_TOOL: Final = "server"  # the kind of a tool of one of the agent's own MCP servers


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The tools that the session has read last: the broker leaves them out while they are equal."""

    digest: str = ""
    tools: object = ()

    def call(self) -> BatchedCall:
        return BatchedCall("list_toolset", {"known": self.digest})

    def complete(self, reply: Message) -> Message:
        """The reply to this call, with its tools."""
        is_known = bool(self.digest) and reply.get("digest") == self.digest
        return {**reply, "tools": self.tools} if is_known else reply

    @classmethod
    def of(cls, reply: Message) -> KnownTools:
        """The tools of a complete reply."""
        return cls(str(reply.get("digest") or ""), reply.get("tools"))


@dataclass(frozen=True, slots=True)
class ModelToolset:
    """`rows` go to the runtime as they are; `kinds`: operation, execution, session or server.

    `disabled`: a sub-agent sees these and may not call them. `phase` is that of a queen, else
    empty. `server_entries`: those of the agent's list that allow tools of its own MCP servers.
    """

    rows: list[Message] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    profile: str = ""
    disabled: frozenset[str] = frozenset()
    phase: str = ""
    server_entries: tuple[str, ...] = ()
    server_tools: tuple[ServerTool, ...] = ()

    @classmethod
    def of(cls, reply: Message) -> ModelToolset:
        """Read the answer of `list_toolset`."""
        tools, entries = reply.get("tools"), reply.get("server_tools")
        rows = [row for row in (tools if isinstance(tools, list) else []) if isinstance(row, dict)]
        return cls(
            [{key: row.get(key) for key in ("name", "description", "schema")} for row in rows],
            {str(row.get("name")): str(row.get("kind")) for row in rows},
            str(reply.get("profile") or ""),
            phase=str(reply.get("phase") or ""),
            server_entries=tuple(map(str, entries)) if isinstance(entries, list) else (),
        )

    def refusal(self, name: str) -> str:
        """Why a tool that the agent does not have cannot be called."""
        if name in self.disabled:
            why = "[subagents] clone_disable_tools, or a skill of your parent"
            return f"tool disabled: {name} is not for you ({why})"
        if name == FORMER_FORK:
            advice = "" if FORK in self.kinds else "; you lack its capability, subagents"
            return f"{FORMER_FORK} is now {FORK}: call that, with agent and task{advice}"
        names = ", ".join(self.kinds)
        return f"tool {name[:64]!r} does not exist; the tools are {names}"

    def with_servers(self, tools: Iterable[ServerTool]) -> ModelToolset:
        """With those tools of the agent's own servers that an entry of its list allows."""
        allowed = tuple(tool for tool in tools if self._allows(tool))
        rows: list[Message] = [
            {"name": tool.name, "description": tool.description, "schema": dict(tool.schema)}
            for tool in allowed
        ]
        kinds = {**self.kinds, **dict.fromkeys((tool.name for tool in allowed), SERVER_TOOL)}
        return replace(self, rows=[*self.rows, *rows], kinds=kinds, server_tools=allowed)

    def _allows(self, tool: ServerTool) -> bool:
        wanted = {"mcp", f"mcp({tool.server} *)", f"mcp({tool.server} {tool.tool})"}
        return not wanted.isdisjoint(self.server_entries)

    @property
    def report(self) -> str:
        """The tool that reports a task; empty where the agent has none."""
        return REPORT if REPORT in self.kinds else ""
