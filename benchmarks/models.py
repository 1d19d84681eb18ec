"""What hive-model adds to a call of a model, how many it passes on, and what it needs.

Each call is reserved and settled at a stand-in of hived in another process, so the figures have
the way to hived and back, but not its work.
"""

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.peers.model_calls import (
    ModelWay,
    hive_model,
    latencies,
    litellm,
    provider,
    rate,
)
from benchmarks.report.rows import Row, error_line, with_aim

PEER = "litellm proxy"
NAMES = {
    "hive-model adds to a call, half of them": "median",
    "hive-model adds to a call, 99 of 100": "late",
    "calls through hive-model, 16 at once": "rate",
    "memory of hive-model after them": "memory",
    "start of hive-model": "start",
}
AIMS = {
    "median": ("ms", 3.0), "late": ("ms", 10.0), "rate": ("calls/s", 600.0),
    "memory": ("MiB", 60.0), "start": ("s", 0.5),
}  # fmt: skip


class Between(Protocol):
    def __call__(self, direct: ModelWay, folder: Path) -> AbstractContextManager[ModelWay]: ...


@dataclass
class Figures:
    """Milliseconds that are added to a call, calls in a second, MiB, and seconds of the start."""

    median: float
    late: float
    rate: float
    memory: float
    start: float


def run() -> list[Row]:
    with provider() as (direct, folder):
        ours = measure(hive_model, direct, folder)
        try:
            theirs: Figures | str = measure(litellm, direct, folder)
        except Exception as problem:  # noqa: BLE001 - whatever it was, it is the peer's
            theirs = error_line(problem)
        bare = asyncio.run(rate(direct))
    rows = [{**_row(field, ours, theirs), "name": name} for name, field in NAMES.items()]
    return [*rows, {"name": "calls to the provider without it", "value": bare, "unit": "calls/s"}]


def measure(between: Between, direct: ModelWay, folder: Path) -> Figures:
    with between(direct, folder) as way:
        plain, through = asyncio.run(latencies([direct, way]))
        calls = asyncio.run(rate(way))
        return Figures(
            1000 * (_at(through, 0.5) - _at(plain, 0.5)),
            1000 * (_at(through, 0.99) - _at(plain, 0.99)),
            calls, way.memory, way.start,
        )  # fmt: skip


def _at(seconds: list[float], share: float) -> float:
    return seconds[int(share * (len(seconds) - 1))]


def _row(field: str, ours: Figures, theirs: Figures | str) -> Row:
    unit, bound = AIMS[field]
    row: Row = {"value": getattr(ours, field), "unit": unit, "peer": PEER}
    known = isinstance(theirs, Figures)
    row |= {"peer_value": getattr(theirs, field)} if known else {"peer_error": theirs}
    if field == "rate":
        return with_aim(row, f"at least {bound:g} {unit}", at_least=bound)
    return with_aim(row, f"at most {bound:g} {unit}", at_most=bound)
