"""A row: what was measured, and beside what.

`name`, `value` and `unit` stand in every row. Where there is something to compare with also `peer`
with `peer_value`, or with `peer_error` when it could not be measured here. `aim` says what was
aimed at and `met` whether it was reached. A row that is a point of a curve has `plot` (the name
of the picture), `line`, `x` and `x_unit`. A row with `error` is all that is left of a benchmark
that failed.
"""

import time
from collections.abc import Callable

Row = dict[str, object]
ROUNDS = 5


def beside(peer: str, measure: Callable[[], float]) -> Row:
    """The columns of a peer. One that is not installed or breaks costs its own columns only."""
    try:
        return {"peer": peer, "peer_value": measure()}
    except Exception as problem:  # noqa: BLE001 - whatever it was, it is the peer's
        return {"peer": peer, "peer_error": error_line(problem)}


def with_aim(row: Row, aim: str, **bounds: float) -> Row:
    """The row with its aim. The bounds say when it is met: at_least, at_most, ratio_at_least,
    ratio_at_most. A ratio that could not be had leaves it open.
    """
    row = {**row, **ratio(row), "aim": aim}
    result: list[bool] = []
    for bound, limit in bounds.items():
        value = row.get("ratio" if bound.startswith("ratio") else "value")
        if not isinstance(value, int | float):
            return row
        result.append(value >= limit if bound.endswith("at_least") else value <= limit)
    return {**row, "met": all(result)}


def ratio(row: Row) -> Row:
    """Ours to theirs, as a column; none where one of them is missing."""
    ours, theirs = row.get("value"), row.get("peer_value")
    known = isinstance(ours, int | float) and isinstance(theirs, int | float) and theirs
    return {"ratio": float(str(ours)) / float(str(theirs))} if known else {}


def error_line(problem: BaseException) -> str:
    """An error in one line."""
    return " ".join((str(problem) or type(problem).__name__).split())[:160]


def rate(call: Callable[[], object], calls: int = 20_000) -> float:
    """Calls in a second: the best of some rounds, as what disturbs a round can only slow it."""
    return calls / min(seconds(call, calls) for _ in range(ROUNDS))


def seconds(call: Callable[[], object], calls: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start
