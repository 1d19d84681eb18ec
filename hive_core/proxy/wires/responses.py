"""The responses wire: POST /responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
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
from hive_core.proxy.wires.base import WireFormat, event, openai_error, positive, read_tools

_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_SHARED: Final = "the provider's store is shared by all agents of this host; send the messages"


_USAGE: Final = ("input_tokens", "output_tokens", "input_tokens_details")


class ResponsesMeter(AnswerMeter):
    __slots__ = ()

    @override
    def read_event(self, event: Mapping[str, Any]) -> None:
        self.sequence = (token_count(event.get("sequence_number")) or self.sequence) + 1
        kind = event.get("type")
        if isinstance(event.get("delta"), str):
            self.count_text(event["delta"])
        if kind in _ENDS:
            self.read_counts(part_of(event, "response", "usage"), _USAGE)
            self.is_complete = True

    @override
    def read_answer(self, answer: Mapping[str, Any]) -> None:
        self.read_counts(part_of(answer, "usage"), _USAGE)
        self.is_complete = True
        for item in list_of(answer, "output"):
            self.count_text(item.get("name"), item.get("arguments"), text_of(item.get("content")))


class ResponsesWire(WireFormat):
    wire = Wire.RESPONSES
    path = "/responses"
    turns_key = "input"
    output_keys = ("max_output_tokens",)
    prefix_keys = ("tools", "instructions")
    refused: ClassVar = {
        "background": "an answer that is not waited for cannot be metered",
        "previous_response_id": _SHARED,
        "conversation": _SHARED,
        "prompt": "stored prompts are not checked by hive",
        "models": "hive chooses what is asked when a model fails",
        "fallbacks": "hive chooses what is asked when a model fails",
    }

    @override
    def most_out(self, body: RequestBody) -> int | None:
        return positive(body.value("max_output_tokens"), "max_output_tokens")

    @override
    def meter(self, request_size: int) -> ResponsesMeter:
        return ResponsesMeter(request_size)

    @override
    def error_body(self, failure: CallFailed) -> dict[str, Any]:
        return {"error": openai_error(failure)}

    @override
    def error_event(self, failure: CallFailed, sequence: int) -> bytes:
        error = openai_error(failure)
        return event({"type": "error", "code": error["code"], "message": failure.message,
                      "param": None, "sequence_number": sequence}, "error")  # fmt: skip

    @override
    def conversation(self, body: RequestBody) -> ModelConversation:
        system = text_of(body.value("instructions"))
        spoken = [(Spoken("system", system), "")] if system else []
        if isinstance(text := body.value("input"), str):
            spoken.append((Spoken("user", text), ""))
        for part in body.turns:
            spoken.append(_message(body.read(part)))
        tools = read_tools(body, "parameters")
        offered = tools if body.offers_tools else ()
        return ModelConversation(named_results(spoken), offered, len(body.data))

    @override
    def answer_body(self, answer: ModelAnswer, model: str) -> dict[str, Any]:
        output = [_item(answer, index, part) for index, part in enumerate(_parts(answer))]
        reason = {"reason": "max_output_tokens"} if answer.is_cut else None
        return {
            "id": f"resp_{answer.id}", "object": "response", "created_at": 0, "model": model,
            "status": "incomplete" if answer.is_cut else "completed", "output": output,
            "error": None, "incomplete_details": reason, "instructions": None, "metadata": {},
            "parallel_tool_calls": True, "temperature": None, "tool_choice": "auto", "tools": [],
            "top_p": None, "usage": _usage(answer.usage),
        }  # fmt: skip

    @override
    def answer_text(self, answer: Mapping[str, Any]) -> str:
        return "\n".join(text_of(item.get("content")) for item in list_of(answer, "output")).strip()

    @override
    def answer_events(
        self, answer: ModelAnswer, model: str, *, include_usage: bool
    ) -> Iterator[bytes]:
        numbers = count()
        for fields in self._events(answer, model):
            yield event({**fields, "sequence_number": next(numbers)}, fields["type"])

    def _events(self, answer: ModelAnswer, model: str) -> Iterator[dict[str, Any]]:
        body = self.answer_body(answer, model)
        start = {**body, "status": "in_progress", "output": [], "usage": None}
        yield {"type": "response.created", "response": start}
        for index, part in enumerate(_parts(answer)):
            item = body["output"][index]
            place = {"item_id": item["id"], "output_index": index}
            empty: dict[str, Any] = {"content": []} if isinstance(part, str) else {"arguments": ""}
            yield {"type": "response.output_item.added", "output_index": index,
                   "item": {**item, "status": "in_progress", **empty}}  # fmt: skip
            if isinstance(part, str):
                yield from _text_events(answer, part, place)
            else:
                yield from _call_events(answer, part, place)
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": f"response.{body['status']}", "response": body}


def _parts(answer: ModelAnswer) -> list[str | WrittenCall]:
    return [*([answer.text] if answer.text or not answer.calls else []), *answer.calls]


def _item(answer: ModelAnswer, index: int, part: str | WrittenCall) -> dict[str, Any]:
    if isinstance(part, WrittenCall):
        return {
            "type": "function_call", "id": f"fc_{answer.id}_{index}", "call_id": part.id,
            "name": part.name, "arguments": part.arguments, "status": "completed",
        }  # fmt: skip
    return {
        "type": "message", "id": f"msg_{answer.id}_{index}", "role": "assistant",
        "status": "completed", "content": [_text_part(part)],
    }  # fmt: skip


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _text_events(
    answer: ModelAnswer, text: str, place: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    place = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": _text_part("")}
    for chunk in answer.chunks(text):
        yield {"type": "response.output_text.delta", **place, "delta": chunk, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _text_part(text)}


def _call_events(
    answer: ModelAnswer, call: WrittenCall, place: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for chunk in answer.chunks(call.arguments):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": chunk}
    yield {"type": "response.function_call_arguments.done", **place, "name": call.name,
           "arguments": call.arguments}  # fmt: skip


def _message(item: object) -> tuple[Spoken, str]:
    """An item of the input, and the id of the call that it answers."""
    fields = part_of(item)
    call_id = str(fields.get("call_id", ""))
    match fields.get("type"):
        case "function_call":
            name, arguments = str(fields.get("name", "")), str(fields.get("arguments", ""))
            return Spoken("assistant", "", (WrittenCall(call_id, name, arguments),)), ""
        case "function_call_output":
            return Spoken("tool", text_of(fields.get("output"))), call_id
        case _:
            role = str(fields.get("role", "user"))
            return Spoken(role, text_of(fields.get("content"))), ""


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.tokens_in, "output_tokens": usage.tokens_out,
        "total_tokens": usage.tokens_in + usage.tokens_out,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
