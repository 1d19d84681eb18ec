"""The live text of turns: whole where it fits, bounded where it does not, fair between agents."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.model.wire.live_text import TOTAL_MOST, TURN_MOST, TURNS_MOST, LiveTurns

ONE = ("main", 1)
BLOCK = "x" * (16 << 10)


def text_of(live: LiveTurns, agent: str) -> str:
    return "".join(part.text for part in live.parts_after(agent, 0))


def test_text_is_read_in_order_from_any_number_on() -> None:
    live = LiveTurns()
    assert [live.append("a", ONE, word, 1.0) for word in ("one ", "two ", "three")] == [4, 8, 13]
    parts = live.parts_after("a", 0)
    assert [(part.at, part.text) for part in parts] == [(0, "one "), (4, "two "), (8, "three")]
    assert [part.text for part in live.parts_after("a", parts[0].seq)] == ["two ", "three"]
    assert live.parts_after("b", 0) == []


def test_the_end_of_a_turn_is_a_part_and_is_told_once() -> None:
    live = LiveTurns()
    live.append("a", ONE, "text", 1.0)
    assert live.end("a", ONE, 2.0)
    assert not live.end("a", ONE, 3.0)
    assert not live.end("a", ("main", 2), 3.0)
    assert [(part.text, part.ended) for part in live.parts_after("a", 0)] == [
        ("text", False), ("", True),
    ]  # fmt: skip
    assert live.running_parts("a") == []


def test_numbers_ascend_over_a_restart() -> None:
    before, after = LiveTurns(), LiveTurns()
    for _ in range(50):
        before.append("a", ONE, "x", 100.0)
    after.append("a", ONE, "x", 101.0)
    assert after.newest("a") > before.newest("a")


def test_a_turn_keeps_its_last_text() -> None:
    live = LiveTurns()
    for number in range(1000):
        live.append("a", ONE, f"{number:08}" * 64, 1.0)
    parts = live.parts_after("a", 0)
    assert text_of(live, "a").endswith("00000999")
    assert TURN_MOST - 2048 < sum(part.size for part in parts) <= TURN_MOST
    assert parts[0].at == 1000 * 512 - sum(len(part.text) for part in parts)


def test_a_ninth_turn_drops_the_oldest() -> None:
    live = LiveTurns()
    for turn in range(TURNS_MOST + 1):
        live.append("a", ("main", turn), str(turn), 1.0)
    assert text_of(live, "a") == "12345678"


def test_an_agent_that_writes_most_pays_for_the_room_of_all() -> None:
    """One that is quiet keeps its text, however much the others write."""
    live = LiveTurns()
    live.append("quiet", ONE, "still here", 1.0)
    for agent in range(TOTAL_MOST // (8 * TURN_MOST) + 8):
        for turn in range(TURNS_MOST):
            for _ in range(4):
                live.append(f"loud{agent}", ("main", turn), BLOCK, 1.0)
    assert live.bytes <= TOTAL_MOST
    assert text_of(live, "quiet") == "still here"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.integers(0, 12), st.text(max_size=40),
            st.sampled_from(["append", "end", "forget"]),
        ),
        max_size=80,
    )
)  # fmt: skip
def test_the_account_of_bytes_is_what_is_kept(steps: list[tuple[str, int, str, str]]) -> None:
    live = LiveTurns()
    for agent, turn, text, step in steps:
        if step == "append":
            live.append(agent, ("c", turn), text, 1.0)
        elif step == "end":
            live.end(agent, ("c", turn), 1.0)
        else:
            live.forget(agent)
    parts = [part for agent in "ab" for part in live.parts_after(agent, 0)]
    assert live.bytes == sum(part.size for part in parts)
    for agent in "ab":
        numbers = [part.seq for part in live.parts_after(agent, 0)]
        assert numbers == sorted(set(numbers))
