"""The body of a chat call: checked, and reduced to the fields that the engine may see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

BODY_MOST: Final = 8 << 20  # bytes
TOKENS: Final = 1024  # of an answer, where the caller sets no bound
# The engine has more fields, which choose its slots, files and caches.
_FIELDS: Final = frozenset(
    {
        "frequency_penalty", "grammar", "logit_bias", "messages", "min_p", "parallel_tool_calls",
        "presence_penalty", "repeat_penalty", "response_format", "seed", "stop", "stream_options",
        "temperature", "tool_choice", "tools", "top_k", "top_p",
    }
)  # fmt: skip


class ChatRefusal(Exception):
    """An error in the form of the chat interface."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.kind, self.reason = status, kind, reason

    def body(self) -> dict[str, object]:
        return {"error": {"message": self.reason, "type": self.kind, "code": self.status}}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    fields: dict[str, object]  # what the engine gets
    model: str
    stream: bool


def parse_chat(data: bytes, context: int) -> ChatRequest:
    """The request in these bytes; `context` bounds the answer."""
    body = _decode(data)
    fields = {key: value for key, value in body.items() if key in _FIELDS and value is not None}
    _check_messages(body.get("messages"))
    stream = body.get("stream") or False
    if not isinstance(stream, bool):
        _refuse("stream must be true or false")
    if body.get("n") not in (None, 1):
        _refuse("n must be 1")
    fields["max_tokens"] = min(_answer_bound(body), context)
    model = body.get("model")
    return ChatRequest(fields, model if isinstance(model, str) else "", stream)


def _refuse(reason: str) -> NoReturn:
    raise ChatRefusal(400, "invalid_request_error", reason)


def _decode(data: bytes) -> dict[str, object]:
    try:
        body = json.loads(data.decode(), parse_constant=_refuse_constant)
        # JSON can hold escaped lone surrogates, which the engine cannot take as text.
        json.dumps(body, ensure_ascii=False).encode()
    except RecursionError:
        _refuse("the body is nested too deep")
    except ValueError as error:
        _refuse(f"the body is not JSON: {str(error)[:200]}")
    if not isinstance(body, dict):
        _refuse("the body must be an object")
    return body


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list) or not messages:
        _refuse("messages must be a list that is not empty")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            _refuse(f"messages[{number}] must be an object with a role")
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if not isinstance(content, str | list | None):
            _refuse(f"messages[{number}].content must be text or a list of parts")
        for part in parts:
            if not isinstance(part, Mapping) or part.get("type") != "text":
                _refuse(f"messages[{number}].content: this model reads only parts of type text")


def _answer_bound(body: Mapping[str, object]) -> int:
    for key in ("max_completion_tokens", "max_tokens"):
        value = body.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            _refuse(f"{key} must be a whole number above 0")
        return value
    return TOKENS
