"""Models of kind `scripted`: answers from a file of rules, over the real wires.

The first rule that fits the last message of a request is the answer. So a test says what a model
does, and everything else is real.
"""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationError

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Value
from hive_core.model.config.validation import faults_of
from hive_core.proxy.body import RequestBody
from hive_core.proxy.conversation import ModelAnswer, ModelConversation, WrittenCall
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.meter import TOKENS_MOST, TokenUsage, estimate_tokens
from hive_core.proxy.provider import ProviderBroke, UpstreamAnswer
from hive_core.proxy.wires.base import WireFormat, dump

BYTES_MOST: Final = 1 << 20
ERRORS: Final = 400
_JSON: Final = (b"content-type", b"application/json")
_STREAM: Final = (b"content-type", b"text/event-stream")


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return text


Pattern = Annotated[str, Field(max_length=10_000), AfterValidator(_check_pattern)]
Count = Annotated[int, Field(ge=0, le=TOKENS_MOST)]


class ScriptedCall(Value):
    """One tool call. Texts in `arguments` may have the groups of the match, as in `text`."""

    name: str
    arguments: dict[str, JsonValue] = Field({})


class ScriptedRule(Value):
    """What is answered when the last message matches."""

    match: Pattern = Field(
        "",
        description="Searched in the last message; what a user wrote in several is one.",
    )
    on: Literal["any", "text", "result"] = Field(
        "any", description="Whether the last message is text, or the result of a tool."
    )
    tool: str | None = Field(None, description="Only for results of this tool.")
    step: int | None = Field(
        None, ge=1, description="Only for this answer of the conversation, counted from 1."
    )
    model: str | None = Field(None, description="Only for models of this name.")
    text: str = Field("", description="Answer; `\\1` is the first group of the match.")
    calls: tuple[ScriptedCall, ...] = Field((), description="Tool calls of the answer.")
    status: int = Field(200, ge=200, le=599, description="HTTP status; an error from 400 on.")
    retry_after: float | None = Field(None, ge=0, description="Seconds, beside an error.")
    delay: float = Field(0.0, ge=0, le=3600, description="Seconds until the first byte.")
    pause: float = Field(0.0, ge=0, le=3600, description="Seconds between events of a stream.")
    breaks: bool = Field(
        default=False, alias="break", description="Whether the answer breaks off in the middle."
    )
    cut: bool = Field(default=False, description="Whether the limit of its length ends it.")
    chunk: int = Field(16, ge=1, description="Characters in one event of a stream.")
    tokens_in: Count | None = Field(None, description="Reported input; absent: by size.")
    tokens_out: Count | None = Field(None, description="Reported output; absent: by size.")
    cache_read: Count = Field(0, description="Reported input from the cache.")

    def find(self, conversation: ModelConversation, model: str) -> re.Match[str] | None:
        last = conversation.last
        kind = "result" if last.role == "tool" else "text"
        fits = (
            self.on in ("any", kind)
            and self.tool in (None, last.tool)
            and self.step in (None, conversation.step)
            and self.model in (None, model)
        )
        return re.search(self.match, last.text, re.MULTILINE) if fits else None


class ScriptedRules(Value):
    """The whole file."""

    rules: tuple[ScriptedRule, ...] = Field((), description="Rules, the first that fits counts.")


def parse_rules(data: bytes, file: str) -> ScriptedRules:
    """The rules in this file. InvalidArgument names the first key that is wrong."""
    if len(data) > BYTES_MOST:
        raise InvalidArgument(f"{file}: larger than {BYTES_MOST} bytes", field=file)
    try:
        return ScriptedRules.model_validate(tomllib.loads(data.decode()))
    except ValidationError as error:
        fault = faults_of(ScriptedRules, error)[0]
        raise InvalidArgument(f"{file}: {fault.key}: {fault.reason}", field=fault.key) from error
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidArgument(f"{file}: {reason}", field=file) from error


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    rules: ScriptedRules
    wire: WireFormat
    name: str

    async def open(self, body: RequestBody, *, include_usage: bool) -> UpstreamAnswer:
        conversation = self.wire.conversation(body)
        for rule in self.rules.rules:
            if match := rule.find(conversation, self.name):
                return await self._answer(rule, match, body, include_usage=include_usage)
        shown = conversation.last.text[:200]
        return self._error(CallFailed(400, f"no rule of this model fits {shown!r}"))

    async def _answer(
        self, rule: ScriptedRule, match: re.Match[str], body: RequestBody, *, include_usage: bool
    ) -> UpstreamAnswer:
        await asyncio.sleep(rule.delay)
        if rule.status >= ERRORS:
            retry = rule.retry_after
            text = expand(match, rule.text) or f"scripted error {rule.status}"
            return self._error(CallFailed(rule.status, text, retry_after=retry))
        answer = build_answer(rule, match, self.wire.conversation(body))
        if body.is_stream:
            events = self.wire.answer_events(answer, self.name, include_usage=include_usage)
            return UpstreamAnswer(200, [_STREAM], _send(list(events), rule))
        data = dump(self.wire.answer_body(answer, self.name))
        return UpstreamAnswer(
            200, [_JSON], _send([data[: len(data) // 2], data[len(data) // 2 :]], rule)
        )

    def _error(self, failure: CallFailed) -> UpstreamAnswer:
        data = dump(self.wire.error_body(failure))
        return UpstreamAnswer(failure.status, [_JSON, *failure.headers], _whole(data))


def build_answer(
    rule: ScriptedRule, match: re.Match[str], conversation: ModelConversation
) -> ModelAnswer:
    text = expand(match, rule.text)
    calls = tuple(
        WrittenCall(
            f"call_{conversation.step}_{number}",
            call.name,
            json.dumps(_expand_values(match, call.arguments), ensure_ascii=False),
        )
        for number, call in enumerate(rule.calls)
    )
    size = len(text.encode()) + sum(len(call.name) + len(call.arguments) for call in calls)
    tokens_in = estimate_tokens(conversation.size) if rule.tokens_in is None else rule.tokens_in
    tokens_out = estimate_tokens(size) if rule.tokens_out is None else rule.tokens_out
    usage = TokenUsage(tokens_in, tokens_out, min(rule.cache_read, tokens_in))
    return ModelAnswer(text, calls, usage, is_cut=rule.cut, chunk=rule.chunk)


def expand(match: re.Match[str], text: str) -> str:
    """The text with the groups of the match in place of `\\1`; as it is where one is missing."""
    try:
        return match.expand(text) if "\\" in text else text
    except (re.error, IndexError):
        return text


def _expand_values(match: re.Match[str], value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return expand(match, value)
        case list():
            return [_expand_values(match, item) for item in value]
        case dict():
            return {key: _expand_values(match, item) for key, item in value.items()}
        case _:
            return value


async def _send(pieces: list[bytes], rule: ScriptedRule) -> AsyncIterator[bytes]:
    most = len(pieces) // 2 if rule.breaks else len(pieces)
    for number, piece in enumerate(pieces[:most]):
        if number:
            await asyncio.sleep(rule.pause)
        yield piece
    if rule.breaks:
        raise ProviderBroke("the rule breaks here")


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data
