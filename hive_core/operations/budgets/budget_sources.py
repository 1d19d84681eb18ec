"""Where the figures of a budget come from: the daemon's measurements, or reports of agents."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from hive_core.broker.call import Call
from hive_core.model.work.budget import (
    REPORTED_KINDS,
    Budget,
    BudgetKind,
    UsageSource,
    least_certain,
)
from hive_core.operations.budgets.usage_rollup import UsageTree

_MONEY: Final = "money"


@dataclass
class BudgetSources:
    """The sources of budgets in one answer. `just_reported`: the caller has reported now."""

    call: Call
    just_reported: bool = False

    def of(self, budget: Budget, task: str) -> str:
        """The least certain source of what was charged to the budget, or to the fund of a task."""
        if budget.kind not in REPORTED_KINDS:
            return UsageSource.MEASURED
        if self.just_reported or budget.kind is BudgetKind.CONTEXT:
            return UsageSource.REPORTED
        if not task:
            return least_certain(self._by_budget[budget.agent, budget.kind])
        is_money = budget.kind is BudgetKind.MONEY
        parts = self.call.ledger.budgets.usage.parts_of_task(task)
        return least_certain(
            {source for kind, source, amount in parts
             if amount and (kind.startswith("tokens") or is_money) and (kind == _MONEY) == is_money}
        )  # fmt: skip

    @cached_property
    def _by_budget(self) -> defaultdict[tuple[str, BudgetKind], set[str]]:
        """Sources other than measurements, by the agent that has the budget, and its kind."""
        sources = defaultdict[tuple[str, BudgetKind], set[str]](set)
        tree, budgets = UsageTree(self.call), self.call.ledger.budgets
        for agent, used, source in budgets.usage.unmeasured_use(self.call.now):
            kind = BudgetKind.MONEY if used == _MONEY else BudgetKind.TOKENS
            pays = True  # up to the nearest budget; a bound an hour covers all agents below
            for holder in tree.lineage(agent):
                if pays:
                    sources[holder, kind].add(source)
                    pays = budgets.get(holder, kind) is None
                if kind is BudgetKind.TOKENS:
                    sources[holder, BudgetKind.TOKENS_PER_HOUR].add(source)
        return sources
