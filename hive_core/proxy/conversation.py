"""A request and an answer of any wire in plain words, for the models that hive-model answers for.

Only scripted rules and the embedded model are answered here. What goes to a provider is never
translated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from typing import Any

from hive_core.proxy.meter import TokenUsage


@dataclass(frozen=True, slots=True)
class WrittenCall:
    id: str
    name: str
    arguments: str  # JSON

    @property
    def arguments_object(self) -> Any:  # noqa: ANN401 - whatever a model wrote
        try:
            return json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return {}


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message. A tool result has the role `tool` and names the tool."""

    role: str
    text: str = ""
    calls: tuple[WrittenCall, ...] = ()
    tool: str = ""


def _is_of_user(message: Spoken) -> bool:
    return message.role == "user"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelConversation:
    messages: tuple[Spoken, ...]
    tools: tuple[OfferedTool, ...]
    size: int  # bytes of the request

    @property
    def last(self) -> Spoken:
        """The last message; several in a row of the user count as one, with all their texts."""
        last = self.messages[-1] if self.messages else Spoken("user")
        texts = [message.text for message in takewhile(_is_of_user, reversed(self.messages))]
        return replace(last, text="\n".join(reversed(texts))) if texts else last

    @property
    def step(self) -> int:
        """The number of answers of the model so far, plus one."""
        return 1 + sum(message.role == "assistant" for message in self.messages)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    text: str
    calls: tuple[WrittenCall, ...]
    usage: TokenUsage
    is_cut: bool = False  # by the limit of its length
    chunk: int = 16  # characters of one event of a stream

    @property
    def id(self) -> str:
        content = json.dumps(
            [self.text, [(call.id, call.name, call.arguments) for call in self.calls]]
        )
        return sha256(content.encode(errors="replace")).hexdigest()[:24]

    def chunks(self, text: str) -> Sequence[str]:
        size = max(1, self.chunk)
        return [text[start : start + size] for start in range(0, len(text), size)]


def text_of(content: object) -> str:
    """The text of a message: itself, or that of its parts of text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def named_results(messages: Sequence[tuple[Spoken, str]]) -> tuple[Spoken, ...]:
    """The messages, each tool result with the name of the tool that its call id stands for."""
    names = {call.id: call.name for message, _ in messages for call in message.calls}
    return tuple(
        Spoken("tool", message.text, (), names.get(call_id, ""))
        if message.role == "tool"
        else message
        for message, call_id in messages
    )
