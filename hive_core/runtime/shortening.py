"""A history that does not fit its model, made shorter so that the model can still summarize it.

The longest texts are cut first, all to one size. Where that is not enough, answers in the middle
go with their results: each call that stays has its result, as providers demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

_TEXT_LEAST: Final = 400  # characters to which a text may be cut
_NOTE: Final = 40  # characters of the note of what is left out
Part = ModelRequestPart | ModelResponsePart


def shorten_history(
    history: Sequence[ModelMessage], results: Mapping[str, str], times: int
) -> tuple[list[ModelMessage], dict[str, str]]:
    """The history and the results of its last answer, halved so many times."""
    texts = [text for message in history for text in map(_text, message.parts)]
    texts += results.values()
    most = sum(map(len, texts)) >> times
    size = _text_size(texts, most)
    cut = [_with_parts(message, [_cut_part(part, size) for part in message.parts])
           for message in history]  # fmt: skip
    short = {id_: cut_text(text, size) for id_, text in results.items()}
    return _drop_rounds(cut, most - sum(map(len, short.values()))), short


def cut_text(text: str, most: int) -> str:
    """The text, or its beginning and its end with a note of how much is left out between them."""
    if len(text) <= most:
        return text
    size = max(0, most - _NOTE)
    head = size * 2 // 3
    note = f"\n[{len(text) - size} characters left out]\n"
    return text[:head] + note + text[len(text) - size + head :]


def _text_size(texts: Sequence[str], most: int) -> int:
    """The largest size to which all texts can be cut so that they have `most` in sum."""
    left, count = most, len(texts)
    for length in sorted(map(len, texts)):
        if length * count > left:
            return max(_TEXT_LEAST, left // count)
        left, count = left - length, count - 1
    return max(_TEXT_LEAST, most)


def _drop_rounds(history: list[ModelMessage], most: int) -> list[ModelMessage]:
    """Without the oldest answers after the first request, while the texts are more than `most`."""
    sizes = [sum(map(len, map(_text, message.parts))) for message in history]
    total, start = sum(sizes), 1
    most += most // 8  # the notes in texts that were cut, and what JSON escapes in them
    while total > most and start + 2 < len(history):
        total -= sizes[start] + sizes[start + 1]
        start += 2
    first = history[0] if history else None
    if start == 1 or not isinstance(first, ModelRequest):
        return history
    note = UserPromptPart(f"[{start - 1} messages left out]")
    return [replace(first, parts=[*first.parts, note]), *history[start:]]


def _with_parts(message: ModelMessage, parts: Iterable[Part]) -> ModelMessage:
    if isinstance(message, ModelResponse):
        return replace(message, parts=list(parts))  # type: ignore[arg-type]
    return replace(message, parts=list(parts))  # type: ignore[arg-type]


def _text(part: Part) -> str:
    """What of a part can be cut. Not the system prompt, and nothing that a provider has signed."""
    match part:
        case ToolReturnPart():
            return part.model_response_str()
        case ToolCallPart():
            return part.args_as_json_str()
        case UserPromptPart(content=str(text)) | TextPart(content=text):
            return text
        case _:
            return ""


def _cut_part(part: Part, most: int) -> Part:
    text = _text(part)
    if len(text) <= most:
        return part
    short = cut_text(text, most)
    # As a copy of its own type: a part may be of a subclass whose fields are narrower.
    field = {"args": {"shortened": short}} if isinstance(part, ToolCallPart) else {"content": short}
    return replace(part, **field)
