"""Token buckets: attack 37."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hive_core.model.wire.rates import TokenBuckets


def test_a_burst_passes_and_then_so_many_a_second() -> None:
    rates = TokenBuckets(50, 200)
    assert [rates.take("a", 0.0) for _ in range(200)] == [0.0] * 200
    assert rates.take("a", 0.0) == 1 / 50
    assert rates.take("b", 0.0) == 0.0
    assert sum(rates.take("a", 1.0) == 0.0 for _ in range(100)) == 50


def test_a_clock_that_goes_back_gives_nothing() -> None:
    rates = TokenBuckets(1, 1)
    assert rates.take("a", 100.0) == 0.0
    assert rates.take("a", 0.0) > 0
    assert rates.take("a", 0.5) > 0
    assert rates.take("a", 1.0) == 0.0


def test_full_buckets_are_dropped_so_the_table_stays_small() -> None:
    rates = TokenBuckets(50, 200)
    for key in range(100_000):
        rates.take(key, key / 100)
    assert len(rates) < 10_000
    rates.forget(99_999)
    assert rates.take(99_999, 1000.0) == 0.0


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=300),
    st.floats(0.5, 100),
    st.integers(1, 50),
)
def test_never_more_than_burst_and_rate_allow(
    times: list[float], per_second: float, burst: int
) -> None:
    rates = TokenBuckets(per_second, burst)
    times.sort()
    passed = sum(rates.take("a", now) == 0.0 for now in times)
    assert passed <= burst + per_second * (times[-1] - times[0]) + 1e-6
