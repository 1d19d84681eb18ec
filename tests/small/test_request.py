"""The body of a chat call: what is refused, and what the engine gets to see."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from small.client import question

from hive_core.small.request import TOKENS, ChatRefusal, parse_chat

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = ("messages", "stream", "n", "max_tokens", "model", "tools", "grammar", "id_slot")


def refusal(body: object) -> ChatRefusal:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ChatRefusal) as caught:
        parse_chat(data, 4096)
    return caught.value


def test_only_known_fields_reach_the_engine() -> None:
    body = question(id_slot=3, cache_prompt=False, samplers=["x"], temperature=0, grammar=None)
    request = parse_chat(json.dumps(body).encode(), 4096)
    assert request.fields.keys() == {"messages", "temperature", "max_tokens"}
    assert request.model == "small"
    assert not request.stream


@for_each("fields, tokens", [
        ({}, TOKENS), ({"max_tokens": 5}, 5), ({"max_completion_tokens": 6, "max_tokens": 5}, 6),
        ({"max_tokens": 1 << 40}, 4096),
    ])  # fmt: skip
def test_an_answer_is_bounded_by_the_caller_and_by_the_context(
    fields: dict[str, object], tokens: int
) -> None:
    request = parse_chat(json.dumps({**question(), **fields}).encode(), 4096)
    assert request.fields["max_tokens"] == tokens


@for_each(
    "body, reason",
    [
        (b"\xff", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"messages": NaN}', "NaN is not a number"),
        (b'"\\ud800"', "surrogates not allowed"),
        ([], "must be an object"),
        ({}, "messages must be a list"),
        ({"messages": []}, "messages must be a list"),
        ({"messages": ["hello"]}, "messages[0] must be an object with a role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content must be text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "this model reads only parts of type text",
        ),
        (question(stream="yes"), "stream must be true or false"),
        (question(n=2), "n must be 1"),
        (question(max_tokens=0), "max_tokens must be a whole number above 0"),
        (question(max_tokens=True), "max_tokens must be a whole number above 0"),
    ],
)
def test_a_bad_body_is_refused_with_the_field(body: object, reason: str) -> None:
    error = refusal(body)
    assert (error.status, error.kind) == (400, "invalid_request_error")
    assert reason in error.reason


@given(st.binary() | st.dictionaries(st.sampled_from(FIELDS), JSON).map(json.dumps))
def test_any_body_is_a_request_or_refused(body: bytes | str) -> None:
    with suppress(ChatRefusal):
        request = parse_chat(body if isinstance(body, bytes) else body.encode(), 4096)
        assert request.fields["messages"]
        assert "id_slot" not in request.fields
