"""Models of kind `scripted`, asked by the libraries that agents use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from fixtures.models import ModelHost, model_host
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.model.config.models import Wire
from hive_core.proxy.body import parse_body
from hive_core.proxy.route import WIRES
from hive_core.proxy.scripted import parse_rules

if TYPE_CHECKING:  # one of them takes a second to import, in each process that collects the tests
    import anthropic
    import openai

MODELS = """
[providers.chat]
kind = "scripted"
path = "{folder}/rules.toml"
[providers.responses]
kind = "scripted"
wire = "responses"
path = "{folder}/rules.toml"
[providers.messages]
kind = "scripted"
wire = "messages"
path = "{folder}/rules.toml"
[models.chat]
provider = "chat"
name = "script"
[models.responses]
provider = "responses"
name = "script"
[models.messages]
provider = "messages"
name = "script"
[models.strict]
provider = "chat"
name = "strict"
"""
RULES = r"""
[[rules]]
on = "result"
tool = "read"
match = "(?s)(.*)"
text = 'It says: \1'
[[rules]]
match = 'Read (\S+)'
calls = [{ name = "read", arguments = { path = '\1', lines = 3 } }, { name = "now" }]
[[rules]]
match = "only strict"
model = "strict"
text = "strict"
[[rules]]
match = "cost"
text = "dear"
tokens_in = 1000
tokens_out = 50
cache_read = 900
[[rules]]
match = "cut"
text = "half a sen"
cut = true
[[rules]]
match = "break"
text = "this answer is long enough to have a middle in which it breaks"
break = true
[[rules]]
match = "busy"
status = 503
retry_after = 20
text = "come later"
[[rules]]
match = "Hi"
step = 1
text = "Hello, \u00fcber there! \U0001f41d"
"""
HELLO = "Hello, \u00fcber there! \U0001f41d"


@asynccontextmanager
async def scripted_clients() -> AsyncIterator[
    tuple[ModelHost, openai.AsyncOpenAI, anthropic.AsyncAnthropic]
]:
    from anthropic import AsyncAnthropic  # noqa: PLC0415
    from openai import AsyncOpenAI  # noqa: PLC0415

    async with model_host(MODELS, files={"rules.toml": RULES}) as host:
        transport = httpx2.AsyncHTTPTransport(uds=str(host.socket))
        async with httpx2.AsyncClient(transport=transport) as client:
            ours: dict[str, Any] = {"api_key": "none", "max_retries": 0, "http_client": client}
            yield (
                host,
                AsyncOpenAI(base_url="http://hive/v1", **ours),
                AsyncAnthropic(base_url="http://hive", **ours),
            )


COUNTS = ("tokens_in", "tokens_out", "cache_read")
TOOL = {"name": "read", "parameters": {"type": "object"}}


def test_chat_answers_are_read_by_the_library() -> None:
    async def main() -> None:
        async with scripted_clients() as (host, client, _):
            said: list[Any] = [{"role": "user", "content": "Read notes.txt"}]
            for streams in (False, True):
                call = await chat(client, said, stream=streams)
                calls = call["tool_calls"]
                assert [c["function"]["name"] for c in calls] == ["read", "now"]
                arguments = json.loads(calls[0]["function"]["arguments"])
                assert arguments == {"path": "notes.txt", "lines": 3}
                result = {"role": "tool", "tool_call_id": calls[0]["id"], "content": "milk"}
                answer = await chat(client, [*said, call, result], stream=streams)
                assert answer["content"] == "It says: milk"
                hello = await chat(client, [{"role": "user", "content": "Hi"}], stream=streams)
                assert hello["content"] == HELLO
            assert {s["status"] for s in await host.settlements(6)} == {"done"}

    asyncio.run(main())


async def chat(client: openai.AsyncOpenAI, messages: list[Any], *, stream: bool) -> dict[str, Any]:
    """The message that the library makes of the answer."""
    tools: list[Any] = [{"type": "function", "function": TOOL}]
    if not stream:
        whole = await client.chat.completions.create(model="chat", messages=messages, tools=tools)
        answer: dict[str, Any] = whole.choices[0].message.model_dump(exclude_none=True)
        return answer
    async with client.chat.completions.stream(model="chat", messages=messages) as events:
        async for _ in events:
            pass
        final = await events.get_final_completion()
    message: dict[str, Any] = final.choices[0].message.model_dump(exclude_none=True)
    for call in message.get("tool_calls", []):
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    return message


@pytest.mark.parametrize("streams", [False, True])
def test_responses_are_read_by_the_library(*, streams: bool) -> None:
    async def main() -> None:
        async with scripted_clients() as (host, client, _):
            said: list[Any] = [{"role": "user", "content": "Read notes.txt"}]
            first = await responses(client, said, streams=streams)
            call = first.output[0]
            assert (call.type, call.name) == ("function_call", "read")
            assert json.loads(call.arguments) == {"path": "notes.txt", "lines": 3}
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "milk"}
            later = [*said, call.model_dump(exclude_none=True), result]
            answer = await responses(client, later, streams=streams)
            assert answer.output_text == "It says: milk"
            assert (await responses(client, "Hi", streams=streams)).output_text == HELLO
            cut = await responses(client, "cut", streams=streams)
            assert cut.status == "incomplete"
            costly = await responses(client, "cost", streams=streams)
            assert costly.usage.input_tokens_details.cached_tokens == 900
            settled = (await host.settlements(5))[-1]
            assert [settled[key] for key in COUNTS] == [1000, 50, 900]

    asyncio.run(main())


async def responses(client: openai.AsyncOpenAI, said: Any, *, streams: bool) -> Any:  # noqa: ANN401
    if not streams:
        return await client.responses.create(model="responses", input=said)
    last: Any = None
    async for event in await client.responses.create(model="responses", input=said, stream=True):
        last = event
    return last if last.type == "error" else last.response


@pytest.mark.parametrize("streams", [False, True])
def test_messages_are_read_by_the_library(*, streams: bool) -> None:
    async def main() -> None:
        async with scripted_clients() as (host, _, client):
            said: list[Any] = [{"role": "user", "content": "Read notes.txt"}]
            first = await messages(client, said, streams=streams)
            assert [block.type for block in first.content] == ["tool_use", "tool_use"]
            assert first.content[0].input == {"path": "notes.txt", "lines": 3}
            assert first.stop_reason == "tool_use"
            blocks = [block.model_dump() for block in first.content]
            calls = {"role": "assistant", "content": blocks}
            block = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "milk"}
            later = [*said, calls, {"role": "user", "content": [block]}]
            answer = await messages(client, later, streams=streams)
            assert answer.content[0].text == "It says: milk"
            costly = await messages(client, [{"role": "user", "content": "cost"}], streams=streams)
            assert (costly.usage.input_tokens, costly.usage.cache_read_input_tokens) == (100, 900)
            settled = (await host.settlements(3))[-1]
            assert [settled[key] for key in COUNTS] == [1000, 50, 900]

    asyncio.run(main())


async def messages(client: anthropic.AsyncAnthropic, said: list[Any], *, streams: bool) -> Any:  # noqa: ANN401 - what the library makes of it
    if not streams:
        return await client.messages.create(model="messages", messages=said, max_tokens=100)
    async with client.messages.stream(model="messages", messages=said, max_tokens=100) as events:
        return await events.get_final_message()


def test_errors_are_what_the_libraries_expect() -> None:
    import anthropic  # noqa: PLC0415
    import openai  # noqa: PLC0415

    async def main() -> None:
        async with scripted_clients() as (host, chat_client, client):
            user: list[Any] = [{"role": "user", "content": "busy"}]
            with pytest.raises(anthropic.InternalServerError, match="come later") as busy:
                await messages(client, user, streams=False)
            assert busy.value.response.headers["retry-after"] == "20"
            with pytest.raises(openai.InternalServerError, match="come later"):
                await chat(chat_client, user, stream=False)
            broken: list[Any] = [{"role": "user", "content": "break"}]
            with pytest.raises(anthropic.APIStatusError, match="stopped in the middle"):
                await messages(client, broken, streams=True)
            with pytest.raises(openai.APIError, match="stopped in the middle"):
                await chat(chat_client, broken, stream=True)
            last = await responses(chat_client, "break", streams=True)
            assert (last.type, last.code) == ("error", "server_error")
            assert "stopped in the middle" in last.message
            with pytest.raises(openai.BadRequestError, match="no rule of this model fits"):
                await chat(chat_client, [{"role": "user", "content": "only strict"}], stream=False)
            assert len(await host.settlements(6)) == 6

    asyncio.run(main())


def test_the_models_are_listed_by_the_libraries() -> None:
    async def main() -> None:
        async with scripted_clients() as (host, chat_client, client):
            host.hived.models = [{"alias": "chat"}, {"alias": "messages"}]
            assert [m.id async for m in chat_client.models.list()] == ["chat", "messages"]
            assert [m.id async for m in client.models.list()] == ["chat", "messages"]
            counted = await client.messages.count_tokens(
                model="messages", messages=[{"role": "user", "content": "x" * 400}]
            )
            assert 100 <= counted.input_tokens <= 150

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("rules = 1", "rules"),
        ("[[rules]]\nmatch = '('", "rules[0].match"),
        ("[[rules]]\nmtach = 'x'", "rules[0].mtach"),
        ("[[rules]]\nstatus = 99", "rules[0].status"),
        ("[[rules]]\ncalls = [{}]", "rules[0].calls[0].name"),
        ("[[rules]]\nstep = 0", "rules[0].step"),
        ("[[rules", "r.toml"),
    ],
)
def test_a_fault_in_the_rules_names_its_key(text: str, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_rules(text.encode(), "r.toml")
    assert caught.value.field == field


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["role", "content", "tool_calls", "function", "name", "arguments", "type", "text", "id",
             "tool_use_id", "call_id", "output", "input", "parameters", "input_schema"]
        ),
        inner | st.sampled_from(["tool", "assistant", "function_call", "tool_result", "tool_use"]),
        max_size=4,
    ),
    max_leaves=15,
)  # fmt: skip


@pytest.mark.parametrize("wire", list(Wire))
@given(turns=JSON, tools=JSON, system=JSON)
def test_any_request_is_some_conversation(wire: Wire, turns: Any, tools: Any, system: Any) -> None:  # noqa: ANN401
    form = WIRES[wire]
    value = {"model": "m", form.turns_key: turns, "tools": tools, "system": system,
             "instructions": system}  # fmt: skip
    conversation = form.conversation(parse_body(json.dumps(value).encode(), form.turns_key))
    assert conversation.step >= 1
    assert all(isinstance(message.text, str) for message in conversation.messages)
    assert all(isinstance(tool.schema, dict) for tool in conversation.tools)


@pytest.mark.parametrize("wire", list(Wire))
def test_texts_of_the_user_since_the_last_answer_are_matched_together(wire: Wire) -> None:
    form = WIRES[wire]
    turns = [{"role": role, "content": text} for role, text in (
        ("user", "old"), ("assistant", "yes"), ("user", "read the notes"), ("user", "it is late"),
    )]  # fmt: skip
    body = {"model": "m", form.turns_key: turns}
    conversation = form.conversation(parse_body(json.dumps(body).encode(), form.turns_key))
    assert conversation.last.text == "read the notes\nit is late"


def test_a_remark_of_the_system_behind_a_message_is_not_the_last_message() -> None:
    """Claude Code puts its environment there."""
    turns = [{"role": "user", "content": "go"}, {"role": "system", "content": "# Environment"}]
    form = WIRES[Wire.MESSAGES]
    value = {"model": "m", "messages": turns}
    conversation = form.conversation(parse_body(json.dumps(value).encode(), form.turns_key))
    assert [row.text for row in conversation.messages] == ["# Environment", "go"]
