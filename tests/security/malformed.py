"""Bounds of row R12 and what is thrown at parsers."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from long import at_most, times

from hive_core.errors import HiveError

SECONDS, GROWTH = 0.25, 64 << 20
some = settings(
    max_examples=times(60, 30_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
UUID = "00000001-0000-4000-8000-000000000001"
TEXT = st.text(max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.just(UUID),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
NAMES = st.from_regex(r"\A[a-z][a-z0-9-]{0,33}\Z") | TEXT


@contextmanager
def measure_input() -> Iterator[None]:
    """Processor time and memory of one input; other work on the machine does not count."""
    memory, begin = largest(), time.process_time()
    yield
    assert time.process_time() - begin < at_most(SECONDS, slack=0)
    assert largest() - memory < GROWTH


def largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def is_refused(read: Callable[[], object], kind: type[Exception] = HiveError) -> bool:
    """Whether it is refused, with a declared error and within bounds."""
    with measure_input():
        try:
            read()
        except kind:
            return True
    return False
