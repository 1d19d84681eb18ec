"""Adding up the usage of many agents in parts: the call is queued again for each part.

Each part is work of the caller in the queue, and other calls are served between two parts. The
ledger has usage day by day, so one part may be thousands of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from hive_core.broker.call import Call, Ready, SlowReadSources
from hive_core.ledger.budgets.usage import Sums, UsageAmount, column_value, day_of
from hive_core.model.work.budget import BudgetKind, UsageSource
from hive_core.operations.budgets.cpu_time import unsaved_cpu
from hive_core.operations.budgets.payer_budget import millis
from hive_core.operations.budgets.usage_rollup import UsageTree

AGENTS: Final = 50
# How often to start again after a roll-up of destroyed agents in between.
_RESTARTS_MOST: Final = 3

Key = tuple[str, str, str]
Keys = Callable[[UsageTree, str | int], Iterable[str]]


@dataclass
class UsageSummation:
    """A sum in progress.

    `cpu`: the processor time that the kernel had counted before the sum began.
    """

    cpu: object
    left: list[str]
    moved: int
    sums: Counter[Key] = field(default_factory=Counter)
    restarts: int = 0

    def restart(self, agents: Iterable[str], moved: int) -> None:
        self.left, self.moved, self.restarts = list(agents), moved, self.restarts + 1
        self.sums.clear()


def sum_usage(
    call: Call, top: str, since: float, column: str, keys: Keys
) -> UsageSummation | Counter[Key]:
    """Sums by key, kind and source, of an agent with its descendants, or of all agents.

    A summation that is not finished is returned as it is, for `requeue_with`.
    """
    moved = call.ledger.budgets.rollups.moved
    summation = call.read_result
    if not isinstance(summation, UsageSummation):
        summation = UsageSummation(call.read_result, _agents_with_usage(call, top), moved)
    elif summation.moved != moved and summation.restarts < _RESTARTS_MOST:
        summation.restart(_agents_with_usage(call, top), moved)
    part, summation.left = summation.left[:AGENTS], summation.left[AGENTS:]
    cpu = summation.cpu if isinstance(summation.cpu, dict) else {}
    call = replace(call, read_result={uuid: cpu[uuid] for uuid in part if uuid in cpu})
    _add_part(call, summation.sums, part, (day_of(since), column, keys))
    return summation if summation.left else summation.sums


def requeue_with(summation: UsageSummation) -> Callable[[SlowReadSources], Awaitable[Ready]]:
    """A slow read that ends at once: the call goes to the end of the queue, with this sum."""

    async def read(_sources: SlowReadSources) -> Ready:
        return Ready(value=summation)

    return read


def _agents_with_usage(call: Call, top: str) -> list[str]:
    """The agents that may have used something."""
    if top:
        return sorted(UsageTree(call).below(top))
    unsaved = {amount.agent for amount in unsaved_usage(call)}
    return sorted(call.ledger.budgets.usage.agents() | unsaved)


def _add_part(
    call: Call, totals: Counter[Key], agents: list[str], grouping: tuple[int, str, Keys]
) -> None:
    day, column, keys = grouping
    tree, among = UsageTree(call), frozenset(agents)
    sums: Sums = call.ledger.budgets.usage.sums(column, day, agents)
    for usage in unsaved_usage(call):
        if usage.agent in among:
            sums[column_value(column, usage), usage.kind, usage.source] += usage.amount
    keys_of: dict[str | int, tuple[str, ...]] = {}
    for (value, kind, source), amount in sums.items():
        if value not in keys_of:
            keys_of[value] = tuple(keys(tree, value))
        for key in keys_of[value]:
            totals[key, kind, source] += amount


def unsaved_usage(call: Call) -> Iterator[UsageAmount]:
    """Run time and processor time of running machines that is not recorded yet."""
    yield from unsaved_cpu(call)
    now, measured = millis(call.now), UsageSource.MEASURED.value
    for uuid, since in call.ledger.budgets.running_agents().items():
        ran = max(0, now - since)
        yield UsageAmount(day_of(call.now), uuid, BudgetKind.TIME.value, measured, "", "", ran)
