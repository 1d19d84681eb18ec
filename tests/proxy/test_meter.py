"""The meter and the cutter of events, on whatever a provider sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxy.calling import USAGE, WIRES, stream

from hive_core.model.config.models import Wire, parse_models
from hive_core.proxy.meter import (
    DONE,
    EVENT_MOST,
    TOKENS_MOST,
    AnswerMeter,
    EventCutter,
    TokenUsage,
    event_data,
    parse_object,
    token_count,
)
from hive_core.proxy.price import PriceTable
from hive_core.proxy.route import WIRES as FORMATS

KEYS = [
    "usage", "type", "message", "choices", "delta", "response", "input_tokens", "output_tokens",
    "prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", "content",
    "cache_read_input_tokens", "cache_creation_input_tokens", "tool_calls", "function", "name",
    "arguments", "text", "output", "sequence_number", "error", "input", "content_block",
]  # fmt: skip
VALUES = [
    "message_start", "message_delta", "message_stop", "response.completed", "content_block_delta",
    "content_block_start", "stop", "x", 7, -1, 1 << 70, 1e300, float("nan"), True, None, "",
]  # fmt: skip
WILD: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(VALUES),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=20,
)


def check_bounds(meter: AnswerMeter) -> None:
    usage = meter.usage()
    assert 0 <= usage.cache_read + usage.cache_write <= usage.tokens_in
    assert 0 <= usage.tokens_in <= 3 * TOKENS_MOST
    assert 0 <= usage.tokens_out <= TOKENS_MOST
    assert 0 <= meter.out_so_far <= TOKENS_MOST


@pytest.mark.parametrize("wire", WIRES)
@given(values=st.lists(WILD, max_size=6))
def test_any_values_give_usage_within_bounds(wire: str, values: list[Any]) -> None:
    meter = FORMATS[Wire(wire)].meter(1000)
    for value in values:
        if isinstance(value, dict):
            meter.read(value)
            check_bounds(meter)
            whole = FORMATS[Wire(wire)].meter(1000)
            whole.read_answer(value)
            check_bounds(whole)


@pytest.mark.parametrize("wire", WIRES)
@given(usage=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=6))
def test_a_whole_stream_with_any_usage_is_counted(wire: str, usage: dict[str, Any]) -> None:
    meter = FORMATS[Wire(wire)].meter(40)
    for event in stream(wire, usage):
        if (data := event_data(event)) == DONE:
            meter.read_done()
        else:
            meter.read(parse_object(data))
    assert meter.is_complete
    check_bounds(meter)


def test_usage_of_all_wires_is_the_same() -> None:
    for wire in WIRES:
        meter = FORMATS[Wire(wire)].meter(40)
        meter.read_answer({"usage": USAGE[wire]})
        assert meter.usage() == TokenUsage(100, 7, 40, 0)


@given(st.lists(st.sampled_from([b"a", b"data: x", b"\n", b"\r", b"\r\n", b"\n\n"]), max_size=30),
       st.lists(st.integers(1, 9), min_size=1, max_size=40))  # fmt: skip
def test_events_are_the_same_wherever_the_stream_is_cut(
    parts: list[bytes], sizes: list[int]
) -> None:
    data = b"".join(parts)
    whole, cutter, events, position = EventCutter(), EventCutter(), [], 0
    for size in [*sizes, len(data) + 1]:
        events += cutter.feed(data[position : position + size])
        position += size
    assert b"".join([*events, cutter.take_rest()]) == data
    texts = [event_data(event) for event in events]
    expected = [event_data(event) for event in whole.feed(data)]
    assert [text for text in texts if text] == [text for text in expected if text]


def test_an_endless_event_is_passed_on_in_parts() -> None:
    cutter = EventCutter()
    assert cutter.feed(b"x" * EVENT_MOST) == []
    assert [len(part) for part in cutter.feed(b"x")] == [EVENT_MOST + 1]
    assert cutter.take_rest() == b""


@given(WILD)
def test_a_count_is_a_whole_number_within_bounds(value: object) -> None:
    count = token_count(value)
    assert count is None or (count == value and 0 <= count <= TOKENS_MOST)
    assert token_count(json.loads("12")) == 12


PRICES = """
[providers.p]
base_url = "{url}"
[models.m]
provider = "p"
name = "{name}"
"""


def test_prices_come_from_the_list_of_the_provider() -> None:
    text = PRICES.format(url="https://api.anthropic.com/v1", name="claude-sonnet-4-5")
    table = PriceTable(parse_models(text))
    usage = TokenUsage(1_000_000, 1_000_000)
    large = table.cost("m", usage)
    assert table.is_known("m")
    assert 15 <= large <= 30
    assert table.cost("m", TokenUsage(1000, 0, 1000)) < table.cost("m", TokenUsage(1000))
    prices = table.list_prices("m")
    assert prices.keys() == {"price_in", "price_out"}


def test_a_model_that_nobody_lists_costs_nothing_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = PriceTable(parse_models(PRICES.format(url="https://example.org", name="mine")))
    assert table.cost("m", TokenUsage(1000, 1000)) == 0
    assert table.find_unknown() == ["m"]
    assert not table.is_known("m")
    assert [record.message for record in caplog.records] == [
        "model m (mine) has no known price and is charged as 0: set price_in and price_out"
    ]
