"""The messages wire: POST /messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from typing_extensions import override

from hive_core.model.config.models import Wire
from hive_core.proxy.body import RequestBody
from hive_core.proxy.conversation import (
    ModelAnswer,
    ModelConversation,
    Spoken,
    WrittenCall,
    named_results,
    text_of,
)
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.meter import AnswerMeter, TokenUsage, list_of, part_of, token_count
from hive_core.proxy.wires.base import WireFormat, dump, event, positive, read_tools

_ERRORS: Final = {
    400: "invalid_request_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error",
    503: "overloaded_error", 504: "timeout_error",
}  # fmt: skip


class MessagesMeter(AnswerMeter):
    __slots__ = ()

    @override
    def read_event(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._read_usage(part_of(event, "message", "usage"))
            case "content_block_start":
                self._count(part_of(event, "content_block"))
            case "content_block_delta":
                delta = part_of(event, "delta")
                self.count_text(*(delta.get(key) for key in ("text", "thinking", "partial_json")))
            case "message_delta":
                self._read_usage(part_of(event, "usage"))
            case "message_stop":
                self.is_complete = True
            case _:
                pass

    @override
    def read_answer(self, answer: Mapping[str, Any]) -> None:
        self._read_usage(part_of(answer, "usage"))
        self.is_complete = True
        for block in list_of(answer, "content"):
            self._count(block)

    def _count(self, block: Mapping[str, Any]) -> None:
        self.count_text(block.get("text"), block.get("thinking"), block.get("name"))
        if arguments := block.get("input"):
            self.out_bytes += len(dump(arguments))

    def _read_usage(self, usage: Mapping[str, Any]) -> None:
        """Input is reported without the parts that a cache was read or written for."""
        self.cache_read = token_count(usage.get("cache_read_input_tokens")) or self.cache_read
        written = token_count(usage.get("cache_creation_input_tokens"))
        self.cache_write = written or self.cache_write
        if (tokens := token_count(usage.get("input_tokens"))) is not None:
            self.tokens_in = tokens + self.cache_read + self.cache_write
        if (tokens := token_count(usage.get("output_tokens"))) is not None:
            self.tokens_out = tokens


class MessagesWire(WireFormat):
    wire = Wire.MESSAGES
    path = "/messages"
    turns_key = "messages"
    output_keys = ("max_tokens",)
    prefix_keys = ("tools", "system")
    refused: ClassVar = {"fallbacks": "hive chooses what is asked when a model fails"}

    @override
    def most_out(self, body: RequestBody) -> int | None:
        return positive(body.value("max_tokens"), "max_tokens")

    @override
    def meter(self, request_size: int) -> MessagesMeter:
        return MessagesMeter(request_size)

    @override
    def error_body(self, failure: CallFailed) -> dict[str, Any]:
        kind = _ERRORS.get(failure.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": failure.message}}

    @override
    def error_event(self, failure: CallFailed, sequence: int) -> bytes:
        return event(self.error_body(failure), "error")

    @override
    def conversation(self, body: RequestBody) -> ModelConversation:
        system = text_of(body.value("system"))
        spoken = [(Spoken("system", system), "")] if system else []
        messages = [row for part in body.turns for row in _message(body.read(part))]
        # Claude Code puts remarks of the system behind a message; they are not what it says.
        spoken += sorted(messages, key=lambda row: row[0].role != "system")
        tools = read_tools(body, "input_schema")
        offered = tools if body.offers_tools else ()
        return ModelConversation(named_results(spoken), offered, len(body.data))

    @override
    def answer_body(self, answer: ModelAnswer, model: str) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if answer.text or not answer.calls:
            content.append({"type": "text", "text": answer.text})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments_object}
            for call in answer.calls
        ]
        return {
            "id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": model,
            "content": content, "stop_reason": _stop(answer), "stop_sequence": None,
            "usage": _usage(answer.usage),
        }  # fmt: skip

    @override
    def answer_text(self, answer: Mapping[str, Any]) -> str:
        return text_of(answer.get("content"))

    @override
    def answer_events(
        self, answer: ModelAnswer, model: str, *, include_usage: bool
    ) -> Iterator[bytes]:
        body = self.answer_body(answer, model)
        start = {**body, "content": [], "stop_reason": None,
                 "usage": {**body["usage"], "output_tokens": 0}}  # fmt: skip
        yield _typed_event("message_start", message=start)
        for index, block in enumerate(body["content"]):
            yield from _block_events(answer, index, block)
        delta = {"stop_reason": body["stop_reason"], "stop_sequence": None}
        yield _typed_event("message_delta", delta=delta, usage=body["usage"])
        yield _typed_event("message_stop")


def _block_events(answer: ModelAnswer, index: int, block: dict[str, Any]) -> Iterator[bytes]:
    if block["type"] == "text":
        start, text, kind, key = {**block, "text": ""}, block["text"], "text_delta", "text"
    else:
        call = next(call for call in answer.calls if call.id == block["id"])
        start, text, kind, key = (
            {**block, "input": {}},
            call.arguments,
            "input_json_delta",
            "partial_json",
        )
    yield _typed_event("content_block_start", index=index, content_block=start)
    for chunk in answer.chunks(text):
        yield _typed_event("content_block_delta", index=index, delta={"type": kind, key: chunk})
    yield _typed_event("content_block_stop", index=index)


def _typed_event(kind: str, **fields: object) -> bytes:
    return event({"type": kind, **fields}, kind)


def _message(message: object) -> Iterator[tuple[Spoken, str]]:
    """A message: its tool results are messages of their own here."""
    role = str(part_of(message).get("role", "user"))
    blocks = list_of(message, "content")
    for block in blocks:
        if block.get("type") == "tool_result":
            yield Spoken("tool", text_of(block.get("content"))), str(block.get("tool_use_id", ""))
    calls = tuple(
        WrittenCall(str(block.get("id", "")), str(block.get("name", "")),
                 dump(block.get("input", {})).decode())
        for block in blocks if block.get("type") == "tool_use"
    )  # fmt: skip
    text = text_of(part_of(message).get("content"))
    if text or calls or not blocks:
        yield Spoken(role, text, calls), ""


def _stop(answer: ModelAnswer) -> str:
    if answer.is_cut:
        return "max_tokens"
    return "tool_use" if answer.calls else "end_turn"


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.tokens_in - usage.cache_read - usage.cache_write,
        "output_tokens": usage.tokens_out, "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }  # fmt: skip
