"""The tools of the agent as its model sees them, and which of them are tools of execution."""

from __future__ import annotations

from dataclasses import dataclass, field

from hive_core.varlink import Message

REPORT = "finish_task"


@dataclass(frozen=True, slots=True)
class ModelToolset:
    """`rows` go to the runtime as they are; `kinds`: operation or execution, by name."""

    rows: list[Message] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    profile: str = ""

    @classmethod
    def of(cls, reply: Message) -> ModelToolset:
        """Read the answer of `list_toolset`."""
        tools = reply.get("tools")
        rows = [row for row in (tools if isinstance(tools, list) else []) if isinstance(row, dict)]
        return cls(
            [{key: row.get(key) for key in ("name", "description", "schema")} for row in rows],
            {str(row.get("name")): str(row.get("kind")) for row in rows},
            str(reply.get("profile") or ""),
        )

    @property
    def report(self) -> str:
        """The tool that reports a task; empty where the agent has none."""
        return REPORT if REPORT in self.kinds else ""
