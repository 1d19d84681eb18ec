"""The embedded model: a request is made small enough for it, and its answer a tool call.

It has 135 million parameters and knows nothing of tools. Four examples stand in place of the
system text, at most four tools are offered, and the answer is bound to their schema. So it shows
that a loop runs, and no more. A letter that is no task it answers in words, without a tool. A file
of the operator's own (`path`) gets requests as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hive_core.proxy.conversation import ModelAnswer, ModelConversation, Spoken, WrittenCall
from hive_core.proxy.meter import TokenUsage, parse_object, part_of
from hive_core.proxy.wires.base import dump
from hive_core.proxy.wires.chat import ChatMeter

# The arguments that it is asked for, of the many that a tool may have.
_TEXT: Final = {"type": "string", "maxLength": 400}
_TOOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "read": {"path": _TEXT},
    "bash": {"command": _TEXT},
    "send": {"to": {"type": "string", "maxLength": 64}, "body": _TEXT},
    "finish_task": {"status": {"enum": ["success", "failed"]}, "summary": _TEXT},
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "read": 'Read todo.txt and report it.\n{"tool":"read","arguments":{"path":"todo.txt"}}',
    "bash": 'Count the files here.\n{"tool":"bash","arguments":{"command":"ls | wc -l"}}',
    "send": 'Tell bob: lunch is ready.\n'
            '{"tool":"send","arguments":{"to":"bob","body":"lunch is ready"}}',
    "finish_task": "Result of read: buy milk\n"
                   '{"tool":"finish_task","arguments":{"status":"success","summary":"buy milk"}}',
}  # fmt: skip
# What a session writes around the messages of others, and beside them.
_MESSAGE: Final = re.compile(r"<message\b[^>]*>(.*?)</message>", re.DOTALL)
_TASK: Final = re.compile(r'<message\b[^>]*\bkind="task"')
_REPORT: Final = "finish_task"
_NOTE: Final = re.compile(r"<(reminder|session)\b[^>]*>.*?</\1>", re.DOTALL)
# Of the head of a task what is for programs: among its digits the model misreads names of files.
_TRACE: Final = re.compile(r"^traceparent: [0-9a-f-]{55}\n", re.MULTILINE)
_HEAD: Final = "Answer with one tool call. Examples:\n\n"
_PLAIN: Final = "Answer in one or two short sentences."
_NOTHING_SAID: Final = ({"role": "user", "content": "Hello"},)
_CHARACTERS_OF_TOKEN: Final = 3
_MESSAGE_MOST: Final = 1200  # characters of one message
_ANSWER_MOST: Final = 192  # tokens


def small_request(conversation: ModelConversation, context: int, most_out: int | None) -> bytes:
    """The request for hive-small. Its beginning is always equal, so it is computed once."""
    names = offered_tools(conversation)
    head = _HEAD + "\n\n".join(_EXAMPLES[name] for name in names) if names else _PLAIN
    turns = _turns(conversation, context)
    if not names:  # notes of the session, of which nothing is left, are no words to answer
        turns = [turn for turn in turns if turn["content"]] or _NOTHING_SAID
    body: dict[str, Any] = {
        "messages": [{"role": "system", "content": head}, *turns],
        "max_tokens": min(most_out or _ANSWER_MOST, _ANSWER_MOST), "temperature": 0,
        "model": "small", "stream": False,
    }  # fmt: skip
    if choices := _choices(conversation, names):
        schema = {"name": "tool_call", "schema": {"oneOf": [_schema(name) for name in choices]}}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return dump(body)


def _choices(conversation: ModelConversation, names: list[str]) -> list[str]:
    """The tools of this answer: not the one just used, and no report before anything was done.

    The model repeats itself otherwise, or reports an example.
    """
    has_result = any(message.role == "tool" for message in conversation.messages)
    barred = conversation.last.tool if has_result else _REPORT
    return [name for name in names if name != barred] or names


def offered_tools(conversation: ModelConversation) -> list[str]:
    """Those of its tools that the request offers, always in the same order.

    None for letters that are no task: bound to a schema, it could not answer them.
    """
    if _is_talk(conversation):
        return []
    names = {tool.name for tool in conversation.tools}
    return [name for name in _TOOLS if name in names]


def _is_talk(conversation: ModelConversation) -> bool:
    """Whether letters came, and no task is open. Only the session writes the marks of letters."""
    has_task: bool | None = None
    has_reported = False
    for message in conversation.messages:
        if message.role == "tool":
            has_reported = message.tool == _REPORT
        elif message.role == "user" and _MESSAGE.search(message.text):
            has_task = bool(_TASK.search(message.text)) or (bool(has_task) and not has_reported)
            has_reported = False
    return has_task is False


def _schema(name: str) -> dict[str, Any]:
    arguments = {
        "type": "object", "properties": dict(_TOOLS[name]), "required": list(_TOOLS[name]),
        "additionalProperties": False,
    }  # fmt: skip
    return {
        "type": "object", "properties": {"tool": {"const": name}, "arguments": arguments},
        "required": ["tool", "arguments"], "additionalProperties": False,
    }  # fmt: skip


def _turns(conversation: ModelConversation, context: int) -> Sequence[Mapping[str, str]]:
    """The messages without the system text; the first and as many of the last as fit."""
    turns = [
        {"role": "assistant" if message.role == "assistant" else "user",
         "content": _text(message)[:_MESSAGE_MOST]}
        for message in conversation.messages if message.role not in ("system", "developer")
    ]  # fmt: skip
    first, rest = turns[:1], turns[1:]
    room = context * _CHARACTERS_OF_TOKEN // 2 - sum(len(turn["content"]) for turn in first)
    last: list[Mapping[str, str]] = []
    for turn in reversed(rest):
        room -= len(turn["content"])
        if room < 0:
            break
        last.insert(0, turn)
    return [*first, *last] or _NOTHING_SAID


def _text(message: Spoken) -> str:
    if message.role == "tool":
        return f"Result of {message.tool}: {message.text}"
    if message.calls:
        call = message.calls[0]
        return json.dumps({"tool": call.name, "arguments": call.arguments_object},
                          ensure_ascii=False, separators=(",", ":"))  # fmt: skip
    return _plain_text(message.text)


def _plain_text(text: str) -> str:
    """The text of the messages of a session, without the marks around them, which mislead it."""
    bodies = [_TRACE.sub("", body).strip() for body in _MESSAGE.findall(text)]
    return "\n".join(bodies) if bodies else _NOTE.sub("", text).strip()


def small_answer(data: bytes, conversation: ModelConversation) -> ModelAnswer:
    """The answer of hive-small: the tool call that it wrote, or its text."""
    answer = parse_object(data)
    choices = answer.get("choices")
    choice = part_of(choices[0]) if isinstance(choices, list) and choices else {}
    text = part_of(choice, "message").get("content")
    text = text if isinstance(text, str) else ""
    meter = ChatMeter(conversation.size)
    meter.read_answer(answer)
    call = _call(text, conversation)
    return ModelAnswer(
        "" if call else text, (call,) if call else (), _only_tokens(meter.usage()),
        is_cut=call is None and choice.get("finish_reason") == "length",
    )  # fmt: skip


def _call(text: str, conversation: ModelConversation) -> WrittenCall | None:
    written = parse_object(text.encode(errors="replace"))
    name, arguments = written.get("tool"), written.get("arguments")
    if name not in offered_tools(conversation) or not isinstance(arguments, dict):
        return None
    number = f"call_{conversation.step}_0"
    return WrittenCall(number, str(name), json.dumps(arguments, ensure_ascii=False))


def _only_tokens(usage: TokenUsage) -> TokenUsage:
    """Usage without cache tokens: the embedded model has no provider cache to pay for."""
    return TokenUsage(usage.tokens_in, usage.tokens_out, estimated=usage.estimated)
