"""The two changes of a body change nothing else; other bytes are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hive_core.proxy.body import _JUDGED, parse_body
from hive_core.proxy.failure import CallFailed

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
OPTIONS = st.one_of(
    st.none(), st.just({}), JSON,
    st.fixed_dictionaries({}, optional={"include_usage": st.booleans() | st.none(), "other": JSON}),
)  # fmt: skip
KEYS = TEXT.filter(lambda key: key.casefold() not in _JUDGED)
SPACES = st.sampled_from(["", " ", "\n\t", "\r\n  "])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A body in some spelling, and the object that it is."""
    value: dict[str, Any] = draw(st.dictionaries(KEYS, JSON, max_size=4))
    value["messages"] = draw(st.lists(JSON, max_size=4))
    if draw(st.booleans()):
        value["stream_options"] = draw(OPTIONS)
    value["model"] = draw(TEXT.filter(bool))
    order = draw(st.permutations(list(value)))
    space, is_ascii = draw(SPACES), draw(st.booleans())
    members = [
        f"{json.dumps(key, ensure_ascii=is_ascii)}{space}:{space}"
        f"{json.dumps(value[key], ensure_ascii=is_ascii)}"
        for key in order
    ]
    text = f"{space}{{{space}{(space + ',' + space).join(members)}{space}}}{space}"
    return text.encode(), value


@given(bodies(), TEXT.filter(bool))
def test_the_name_of_the_model_is_all_that_changes(
    body: tuple[bytes, dict[str, Any]], name: str
) -> None:
    data, value = body
    parsed = parse_body(data, "messages")
    assert parsed.alias == value["model"]
    result = parsed.with_model(name)
    assert json.loads(result) == {**value, "model": name}
    part = parsed.members["model"]
    assert result.startswith(data[: part.start])
    assert result.endswith(data[part.end :])
    assert len(result) == len(data) - (part.end - part.start) + len(json.dumps(name))


@given(bodies())
def test_a_stream_reports_usage_and_nothing_else_changes(
    body: tuple[bytes, dict[str, Any]],
) -> None:
    data, value = body
    parsed = parse_body(data, "messages")
    options = value.get("stream_options")
    known = options if isinstance(options, dict) else {}
    result = parsed.with_model(value["model"], include_usage=True)
    expected = {**value, "stream_options": {**known, "include_usage": True}}
    assert json.loads(result, object_pairs_hook=unique) == expected
    if known.get("include_usage") is True:
        assert parsed.includes_usage
    # All bytes are still there in their order, but for the values that were replaced.
    rest = iter(result)
    replaced = [parsed.members["model"]]
    if (part := parsed.members.get("stream_options")) is not None:
        replaced.append(part)
    outside = [
        byte
        for at, byte in enumerate(data)
        if not any(part.start <= at < part.end for part in replaced)
    ]
    assert all(byte in rest for byte in outside)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@given(bodies())
def test_the_turns_are_the_elements_of_the_list(body: tuple[bytes, dict[str, Any]]) -> None:
    data, value = body
    parsed = parse_body(data, "messages")
    assert [parsed.read(part) for part in parsed.turns] == value["messages"]
    assert {key: parsed.read(part) for key, part in parsed.members.items()} == value


@given(bodies(), st.data())
def test_a_damaged_body_is_refused_or_is_json(
    body: tuple[bytes, dict[str, Any]], data: st.DataObject
) -> None:
    raw = bytearray(body[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        parsed = parse_body(bytes(raw), "messages")
    except CallFailed as failure:
        assert failure.status == 400  # noqa: PT017 - it may be JSON as well
        return
    assert json.loads(bytes(raw).decode()).keys() == parsed.members.keys()


@given(st.binary(max_size=60))
@example(b"[" * 100_000)
@example(b'{"a":' * 50_000)
@example(b'{"model":"\xed\xa0\x80"}')
@example(b"\xef\xbb\xbf{}")
@example(b'{"a":1e999999}')
@example(b'{"a":' + b"9" * 5000 + b"}")
def test_any_bytes_are_a_body_or_refused(data: bytes) -> None:
    try:
        parse_body(data, "messages")
    except CallFailed as failure:
        assert failure.status == 400  # noqa: PT017
        return
    assert isinstance(json.loads(data), dict)


@given(st.lists(st.sampled_from('{}[]",:1a\\ '), max_size=12))
def test_it_agrees_with_json_on_what_is_json(marks: list[str]) -> None:
    text = '{"model":"m",' + "".join(marks) + "}"
    try:
        expected = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    except ValueError:
        with pytest.raises(CallFailed):
            parse_body(text.encode(), "messages")
        return
    keys = [key for key, _ in expected]
    assume(len(set(keys)) == len(keys))
    assume(not any(k.casefold() in _JUDGED and k not in _JUDGED for k in keys))
    assert list(parse_body(text.encode(), "messages").members) == keys


@given(bodies(), bodies())
def test_the_prefix_is_of_the_tools_and_all_turns_but_the_last(
    body: tuple[bytes, dict[str, Any]], other: tuple[bytes, dict[str, Any]]
) -> None:
    value = {"model": "a", "messages": body[1]["messages"], "tools": [1]}
    later = {"messages": [*value["messages"][:-1], other[1]], "model": "b", "tools": [1]}

    def digest(body: dict[str, Any]) -> str:
        return parse_body(json.dumps(body).encode(), "messages").prefix_digest(("tools",))

    if value["messages"]:
        assert digest(value) == digest(later)
    assert digest(value) != digest({**value, "tools": [2]})
    assert digest(value) != digest({**value, "messages": [0, *value["messages"], 0]})


@pytest.mark.parametrize(
    ("more", "offers"),
    [
        ({}, False),
        ({"tools": []}, False),
        ({"tools": [1]}, True),
        ({"tools": [1], "tool_choice": "auto"}, True),
        ({"tools": [1], "tool_choice": "none"}, False),
        ({"tools": [1], "tool_choice": {"type": "none"}}, False),
        ({"tools": [1], "tool_choice": {"type": "tool", "name": "none"}}, True),
        ({"tools": [1], "tool_choice": ["none"]}, True),
    ],
)
def test_a_request_offers_tools_unless_it_forbids_them(
    more: dict[str, object],
    offers: bool,  # noqa: FBT001 - a case
) -> None:
    data = json.dumps({"model": "a", "messages": [], **more}).encode()
    assert parse_body(data, "messages").offers_tools is offers
