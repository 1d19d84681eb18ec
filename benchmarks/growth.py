"""How cost grows with the number of agents: a plan of everything, of one agent, and a change.

Pure code, in processor time. A plan of everything is made at start and each minute; a plan of one
agent when something happened to it. A change is what stands before the commit: the next snapshot
with its numbering (a commit's own cost is in `commits`, that of a decision in `decisions`).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from fixtures.plans import World, hive, spec, uuid

from benchmarks.report.rows import ROUNDS, Row
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.plan.diff import plan

AGENTS = (10, 100, 1_000, 10_000)
DEPTHS = (3, 10, 30, 100)
AT = 1_000  # agents in the trees of growing depth


def run() -> list[Row]:
    return [*(row for agents in AGENTS for row in _wide(agents)), *map(_deep, DEPTHS)]


def _wide(agents: int) -> Iterator[Row]:
    parents = {f"a{n}": f"a{(n - 1) // 10}" if n else None for n in range(agents)}
    world = World(hive(parents), Settings(limits=HostLimits(starts_at_once=256)))
    world.converge()
    desired, observed, moment = world.desired, world.host.snapshot(), world.moment
    yield _point("plan", agents, "plan of everything", lambda: plan(desired, observed, moment))
    one = [uuid(agents - 1)]
    yield _point("plan", agents, "plan of one agent", lambda: plan(desired, observed, moment, one))
    for name, change in _changes(world.hive, f"a{agents - 1}", agents):
        yield _point("change", agents, name, change)


def _changes(before: Hive, last: str, agents: int) -> Iterator[tuple[str, Callable[[], object]]]:
    checked = before.validate()
    other = checked.spec(last).model_copy(update={"title": "another"})
    yield "another title", lambda: checked.with_spec(last, other)
    yield "a move to the root", lambda: checked.with_parent(last, "a0")
    yield "a new agent", lambda: checked.with_agent("new", last, spec(agents + 1))


def _deep(depth: int) -> Row:
    """The lowest agent goes below the root, in chains of this depth."""
    parents: dict[str, str | None] = {"a0": None}
    for number in range(1, AT):
        parents[f"a{number}"] = "a0" if (number - 1) % (depth - 1) == 0 else f"a{number - 1}"
    before, low = replace(hive(parents), depth_limit=depth).validate(), f"a{depth - 1}"
    point = _point(
        "change-depth", depth, "a move to the root", lambda: before.with_parent(low, "a0")
    )
    name = f"a move to the root, {AT:,} agents, {depth} levels"
    return {**point, "name": name, "x_unit": "levels"}


def _point(plot: str, size: int, line: str, work: Callable[[], object]) -> Row:
    return {
        "name": f"{line}, {size:,} agents", "value": _best(work) * 1e3, "unit": "ms",
        "plot": plot, "line": line, "x": size, "x_unit": "agents",
    }  # fmt: skip


def _best(work: Callable[[], object]) -> float:
    """Seconds of the processor: the best of some rounds, each long enough to be measured."""
    start = time.process_time()
    work()
    times = max(1, int(0.02 / max(time.process_time() - start, 1e-6)))
    return min(_cpu_seconds(work, times) for _ in range(ROUNDS)) / times


def _cpu_seconds(work: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start
