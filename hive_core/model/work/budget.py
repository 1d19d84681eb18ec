"""Budgets: their kinds, and their arithmetic. All amounts are integers.

A budget is what one agent was given of one kind. An agent without a budget of its own draws on that
of the nearest ancestor that has one. Giving moves an amount from one budget to another, so the sum
stays the same: the free and the spent amounts of a tree are what the operator put in.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

TIERLESS: Final = ""
MILLI: Final = 1000
AMOUNT_MOST: Final = 1 << 53  # what every JSON reader keeps exact


class BudgetKind(StrEnum):
    """What a budget limits."""

    TOKENS = "tokens"
    MONEY = "money"
    TIME = "time"
    MESSAGES = "messages"
    TASKS = "tasks"
    CHILDREN = "children"
    CALLS = "calls"
    TOKENS_PER_HOUR = "tokens_per_hour"
    CONTEXT = "context"


# Used by machines, in milliseconds of one processor; it has no budgets.
CPU: Final = "cpu"


class UsageSource(StrEnum):
    """Where an amount of usage comes from."""

    MEASURED = "measured"
    REPORTED = "reported"
    ESTIMATED = "estimated"


# The first that a figure has a part of is its source.
_CERTAINTY: Final = (UsageSource.REPORTED, UsageSource.ESTIMATED)

# What an agent works with: when one is used up, the agent gets no new task and no tool.
FUEL: Final = (BudgetKind.TOKENS, BudgetKind.MONEY, BudgetKind.TIME)
# Bounds: they are not used up, and each is at most the next one up the tree.
BOUNDS: Final = frozenset({BudgetKind.CALLS, BudgetKind.TOKENS_PER_HOUR, BudgetKind.CONTEXT})
# What agents may report of themselves. The daemon measures it in calls through hive-model alone.
REPORTED_KINDS: Final = frozenset(
    {BudgetKind.TOKENS, BudgetKind.MONEY, BudgetKind.TOKENS_PER_HOUR, BudgetKind.CONTEXT}
)
# Only these can be given for one tier.
TIERED: Final = frozenset({BudgetKind.TOKENS, BudgetKind.MONEY})
# Units for people. Time is stored in milliseconds, money in millionths.
UNITS: Final = {
    BudgetKind.TOKENS: "tokens", BudgetKind.MONEY: "millionths", BudgetKind.TIME: "seconds",
    BudgetKind.MESSAGES: "messages sent", BudgetKind.TASKS: "tasks given",
    BudgetKind.CHILDREN: "agents created",
    BudgetKind.CALLS: "calls a minute", BudgetKind.TOKENS_PER_HOUR: "tokens an hour",
    BudgetKind.CONTEXT: "tokens of context",
}  # fmt: skip


def least_certain(sources: Collection[str]) -> UsageSource:
    """The source of a figure whose parts come from these."""
    return next((source for source in _CERTAINTY if source in sources), UsageSource.MEASURED)


def to_stored_amount(kind: BudgetKind, amount: int) -> int:
    """The amount as the ledger stores it."""
    return amount * MILLI if kind is BudgetKind.TIME else amount


def to_display(kind: str, amount: int) -> int:
    """The amount as people and agents read it; of time the whole seconds."""
    return amount // MILLI if kind == BudgetKind.TIME else amount


@dataclass(frozen=True, slots=True)
class Budget:
    """`free`: neither spent, held nor given away. `over`: used beyond it, and not paid yet.

    `held`: set apart for calls of models that have begun.

    For time, `runners` machines draw on it since `as_of` (milliseconds since 1970).
    """

    agent: str
    kind: BudgetKind
    tier: str = TIERLESS
    free: int = 0
    spent: int = 0
    over: int = 0
    warned: bool = False
    runners: int = 0
    as_of: int = 0
    held: int = 0

    @property
    def total(self) -> int:
        """The free, the held, the spent and the owed amount together."""
        return self.free + self.held + self.spent + self.over

    @property
    def empty(self) -> bool:
        """Whether nothing is left. What is held is left until the call that holds it ends."""
        return self.free == 0 and self.held == 0

    def is_near_end(self, share: float) -> bool:
        """Whether at least this share of its own amount is spent, so that its agent is warned."""
        return self.spent > 0 and self.spent >= share * (self.spent + self.held + self.free)

    def with_added(self, amount: int) -> Budget:
        """The budget with this amount added: it pays what is owed first."""
        owed = min(self.over, amount)
        return replace(
            self, free=self.free + amount - owed, spent=self.spent + owed, over=self.over - owed
        )

    def with_removed(self, amount: int) -> tuple[Budget, int]:
        """The budget with at most this amount removed, and how much it was: only free amounts."""
        taken = min(self.free, amount)
        return replace(self, free=self.free - taken), taken

    def with_charge(self, amount: int) -> Budget:
        """The budget after this usage. What it cannot pay is owed; no other budget pays it."""
        paid = min(self.free, amount)
        return replace(
            self, free=self.free - paid, spent=self.spent + paid, over=self.over + amount - paid
        )

    def with_hold(self, amount: int) -> tuple[Budget, int]:
        """The budget with at most this amount held, and how much it is."""
        taken = min(self.free, amount)
        return replace(self, free=self.free - taken, held=self.held + taken), taken

    def with_release(self, amount: int) -> Budget:
        """The budget with an amount that was held free again: it pays what is owed first."""
        return replace(self, held=self.held - amount).with_added(amount)

    def with_refund(self, amount: int) -> Budget:
        """The budget as it was before this usage was charged."""
        owed = min(self.over, amount)
        back = min(self.spent, amount - owed)
        return replace(self, free=self.free + back, spent=self.spent - back, over=self.over - owed)

    def with_run_time(self, now: int) -> Budget:
        """A time budget, charged for what the machines that draw on it have used until now."""
        used = max(0, now - self.as_of) * self.runners
        return replace(self.with_charge(used) if used else self, as_of=max(now, self.as_of))

    @property
    def dry_at(self) -> int | None:
        """When a time budget will be used up, in milliseconds since 1970; None: never."""
        if not self.runners or not self.free:
            return None
        return self.as_of + -(-self.free // self.runners)


@dataclass(frozen=True, slots=True)
class TaskFund:
    """The budget of one task; `budget.agent` is the assignee.

    It came out of `source`: the budget of an agent, the fund of another task, or (empty) no budget.
    """

    task: str
    source: str
    budget: Budget
