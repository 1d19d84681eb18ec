"""Sliding windows: no 60 seconds, and no hour, with more than was counted in it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.model.wire.window import MINUTES, SPAN, HourWindow

HOUR = SPAN * MINUTES
STEPS = st.lists(st.tuples(st.floats(0, 2000), st.integers(0, 50)), max_size=60)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, start=st.floats(0, 1e9))
def test_all_of_the_last_hour_is_in_it_and_nothing_of_two_minutes_before(
    steps: list[tuple[float, int]], start: float
) -> None:
    now, hour, said = start, HourWindow(start), list[tuple[float, int]]()
    for passed, amount in steps:
        now += passed
        hour = hour.advance(now).add(amount)
        said.append((now, amount))
        least = sum(amount for at, amount in said if at > now - HOUR)
        most = sum(amount for at, amount in said if at > now - HOUR - 2 * SPAN)
        assert least <= hour.total <= most
        assert len(hour.counts) <= MINUTES + 1


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, bound=st.integers(1, 100))
def test_when_it_is_below_a_bound_is_known_beforehand(
    steps: list[tuple[float, int]], bound: int
) -> None:
    now, hour = 0.0, HourWindow(0.0)
    for passed, amount in steps:
        now += passed
        hour = hour.advance(now).add(amount)
    at = hour.time_below(bound)
    assert hour.advance(max(now, at)).total < bound
    if at > now:
        assert hour.advance(at - SPAN / 2).total >= bound


def test_a_clock_that_is_set_back_forgets_nothing() -> None:
    hour = HourWindow(1000.0, (5, 7))
    assert hour.advance(10.0).total == 12
