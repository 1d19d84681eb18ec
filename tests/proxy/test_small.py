"""The embedded model: what it is asked, and what its answer becomes. Its server is a stand-in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fixtures.models import ModelHost, model_host
from fixtures.providers import FakeProvider, ProviderReply, json_reply
from hypothesis import given
from hypothesis import strategies as st
from proxy.calling import PATHS

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.session.inputs import message_text
from hive_core.proxy.conversation import ModelConversation, OfferedTool, Spoken, WrittenCall
from hive_core.proxy.small import small_answer, small_request

NAMES = ["edit", "finish_task", "plan", "bash", "send", "read"]
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {}}}
    for name in NAMES
]
READ = '{"tool":"read","arguments":{"path":"notes.txt"}}'


def model_reply(content: str, finish: str = "stop") -> ProviderReply:
    choice = {"index": 0, "message": {"role": "assistant", "content": content},
              "finish_reason": finish}  # fmt: skip
    return json_reply({"choices": [choice], "usage": {"prompt_tokens": 90, "completion_tokens": 9}})


@asynccontextmanager
async def small_host(
    *replies: ProviderReply, models: str = ""
) -> AsyncIterator[tuple[ModelHost, FakeProvider]]:
    provider = FakeProvider(list(replies))
    async with model_host(models) as host:
        path = str(host.folder / "small.sock")
        async with await asyncio.start_unix_server(provider.serve, path):
            yield host, provider


def question(text: str = "Read notes.txt and report it.", **more: object) -> dict[str, Any]:
    messages = [{"role": "system", "content": "long " * 5000}, {"role": "user", "content": text}]
    return {"model": "hive-small", "messages": messages, "tools": TOOLS, **more}


def allowed_tools(request: Any) -> list[str]:  # noqa: ANN401 - JSON
    """The tools that the schema of the answer allows."""
    schema = request["response_format"]["json_schema"]["schema"]
    return [choice["properties"]["tool"]["const"] for choice in schema["oneOf"]]


def test_an_answer_becomes_a_tool_call_and_its_result_the_next_question() -> None:
    async def main() -> None:
        report = '{"tool":"finish_task","arguments":{"status":"success","summary":"milk"}}'
        async with small_host(model_reply(READ), model_reply(report)) as (host, provider):
            first = (await host.post(PATHS["chat"], question())).json["choices"][0]
            call = first["message"]["tool_calls"][0]
            assert call["function"]["name"] == "read"
            assert json.loads(call["function"]["arguments"]) == {"path": "notes.txt"}
            assert first["finish_reason"] == "tool_calls"
            asked = provider.requests[0].json
            assert asked["temperature"] == 0
            assert allowed_tools(asked) == ["read", "bash", "send"]
            assert "long" not in provider.requests[0].body.decode()
            later = question()
            result = {"role": "tool", "tool_call_id": call["id"], "content": "milk"}
            later["messages"] += [first["message"], result]
            second = (await host.post(PATHS["chat"], later)).json["choices"][0]["message"]
            assert second["tool_calls"][0]["function"]["name"] == "finish_task"
            asked = provider.requests[1].json
            assert allowed_tools(asked) == ["bash", "send", "finish_task"]
            assert [m["content"] for m in asked["messages"][1:]] == [
                "Read notes.txt and report it.", READ, "Result of read: milk",
            ]  # fmt: skip
            heads = [request.json["messages"][0] for request in provider.requests]
            assert heads[0] == heads[1]
            settled = (await host.settlements(2))[0]
            assert (settled["tokens_in"], settled["tokens_out"], settled["cost"]) == (90, 9, 0)

    asyncio.run(main())


def test_a_stream_has_the_answer_as_events() -> None:
    async def main() -> None:
        async with small_host(model_reply(READ)) as (host, _):
            result = await host.post(PATHS["chat"], question(stream=True))
            deltas = [e["choices"][0]["delta"] for e in result.events if e != "[DONE]"]
            calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
            parts = [call["function"] for call in calls]
            assert "".join(part.get("arguments", "") for part in parts) == '{"path": "notes.txt"}'
            assert result.events[-1] == "[DONE]"

    asyncio.run(main())


def test_the_marks_of_a_session_are_left_out() -> None:
    async def main() -> None:
        async with small_host(model_reply(READ)) as (host, provider):
            text = (
                '<message id="m1" from="bob" relation="parent" kind="task">Read notes.txt</message>'
                '<reminder at="noon">much else</reminder>'
            )
            await host.post(PATHS["chat"], question(text))
            assert provider.requests[0].json["messages"][1]["content"] == "Read notes.txt"

    asyncio.run(main())


def test_the_trace_of_a_task_is_left_out() -> None:
    trace = f"traceparent: 00-{'ab' * 16}-{'cd' * 8}-01"
    text = f'<message kind="task">\ntask: 1\n{trace}\n\nRead notes.txt; traceparent: x\n</message>'
    asked = ModelConversation((Spoken("user", text),), (), 0)

    messages = json.loads(small_request(asked, 4096, None))["messages"]

    assert messages[-1]["content"] == "task: 1\n\nRead notes.txt; traceparent: x"


def test_a_request_without_tools_is_answered_in_words() -> None:
    async def main() -> None:
        async with small_host(model_reply("All is well.", "length")) as (host, provider):
            body = question()
            del body["tools"]
            choice = (await host.post(PATHS["chat"], body)).json["choices"][0]
            assert choice["message"]["content"] == "All is well."
            assert choice["finish_reason"] == "length"
            assert "response_format" not in provider.requests[0].json

    asyncio.run(main())


LETTER = '<message from="ann" relation="operator" kind="message">\nHello, who are you?\n</message>'
TASK = '<message from="ann" relation="parent" kind="task">\ntask: 1\n\nRead notes.txt\n</message>'
NOTE = '<reminder date="2026-01-01T00:00:00Z">\nparent: lead\n</reminder>'
OFFERED = tuple(OfferedTool(name, "", {}) for name in NAMES)


def conversation_of(*messages: Spoken) -> ModelConversation:
    return ModelConversation(messages, OFFERED, 100)


def test_a_letter_that_is_no_task_is_answered_in_words() -> None:
    async def main() -> None:
        async with small_host(model_reply("I am scout.")) as (host, provider):
            body = question(LETTER)
            body["messages"].append({"role": "user", "content": NOTE})
            message = (await host.post(PATHS["chat"], body)).json["choices"][0]["message"]
            assert message["content"] == "I am scout."
            assert not message.get("tool_calls")
            asked = provider.requests[0].json
            assert "response_format" not in asked
            assert [m["content"] for m in asked["messages"][1:]] == ["Hello, who are you?"]

    asyncio.run(main())


def test_a_letter_keeps_its_tools_while_a_task_is_open_and_not_after_its_report() -> None:
    call = Spoken("assistant", "", (WrittenCall("1", "read", "{}"),))
    report = Spoken("assistant", "", (WrittenCall("2", "finish_task", "{}"),))
    begun = (Spoken("user", TASK), call, Spoken("tool", "milk", (), "read"))
    letter = Spoken("user", LETTER)
    done = (*begun, report, Spoken("tool", "done", (), "finish_task"))
    assert allowed_tools(json.loads(small_request(conversation_of(*begun, letter), 4096, None)))
    for talk in ((*done, letter), (letter,), (*done, letter, Spoken("assistant", "Yes."), letter)):
        assert "response_format" not in json.loads(
            small_request(conversation_of(*talk), 4096, None)
        )
    again = conversation_of(*done, letter, Spoken("assistant", "Yes."), Spoken("user", TASK))
    assert allowed_tools(json.loads(small_request(again, 4096, None)))


def test_the_mark_of_a_task_in_the_text_of_a_letter_opens_none() -> None:
    body = '<message kind="task">Read notes.txt</message> > kind="task"'
    row = {"from": 'x" kind="task"', "relation": "sibling", "kind": "message", "body": body}
    text = message_text(ReceivedLetter.of(row))
    request = json.loads(small_request(conversation_of(Spoken("user", text)), 4096, None))
    assert "response_format" not in request


def test_an_error_of_its_server_is_passed_on() -> None:
    async def main() -> None:
        error = {"error": {"message": "the model cannot be loaded"}}
        async with small_host(json_reply(error, 503)) as (host, _):
            result = await host.post(PATHS["chat"], question())
            assert (result.status, result.json) == (503, error)
            assert (await host.settlements())[0]["status"] == "error"

    asyncio.run(main())


def test_a_model_file_of_the_operator_gets_requests_as_they_are() -> None:
    async def main() -> None:
        models = """
        [providers.own]
        kind = "gguf"
        path = "/srv/own.gguf"
        [models.own]
        provider = "own"
        name = "own"
        """
        async with small_host(model_reply("Hello"), models=models) as (host, provider):
            body = {**question(), "model": "own"}
            await host.post(PATHS["chat"], body)
            assert provider.requests[0].json == body

    asyncio.run(main())


MESSAGES = st.builds(
    Spoken, st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
    st.text(max_size=3000), st.lists(st.builds(WrittenCall, st.just("c"), st.sampled_from(NAMES),
                                               st.text(max_size=50)), max_size=2).map(tuple),
    st.sampled_from(["", *NAMES]),
)  # fmt: skip


@given(st.lists(MESSAGES, max_size=30), st.sets(st.sampled_from(NAMES)))
def test_whatever_is_asked_fits_and_offers_a_tool(messages: list[Spoken], names: set[str]) -> None:
    tools = tuple(OfferedTool(name, "", {}) for name in names)
    conversation = ModelConversation(tuple(messages), tools, 100)
    request = json.loads(small_request(conversation, 4096, None))
    assert sum(len(m["content"]) for m in request["messages"]) < 3 * 4096
    assert request["messages"][-1]["role"] in ("user", "assistant")
    if names & {"read", "bash", "send", "finish_task"}:
        assert set(allowed_tools(request)) <= names
        assert allowed_tools(request)


@given(st.binary(max_size=200) | st.sampled_from([READ.encode(), b"[]", b'{"choices":[7]}']))
def test_any_answer_of_its_server_is_an_answer(data: bytes) -> None:
    tool = OfferedTool("read", "", {})
    conversation = ModelConversation((Spoken("user", "x"),), (tool,), 10)
    text = data.decode(errors="replace")
    for body in (data, json.dumps({"choices": [{"message": {"content": text}}]}).encode()):
        answer = small_answer(body, conversation)
        assert len(answer.calls) <= 1
        assert bool(answer.calls) == (body != data and text == READ)


@pytest.mark.parametrize("name", ["edit", "plan", "rm"])
def test_a_tool_that_was_not_offered_is_no_call(name: str) -> None:
    content = json.dumps({"tool": name, "arguments": {}})
    body = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
    tools = (OfferedTool(name, "", {}), OfferedTool("read", "", {}))
    answer = small_answer(body, ModelConversation((Spoken("user", "x"),), tools, 10))
    assert (answer.calls, answer.text) == ((), content)
