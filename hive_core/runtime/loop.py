"""One turn: ask the model, have the session run the calls, ask again, until an answer has none.

The session decides what happens: an answer counts once the session has it on disk (`kept`), and
every call is run by the session.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from hive_core.runtime.connection import Line, SessionConnection
from hive_core.runtime.failure import failure_fields, is_failure
from hive_core.runtime.turn_request import (
    CallResult,
    TurnRequest,
    input_text,
    read_messages,
    write_message,
)
from hive_core.runtime.usage import TurnMeter

# The session runs fewer calls of one answer, and refuses the others. An answer with more is a fault
# of the model: to read on costs time with the square of their number.
_CALLS_MOST: Final = 512
_PAUSE: Final = 0.05  # seconds of text that one `delta` carries


@dataclass(slots=True)
class TurnLoop:
    """The loop of one turn. `hear` gives it the lines that come meanwhile."""

    session: SessionConnection
    request: TurnRequest
    model: Model
    meter: TurnMeter = field(default_factory=TurnMeter)
    _inputs: list[str] = field(default_factory=list)
    _taken: int = 0
    _seq: int = 0
    _kept: dict[int, asyncio.Event] = field(default_factory=dict)
    _results: dict[str, asyncio.Future[CallResult]] = field(default_factory=dict)
    _text: str = ""

    async def run(self) -> Line:
        """Run the turn; returns its `end`. A cancelled one raises CancelledError."""
        self._inputs += self.request.inputs
        try:
            status = await self._ask_until_done()
        except Exception as error:
            if not is_failure(error):
                raise
            return self.end("error") | failure_fields(error)
        return self.end(status)

    def end(self, status: str) -> Line:
        return {"type": "end", "status": status, "text": self._text, **self.meter.fields()}

    def hear(self, line: Line) -> None:
        """A line of the session for this turn."""
        match line.get("type"):
            case "kept":
                self._kept_event(line.get("seq")).set()
            case "result":
                self._future(str(line.get("id"))).set_result(CallResult.of(line))
            case "enqueue":
                self._inputs.append(input_text(line.get("input")))
            case _:
                pass  # a line of a later session

    async def _ask_until_done(self) -> str:
        parts: list[ModelRequestPart] = []
        opened = self.request.open_response
        if opened is not None:
            parts = await self._call_all(opened, self.request.results)
        rounds = 0
        while True:
            last = self._is_last(rounds)
            response = await self._ask(parts, last=last)
            rounds += 1
            parts = await self._call_all(response, {})
            if last:
                return "limit"
            if not response.tool_calls and not self._inputs:
                return "done"

    def _is_last(self, rounds: int) -> bool:
        limit = self.request.limits.rounds
        return limit is not None and rounds >= limit

    async def _ask(self, parts: Sequence[ModelRequestPart], *, last: bool) -> ModelResponse:
        """One request and its answer, which is on disk when this returns."""
        self._seq += 1
        message = self._next_request(parts, last=last)
        await self.session.send({
            "type": "rendered", "seq": self._seq, "messages": [write_message(message)],
            "inputs": self._taken, "last": last,
        })  # fmt: skip
        history = [*self.request.history, message]
        response = self._with_unique_calls(await self._stream(history, last=last))
        text = write_message(response)
        # The bytes that a later process would read, so that both send the same.
        self.request.history = [*history, *read_messages(text.encode())]
        self._text = response.text or ""
        await self.session.send({
            "type": "response", "seq": self._seq, "message": text, "text": self._text,
            "calls": [_call_fields(call) for call in response.tool_calls],
            "tokens": self.meter.add(response),
        })  # fmt: skip
        await self._kept_event(self._seq).wait()
        return response

    def _next_request(self, parts: Sequence[ModelRequestPart], *, last: bool) -> ModelRequest:
        texts, self._inputs = self._inputs, []
        self._taken += len(texts)
        if last and self.request.limits.last:
            texts = [*texts, self.request.limits.last]
        first: list[ModelRequestPart] = []
        if not self.request.history and self.request.system:
            first = [SystemPromptPart(self.request.system)]
        message = ModelRequest([*first, *parts, *map(UserPromptPart, texts)])
        # As for the answer: what is sent now is what would be read again.
        (again,) = read_messages(write_message(message).encode())
        assert isinstance(again, ModelRequest)  # noqa: S101 - for the type
        return again

    async def _stream(self, history: list[ModelMessage], *, last: bool) -> ModelResponse:
        self.meter.start()
        try:
            async with model_request_stream(
                self.model, history, model_settings=self._settings(last=last),
                model_request_parameters=self._parameters(last=last),
            ) as stream:  # fmt: skip
                pending, sent, calls = "", time.monotonic(), 0
                async for event in stream:
                    self.meter.note_first()
                    calls += _begins_call(event)
                    if calls > _CALLS_MOST:
                        raise ValueError(f"the answer has more than {_CALLS_MOST} calls")
                    pending += _text_of(event)
                    if pending and time.monotonic() - sent > _PAUSE:
                        await self.session.send({"type": "delta", "text": pending})
                        pending, sent = "", time.monotonic()
                if pending:
                    await self.session.send({"type": "delta", "text": pending})
                return _whole(stream.get())
        finally:
            self.meter.stop()

    def _settings(self, *, last: bool) -> ModelSettings | None:
        if last and not self.request.limits.report and self.request.tools:
            return ModelSettings(tool_choice="none")
        return None

    def _parameters(self, *, last: bool) -> ModelRequestParameters:
        tools, report = self.request.tools, self.request.limits.report
        if last and report:
            tools = [tool for tool in tools if tool.name == report]
        return ModelRequestParameters(function_tools=list(tools))

    def _with_unique_calls(self, response: ModelResponse) -> ModelResponse:
        """The answer; a call whose id the answer has twice gets another one."""
        ids = set[str]()
        for call in response.tool_calls:
            while not call.tool_call_id or call.tool_call_id in ids:
                call.tool_call_id = f"{call.tool_call_id or 'call'}.{len(ids)}"
            ids.add(call.tool_call_id)
        return response

    async def _call_all(
        self, response: ModelResponse, known: dict[str, CallResult]
    ) -> list[ModelRequestPart]:
        """The results of all calls of an answer, in their order; the session runs the others."""
        self._results.clear()
        for call in response.tool_calls:
            if call.tool_call_id in known:
                self._future(call.tool_call_id).set_result(known[call.tool_call_id])
            else:
                await self.session.send({"type": "call", **_call_fields(call)})
        return [
            _return_part(call, await self._future(call.tool_call_id))
            for call in response.tool_calls
        ]

    def _future(self, id_: str) -> asyncio.Future[CallResult]:
        if id_ not in self._results:
            self._results[id_] = asyncio.get_running_loop().create_future()
        return self._results[id_]

    def _kept_event(self, seq: object) -> asyncio.Event:
        return self._kept.setdefault(seq if isinstance(seq, int) else 0, asyncio.Event())


def _whole(response: ModelResponse) -> ModelResponse:
    """The answer; raises when its stream broke off, which pydantic-ai takes for an end."""
    if response.finish_reason is None and not (response.provider_details or {}).get(
        "finish_reason"
    ):
        raise ConnectionError("the answer of the model broke off")
    return response


def _call_fields(call: ToolCallPart) -> Line:
    """A call for the session; `arguments` is null where the model wrote no JSON object."""
    arguments: object
    try:
        arguments = call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        arguments = None
    if not isinstance(arguments, dict) or not _is_json(arguments):
        arguments = None
    return {"id": call.tool_call_id, "name": call.tool_name, "arguments": arguments}


def _return_part(call: ToolCallPart, result: CallResult) -> ModelRequestPart:
    return ToolReturnPart(
        call.tool_name, result.content, call.tool_call_id,
        outcome="failed" if result.is_error else "success",
    )  # fmt: skip


def _begins_call(event: object) -> bool:
    return isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart)


def _text_of(event: object) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _is_json(value: object) -> bool:
    """Whether JSON can hold the value: no infinite number, and a depth that a parser reads."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True
