"""The `turn` line of a session: the history, the input, the tools and the model of one turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from hive_core.runtime.connection import Line
from hive_core.runtime.shortening import shorten_history
from hive_core.runtime.wire import ModelChoice


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call."""

    content: str
    is_error: bool = False

    @classmethod
    def of(cls, value: object) -> Self:
        fields = mapping(value)
        text = input_text(fields) if fields.get("template") else str(fields.get("content") or "")
        return cls(text, bool(fields.get("is_error")))


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """`rounds`: requests with all tools. One more follows, with `report` alone and the text `last`.

    No `rounds`: no limit. No `report`: the last request may call nothing.
    """

    rounds: int | None = None
    report: str = ""
    last: str = ""


@dataclass(slots=True)
class TurnRequest:
    """One turn. `system`: its frozen text; `context`: what the text is rendered from.

    `template`: the text of that name, in place of the prompt of an agent.
    """

    turn: int
    choice: ModelChoice
    history: list[ModelMessage] = field(default_factory=list)
    system: str = ""
    context: Mapping[str, object] = field(default_factory=dict)
    template: str = ""
    inputs: list[str] = field(default_factory=list)
    results: dict[str, CallResult] = field(default_factory=dict)
    tools: list[ToolDefinition] = field(default_factory=list)
    limits: TurnLimits = field(default_factory=TurnLimits)

    @classmethod
    def of(cls, line: Line, history: bytes) -> Self:
        """Read the line; ValueError for a history that this runtime did not write."""
        system, settings = mapping(line.get("system")), mapping(line.get("settings"))
        rounds = settings.get("rounds")
        messages, results = _shorten(
            with_system(read_messages(history), str(system.get("text") or "")),
            {id_: CallResult.of(row) for id_, row in mapping(line.get("results")).items()},
            _number(line.get("shorten")),
        )
        return cls(
            _number(line.get("turn")),
            ModelChoice(
                str(line.get("model") or ""), str(line.get("wire") or ""),
                str(settings.get("name") or ""), _number(settings.get("max_output")),
                str(settings.get("conversation") or ""), str(settings.get("task") or ""),
                settings.get("hands_back") is True,
            ),
            messages, str(system.get("text") or ""), mapping(system.get("context")),
            str(system.get("template") or ""),
            [input_text(row) for row in _rows(line.get("input"))],
            results, [_tool(mapping(row)) for row in _rows(line.get("tools"))],
            TurnLimits(
                rounds if isinstance(rounds, int) else None,
                str(settings.get("report") or ""), input_text(settings.get("last")),
            ),
        )  # fmt: skip

    @property
    def open_response(self) -> ModelResponse | None:
        """The last message, when it is an answer whose calls have no results in the history."""
        last = self.history[-1] if self.history else None
        return last if isinstance(last, ModelResponse) and last.tool_calls else None


def _shorten(
    history: list[ModelMessage], results: dict[str, CallResult], times: int
) -> tuple[list[ModelMessage], dict[str, CallResult]]:
    """The history and the results, halved so many times."""
    if times <= 0:
        return history, results
    contents = {id_: result.content for id_, result in results.items()}
    history, contents = shorten_history(history, contents, times)
    return history, {id_: replace(row, content=contents[id_]) for id_, row in results.items()}


def read_messages(lines: bytes) -> list[ModelMessage]:
    """The messages of a history, one JSON text a line."""
    whole = b"[" + b",".join(line for line in lines.split(b"\n") if line) + b"]"
    return ModelMessagesTypeAdapter.validate_json(whole)


def with_system(history: list[ModelMessage], system: str) -> list[ModelMessage]:
    """The history with this system prompt; empty: as it is.

    That of a queen is another one in each phase, and that of a clone goes on behind its parent's.
    """
    first = history[0] if history else None
    if system and isinstance(first, ModelRequest):
        for part in first.parts:
            if isinstance(part, SystemPromptPart):
                part.content = system
    return history


def write_message(message: ModelMessage) -> str:
    """The opaque text of a message."""
    return ModelMessagesTypeAdapter.dump_json([message])[1:-1].decode()


def input_text(row: object) -> str:
    """The text of an input: its own with its `note`, or that of a prompt with its context."""
    fields = mapping(row)
    name = str(fields.get("template") or "")
    if not name:
        text, note = str(fields.get("text") or ""), mapping(fields.get("note"))
        return f"{text}\n{input_text(note)}" if note else text
    from hive_core.runtime.prompts import render  # noqa: PLC0415 - few turns need it

    return render(name, mapping(fields.get("context")))


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _tool(row: Mapping[str, object]) -> ToolDefinition:
    schema = row.get("schema")
    return ToolDefinition(
        name=str(row.get("name")), description=str(row.get("description") or "") or None,
        parameters_json_schema=schema if isinstance(schema, dict) else {"type": "object"},
        # Whether a schema may be strict must not depend on the model, or a clone's would differ.
        strict=False,
    )  # fmt: skip


def _rows(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
