"""Adding up what many have used, some agents at a time: the call is asked again for the next ones.

Each part is work of the caller's in the queue, and between two of them others are served. Who has
used something is in the ledger day by day, so that one part may be thousands of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hive_core.broker.call import Call, Ready, SlowReadSources
from hive_core.ledger.budgets.usage import Sums, UsageAmount, column_value, day_of
from hive_core.model.work.budget import BudgetKind, UsageSource
from hive_core.operations.budgets.cpu_time import unsaved_cpu
from hive_core.operations.budgets.payer_budget import millis
from hive_core.operations.budgets.usage_rollup import UsageTree

AGENTS: Final = 50
# How often it is begun again when lines of agents that are gone were added up meanwhile.
_AGAIN: Final = 3

Key = tuple[str, str, str]
Keys = Callable[[UsageTree, str | int], Iterable[str]]


@dataclass
class UsageSummation:
    """How far it is. `cpu` is what the kernel said, before it began."""

    cpu: object
    left: list[str]
    moved: int
    found: Counter[Key] = field(default_factory=Counter)
    restarts: int = 0

    def restart(self, agents: Iterable[str], moved: int) -> None:
        self.left, self.moved, self.restarts = list(agents), moved, self.restarts + 1
        self.found.clear()


def sum_usage(
    call: Call, top: str, since: float, column: str, keys: Keys
) -> UsageSummation | Counter[Key]:
    """Sums by key, kind and source, of an agent with all below it or of everybody; or not yet."""
    moved = call.ledger.budgets.rollups.moved
    adding = call.read_result
    if not isinstance(adding, UsageSummation):
        adding = UsageSummation(call.read_result, _agents_with_usage(call, top), moved)
    elif adding.moved != moved and adding.restarts < _AGAIN:
        adding.restart(_agents_with_usage(call, top), moved)
    part, adding.left = adding.left[:AGENTS], adding.left[AGENTS:]
    cpu = adding.cpu if isinstance(adding.cpu, dict) else {}
    of_part = {uuid: cpu[uuid] for uuid in part if uuid in cpu}
    _add_part(call._replace(read_result=of_part), adding.found, part, (day_of(since), column, keys))
    return adding if adding.left else adding.found


def requeue_with(adding: UsageSummation) -> Callable[[SlowReadSources], Awaitable[Ready]]:
    """A slow read that is over at once: the call goes to the end of the queue, with this."""

    async def read(_reads: SlowReadSources) -> Ready:
        return Ready(value=adding)

    return read


def _agents_with_usage(call: Call, top: str) -> list[str]:
    """Who may have used something; those who live come first, as they are shown."""
    if top:
        return sorted(UsageTree(call).below(top))
    return sorted(call.ledger.budgets.usage.agents() | {each.agent for each in unsaved_usage(call)})


def _add_part(
    call: Call, found: Counter[Key], agents: list[str], how: tuple[int, str, Keys]
) -> None:
    day, column, keys = how
    places, among = UsageTree(call), frozenset(agents)
    sums: Sums = call.ledger.budgets.usage.sums(column, day, agents)
    for each in unsaved_usage(call):
        if each.agent in among:
            sums[column_value(column, each), each.kind, each.source] += each.amount
    known: dict[str | int, tuple[str, ...]] = {}
    for (what, kind, source), amount in sums.items():
        if what not in known:
            known[what] = tuple(keys(places, what))
        for key in known[what]:
            found[key, kind, source] += amount


def unsaved_usage(call: Call) -> Iterator[UsageAmount]:
    """Time and processor time of machines that run, which is not written down yet."""
    yield from unsaved_cpu(call)
    now, measured = millis(call.now), UsageSource.MEASURED.value
    for uuid, since in call.ledger.budgets.running_agents().items():
        ran = max(0, now - since)
        yield UsageAmount(day_of(call.now), uuid, BudgetKind.TIME.value, measured, "", "", ran)
