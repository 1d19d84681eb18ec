"""A shorter history for a summary: every call keeps its result, and the sizes are bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from hive_core.runtime.shortening import cut_text, shorten_history
from hive_core.runtime.turn_request import read_messages, write_message

SYSTEM = "system " * 500


def history_of(rounds: list[tuple[int, int]], first: int) -> list[ModelMessage]:
    """A request, and rounds of a call with such a long argument and such a long result."""
    messages: list[ModelMessage] = [
        ModelRequest([SystemPromptPart(SYSTEM), UserPromptPart("u" * first)])
    ]
    for at, (argument, result) in enumerate(rounds):
        call = ToolCallPart("edit", {"text": "a" * argument}, f"c{at}")
        messages.append(ModelResponse([TextPart("I edit."), call]))
        messages.append(ModelRequest([ToolReturnPart("edit", "r" * result, f"c{at}")]))
    return messages


def size_of(history: list[ModelMessage]) -> int:
    return sum(len(write_message(message)) for message in history)


SIZES = st.integers(0, 20_000)


@given(st.lists(st.tuples(SIZES, SIZES), max_size=12), SIZES, st.integers(1, 3))
def test_what_is_left_is_a_valid_history(
    rounds: list[tuple[int, int]], first: int, times: int
) -> None:
    whole = history_of(rounds, first)
    short, results = shorten_history(whole, {"open": "o" * 5000}, times)
    assert size_of(short) <= size_of(whole) + 200
    assert isinstance(short[0], ModelRequest)
    system = short[0].parts[0]
    assert isinstance(system, SystemPromptPart)
    assert system.content == SYSTEM
    calls = [part.tool_call_id for message in short if isinstance(message, ModelResponse)
             for part in message.tool_calls]  # fmt: skip
    returns = [part.tool_call_id for message in short for part in message.parts
               if isinstance(part, ToolReturnPart)]  # fmt: skip
    assert calls == returns
    assert set(results) == {"open"}
    kinds = [message.kind for message in whole[: len(short)]]
    assert [message.kind for message in short] == kinds
    lines = "\n".join(map(write_message, short)).encode()
    assert len(read_messages(lines)) == len(short)


def test_a_history_of_many_short_messages_loses_the_oldest_answers() -> None:
    whole = history_of([(10, 100)] * 400, 50)
    short, _ = shorten_history(whole, {}, 2)
    assert size_of(short) < size_of(whole) * 0.35
    assert "messages left out" in write_message(short[0])
    assert write_message(short[-1]) == write_message(whole[-1])


def test_one_long_result_is_cut_and_the_short_ones_stay() -> None:
    whole = history_of([(10, 100), (10, 50_000), (10, 100)], 50)
    short, _ = shorten_history(whole, {}, 1)
    assert len(short) == len(whole)
    assert [write_message(short[at]) for at in (1, 2, 5, 6)] == [
        write_message(whole[at]) for at in (1, 2, 5, 6)
    ]
    assert "characters left out" in write_message(short[4])


@given(st.text(max_size=500), st.integers(50, 100))
def test_a_cut_text_has_its_beginning_and_its_end(text: str, most: int) -> None:
    short = cut_text(text, most)
    assert len(short) <= most
    if len(text) <= most:
        assert short == text
    else:
        assert (short[:6], short[-3:]) == (text[:6], text[-3:])
