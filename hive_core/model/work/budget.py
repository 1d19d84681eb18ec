"""What may be spent: kinds of it, a purse, and the arithmetic of both. Integers throughout.

A purse is what one agent was given of one kind. Who has none of its own draws on the nearest
ancestor that has one. Giving moves from one purse into another, so that nothing is ever made of
nothing: what lies in the purses of a tree and what was paid out of them is what came in from the
operator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

TIERLESS: Final = ""
MILLI: Final = 1000
AMOUNT_MOST: Final = 1 << 53  # what every JSON reader keeps exact


class BudgetKind(StrEnum):
    """What a budget is of."""

    TOKENS = "tokens"
    MONEY = "money"
    TIME = "time"
    MESSAGES = "messages"
    TASKS = "tasks"
    CHILDREN = "children"
    CALLS = "calls"
    TOKENS_PER_HOUR = "tokens_per_hour"
    CONTEXT = "context"


# Used by machines, in milliseconds of one processor; nobody is given any.
CPU: Final = "cpu"


class UsageSource(StrEnum):
    """Who says that so much was used."""

    MEASURED = "measured"
    REPORTED = "reported"


# What an agent works with: out of one of them, it gets no new task and no tool.
FUEL: Final = (BudgetKind.TOKENS, BudgetKind.MONEY, BudgetKind.TIME)
# Bounds: nothing of them is used up, and none is above the next one up the tree.
BOUNDS: Final = frozenset({BudgetKind.CALLS, BudgetKind.TOKENS_PER_HOUR, BudgetKind.CONTEXT})
# What agents say of themselves, and no one else can see.
REPORTED_KINDS: Final = frozenset(
    {BudgetKind.TOKENS, BudgetKind.MONEY, BudgetKind.TOKENS_PER_HOUR, BudgetKind.CONTEXT}
)
# Only these can be given for one tier.
TIERED: Final = frozenset({BudgetKind.TOKENS, BudgetKind.MONEY})
# What one of it is for people. Time is kept in milliseconds, money in millionths.
UNITS: Final = {
    BudgetKind.TOKENS: "tokens", BudgetKind.MONEY: "millionths", BudgetKind.TIME: "seconds",
    BudgetKind.MESSAGES: "messages sent", BudgetKind.TASKS: "tasks given",
    BudgetKind.CHILDREN: "agents created",
    BudgetKind.CALLS: "calls a minute", BudgetKind.TOKENS_PER_HOUR: "tokens an hour",
    BudgetKind.CONTEXT: "tokens of context",
}  # fmt: skip


def source_of(kind: BudgetKind) -> UsageSource:
    """Who says how much of it was used."""
    return UsageSource.REPORTED if kind in REPORTED_KINDS else UsageSource.MEASURED


def to_stored(kind: BudgetKind, amount: int) -> int:
    """As it stands in the ledger."""
    return amount * MILLI if kind is BudgetKind.TIME else amount


def to_display(kind: str, amount: int) -> int:
    """As people and agents say it; of time the whole seconds."""
    return amount // MILLI if kind == BudgetKind.TIME else amount


@dataclass(frozen=True, slots=True)
class Budget:
    """`free`: neither spent nor given on. `over`: used beyond it, not paid by anybody yet.

    Of time, `runners` machines draw on it since `as_of` (milliseconds since 1970).
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

    @property
    def total(self) -> int:
        """All that was ever in it or owed by it, as far as it is still known."""
        return self.free + self.spent + self.over

    @property
    def empty(self) -> bool:
        return self.free == 0

    def is_near_end(self, share: float) -> bool:
        """Whether so much of what it had for itself is spent that its agent is warned."""
        return self.spent > 0 and self.spent >= share * (self.spent + self.free)

    def with_added(self, amount: int) -> Budget:
        """More of it: first what is owed is paid."""
        owed = min(self.over, amount)
        return replace(
            self, free=self.free + amount - owed, spent=self.spent + owed, over=self.over - owed
        )

    def with_removed(self, amount: int) -> tuple[Budget, int]:
        """Less of it, and how much it really was: never what is spent."""
        taken = min(self.free, amount)
        return replace(self, free=self.free - taken), taken

    def with_charge(self, amount: int) -> Budget:
        """So much was used. What is not there is owed; nobody else pays it."""
        paid = min(self.free, amount)
        return replace(
            self, free=self.free - paid, spent=self.spent + paid, over=self.over + amount - paid
        )

    def with_run_time(self, now: int) -> Budget:
        """Of time: what the machines that draw on it have used until now."""
        used = max(0, now - self.as_of) * self.runners
        return replace(self.with_charge(used) if used else self, as_of=max(now, self.as_of))

    @property
    def dry_at(self) -> int | None:
        """Of time: when nothing will be left of it, in milliseconds."""
        if not self.runners or not self.free:
            return None
        return self.as_of + -(-self.free // self.runners)


@dataclass(frozen=True, slots=True)
class TaskFund:
    """What one task was given of its own; `purse.agent` is who does the task.

    It came out of `source`: the purse of an agent, the fund of another task, or nobody's.
    """

    task: str
    source: str
    budget: Budget
