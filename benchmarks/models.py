"""What hive-model adds to a call of a model, how many it passes on, and what it needs.

Each call is reserved and settled at the broker of hived, in another process, with its ledger in
memory; the same is measured without these accounts. Beside it stand a bare hop over httpx2 and the
proxy of LiteLLM. The embedded model has rows of its own.
"""

import asyncio
import statistics
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.peers.embedded_model import AnswerTimes, ask, embedded_model
from benchmarks.peers.model_calls import (
    ModelWay,
    bare_hop,
    hive_model,
    hive_model_without_accounts,
    latencies,
    litellm,
    provider,
    rate,
)
from benchmarks.report.rows import Row, error_line, with_aim

NAMES = {
    "hive-model adds to a call, half of them": "median",
    "hive-model adds to a call, 99 of 100": "late",
    "calls through hive-model, 16 at once": "rate",
    "memory of hive-model after them": "memory",
    "start of hive-model": "start",
}
WITHOUT = {
    "hive-model without accounts adds to a call, half of them": "median",
    "hive-model without accounts adds to a call, 99 of 100": "late",
    "calls through hive-model without accounts, 16 at once": "rate",
}
UNITS = {"median": "ms", "late": "ms", "rate": "calls/s", "memory": "MiB", "start": "s"}
AIMS = {"median": 3.0, "late": 10.0, "rate": 600.0, "memory": 60.0, "start": 0.5}
AIMS_WITHOUT = {"median": 1.0, "late": 4.0}
# Each begins with another word, so that no prompt is read before it is asked.
_TOPICS = ("Lighthouses", "Bridges", "Rivers", "Clocks", "Gardens")


class Between(Protocol):
    def __call__(self, direct: ModelWay, folder: Path, /) -> AbstractContextManager[ModelWay]: ...


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
        free = measure(hive_model_without_accounts, direct, folder)
        hop = measure(bare_hop, direct, folder)
        try:
            theirs: Figures | str = measure(litellm, direct, folder)
        except Exception as problem:  # noqa: BLE001 - whatever it was, it is the peer's
            theirs = error_line(problem)
        bare = asyncio.run(rate(direct))
    return [
        *_rows(NAMES, ours, ("bare httpx2 hop", hop), AIMS),
        *_rows(NAMES, ours, ("litellm proxy", theirs), {}),
        *_rows(WITHOUT, free, ("bare httpx2 hop", hop), AIMS_WITHOUT),
        {"name": "calls to the provider without it", "value": bare, "unit": "calls/s"},
        *_embedded_rows(),
    ]


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


def _rows(
    names: Mapping[str, str], ours: Figures, peer: tuple[str, Figures | str],
    aims: Mapping[str, float],
) -> list[Row]:  # fmt: skip
    return [_row(name, field, ours, peer, aims.get(field)) for name, field in names.items()]


def _row(
    name: str, field: str, ours: Figures, peer: tuple[str, Figures | str], bound: float | None
) -> Row:
    unit, (title, theirs) = UNITS[field], peer
    row: Row = {"name": name, "value": getattr(ours, field), "unit": unit, "peer": title}
    known = isinstance(theirs, Figures)
    row |= {"peer_value": getattr(theirs, field)} if known else {"peer_error": theirs}
    if bound is None:
        return row
    if field == "rate":
        return with_aim(row, f"at least {bound:g} {unit}", at_least=bound)
    return with_aim(row, f"at most {bound:g} {unit}", at_most=bound)


def _embedded_rows() -> list[Row]:
    """A host works without the embedded model: where it is not there, a row says so."""
    try:
        with embedded_model() as (path, start):
            ask(path, "Hello.")
            times = [ask(path, f"{topic}: tell me a story.") for topic in _TOPICS]
    except FileNotFoundError as problem:
        return [{"name": "embedded model", "error": error_line(problem)}]
    return [
        {"name": "start of the embedded model", "value": start, "unit": "s"},
        {"name": "first token of the embedded model, half of the answers",
         "value": 1000 * statistics.median(row.first for row in times), "unit": "ms"},
        {"name": "the embedded model writes, half of the answers",
         "value": statistics.median(map(_speed, times)), "unit": "tokens/s"},
    ]  # fmt: skip


def _speed(times: AnswerTimes) -> float:
    return (times.tokens - 1) / times.rest
