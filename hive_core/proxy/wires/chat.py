"""The chat wire: POST /chat/completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from typing_extensions import override

from hive_core.model.config.models import Wire
from hive_core.proxy.body import RequestBody
from hive_core.proxy.conversation import (
    ModelAnswer,
    ModelConversation,
    OfferedTool,
    Spoken,
    WrittenCall,
    named_results,
    text_of,
)
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.meter import AnswerMeter, TokenUsage, list_of, part_of
from hive_core.proxy.wires.base import WireFormat, event, openai_error, positive

_USAGE: Final = ("prompt_tokens", "completion_tokens", "prompt_tokens_details")


class ChatMeter(AnswerMeter):
    __slots__ = ()

    @override
    def read_event(self, event: Mapping[str, Any]) -> None:
        self.read_counts(part_of(event, "usage"), _USAGE)
        choices = list_of(event, "choices")
        self.is_usage_event = not choices and bool(part_of(event, "usage"))
        for choice in choices:
            self._count(part_of(choice, "delta"))
            # The finish is the end where a provider sends no [DONE].
            self.is_complete = self.is_complete or isinstance(choice.get("finish_reason"), str)

    @override
    def read_answer(self, answer: Mapping[str, Any]) -> None:
        self.read_counts(part_of(answer, "usage"), _USAGE)
        self.is_complete = True
        for choice in list_of(answer, "choices"):
            self._count(part_of(choice, "message"))

    def _count(self, message: Mapping[str, Any]) -> None:
        self.count_text(message.get("content"), message.get("reasoning_content"))
        self.count_text(message.get("reasoning"), message.get("refusal"))
        for call in list_of(message, "tool_calls"):
            function = part_of(call, "function")
            self.count_text(function.get("name"), function.get("arguments"))


class ChatWire(WireFormat):
    wire = Wire.CHAT
    path = "/chat/completions"
    turns_key = "messages"
    output_keys = ("max_completion_tokens", "max_tokens")
    prefix_keys = ("tools",)
    refused: ClassVar = {
        "models": "hive chooses what is asked when a model fails",
        "fallbacks": "hive chooses what is asked when a model fails",
    }

    @override
    def most_out(self, body: RequestBody) -> int | None:
        # A provider may follow either name, so the larger number counts.
        numbers = [positive(body.value(key), key) for key in self.output_keys]
        most = max((number for number in numbers if number is not None), default=None)
        return None if most is None else most * self.choices(body)

    @override
    def choices(self, body: RequestBody) -> int:
        return positive(body.value("n"), "n") or 1

    @override
    def meter(self, request_size: int) -> ChatMeter:
        return ChatMeter(request_size)

    @override
    def error_body(self, failure: CallFailed) -> dict[str, Any]:
        return {"error": openai_error(failure)}

    @override
    def error_event(self, failure: CallFailed, sequence: int) -> bytes:
        return event(self.error_body(failure))

    @override
    def conversation(self, body: RequestBody) -> ModelConversation:
        spoken = [_message(body.read(part)) for part in body.turns]
        tools = [
            OfferedTool(str(function.get("name", "")), str(function.get("description", "")),
                        part_of(function, "parameters"))
            for tool in list_of({"tools": body.value("tools")}, "tools")
            if (function := part_of(tool, "function"))
        ]  # fmt: skip
        offered = tuple(tools) if body.offers_tools else ()
        return ModelConversation(named_results(spoken), offered, len(body.data))

    @override
    def answer_body(self, answer: ModelAnswer, model: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [_call(call) for call in answer.calls]
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        return {
            "id": f"chatcmpl-{answer.id}", "object": "chat.completion", "created": 0,
            "model": model, "choices": [choice], "usage": _usage(answer.usage),
        }  # fmt: skip

    @override
    def answer_text(self, answer: Mapping[str, Any]) -> str:
        messages = [part_of(choice, "message") for choice in list_of(answer, "choices")]
        return "\n".join(text_of(message.get("content")) for message in messages)

    @override
    def answer_events(
        self, answer: ModelAnswer, model: str, *, include_usage: bool
    ) -> Iterator[bytes]:
        head = {
            "id": f"chatcmpl-{answer.id}", "object": "chat.completion.chunk", "created": 0,
            "model": model,
        }  # fmt: skip
        for delta in _deltas(answer):
            yield event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        last = {"index": 0, "delta": {}, "finish_reason": _finish(answer)}
        yield event({**head, "choices": [last]})
        if include_usage:
            yield event({**head, "choices": [], "usage": _usage(answer.usage)})
        yield b"data: [DONE]\n\n"


def _deltas(answer: ModelAnswer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for text in answer.chunks(answer.text):
        yield {"content": text}
    for index, call in enumerate(answer.calls):
        yield {"tool_calls": [{"index": index, **_call(WrittenCall(call.id, call.name, ""))}]}
        for text in answer.chunks(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def _message(message: object) -> tuple[Spoken, str]:
    """A message, and the id of the call that it answers."""
    role = str(part_of(message).get("role", "user"))
    calls = tuple(
        WrittenCall(str(call.get("id", "")), str(part_of(call, "function").get("name", "")),
                 str(part_of(call, "function").get("arguments", "")))
        for call in list_of(message, "tool_calls")
    )  # fmt: skip
    text = text_of(part_of(message).get("content"))
    return Spoken(role, text, calls), str(part_of(message).get("tool_call_id", ""))


def _call(call: WrittenCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": call.arguments}}  # fmt: skip


def _finish(answer: ModelAnswer) -> str:
    if answer.is_cut:
        return "length"
    return "tool_calls" if answer.calls else "stop"


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.tokens_in, "completion_tokens": usage.tokens_out,
        "total_tokens": usage.tokens_in + usage.tokens_out,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }  # fmt: skip
