"""What a call of a model holds in the budgets that pay for it, until its use is known.

What is held is not free, so calls at the same time cannot all take the last token. A call begins
only where its input fits into every budget; of its answer it holds what is left, up to a bound.
What an answer takes beyond that is owed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import LimitReached
from hive_core.ledger.models.storage import ModelHold
from hive_core.model.work.budget import UNITS, Budget, BudgetKind, TaskFund, to_display
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    ChargedPayers,
    budget_refusal,
    budget_title,
    giver_name,
    owner_name,
    payers,
)

KINDS: Final = (BudgetKind.TOKENS, BudgetKind.MONEY)
BYTES_A_TOKEN: Final = 4
OUT_MOST: Final = 4096


@dataclass(frozen=True, slots=True)
class ModelNeed:
    """What a call is expected to use. Prices are per million tokens."""

    tokens_in: int
    tokens_out: int
    price_in: float = 0.0
    price_out: float = 0.0

    def least(self, kind: BudgetKind) -> int:
        """What its input uses, before any answer."""
        return self.tokens_in if kind is BudgetKind.TOKENS else ceil(self.tokens_in * self.price_in)

    def whole(self, kind: BudgetKind) -> int:
        if kind is BudgetKind.TOKENS:
            return self.tokens_in + self.tokens_out
        return ceil(self.tokens_in * self.price_in + self.tokens_out * self.price_out)


@dataclass(frozen=True, slots=True)
class Payer:
    """A budget that pays for a call; `fund`: it is that of a task."""

    budget: Budget
    fund: TaskFund | None = None

    @property
    def holder(self) -> str:
        return self.budget.agent if self.fund is None else self.fund.task

    def save(self, call: Call, budget: Budget) -> None:
        if self.fund is None:
            call.ledger.budgets.save(budget)
        else:
            call.ledger.budgets.funds.save(replace(self.fund, budget=budget))


@dataclass(frozen=True, slots=True)
class Work:
    """For whom a model is called: an agent, the tier of its work, and its task (or empty)."""

    uuid: str
    tier: str
    task: str = ""


def paying_for(call: Call, work: Work) -> Iterator[Payer]:
    """All budgets that pay for this work, of tokens and of money."""
    for kind in KINDS:
        budgets, fund = payers(call, work.uuid, kind, work.tier, work.task)
        yield from map(Payer, budgets)
        if fund is not None:
            yield Payer(fund.budget, fund)


def short_payer(call: Call, work: Work, need: ModelNeed, *, last: bool = False) -> Payer | None:
    """A budget that has no room for the input of a call.

    `last`: the fund of the task need not have room, because the call hands the task back.
    """
    if not need.whole(BudgetKind.TOKENS):
        return None
    for payer in paying_for(call, work):
        if payer.fund is not None and last:
            continue
        least, free = need.least(payer.budget.kind), payer.budget.free
        if free < least or (free == 0 and need.whole(payer.budget.kind)):
            return payer
    return None


def hold(call: Call, id_: str, work: Work, need: ModelNeed) -> None:
    """Hold what the call needs, as far as the budgets have it."""
    holds = []
    for payer in paying_for(call, work):
        budget, amount = payer.budget.with_hold(need.whole(payer.budget.kind))
        if amount:
            payer.save(call, budget)
            holds.append(ModelHold(payer.holder, budget.kind, budget.tier, amount))
    call.ledger.models.hold(id_, holds)


def release(call: Call, id_: str) -> list[ModelHold]:
    """Release what a call holds, in the budgets that are still there, and return it."""
    holds = call.ledger.models.take_holds(id_)
    for holder, kind, tier, amount in holds:
        payer = find_payer(call, holder, kind, tier)
        if payer is not None:
            payer.save(call, payer.budget.with_release(amount))
            call.ledger.models.look_again(holder, call.now)
    return holds


def charged_payers(
    call: Call, work: Work, kind: BudgetKind, holds: Sequence[ModelHold]
) -> ChargedPayers:
    """What pays for a call: the budgets that admitted it, which are those that it held amounts in.

    For all tiers, and for its tier, where none did or it was closed, what pays for its agent now.
    """
    budgets, fund = payers(call, work.uuid, kind, work.tier, work.task)
    present = [*map(Payer, budgets), *([Payer(fund.budget, fund)] if fund else [])]
    admitted = [find_payer(call, hold.holder, kind, hold.tier)
                for hold in holds if hold.kind is kind]  # fmt: skip
    by_tier = {payer.budget.tier: payer for payer in (*present, *admitted) if payer is not None}
    charged = by_tier.values()
    return (
        [payer.budget for payer in charged if payer.fund is None],
        next((payer.fund for payer in charged if payer.fund is not None), None),
    )


def find_payer(call: Call, holder: str, kind: BudgetKind, tier: str) -> Payer | None:
    budgets = call.ledger.budgets
    if (fund := budgets.funds.get(holder, kind)) is not None:
        return Payer(fund.budget, fund)
    budget = budgets.get(holder, kind, tier)
    return None if budget is None else Payer(budget)


def model_refusal(call: Call, name: str, payer: Payer, need: ModelNeed) -> LimitReached:
    """The error of a call that a budget has no room for: whose budget, and who can give more."""
    intent, budget = f"no model call for {name}", payer.budget
    if payer.fund is not None:
        return LimitReached(
            f"{intent}: the {budget_title(budget)} of task {payer.fund.task} has {budget.free}"
            f" {UNITS[budget.kind]} left{_held_text(budget)}; report now what you have, or ask the"
            " assigner for more (fund_task)",
            rule=BUDGET, budget=f"task {payer.fund.task}", of=budget.kind.value,
        )  # fmt: skip
    if budget.empty:
        return budget_refusal(call, intent, budget)
    owner, left = owner_name(call.hive, budget), to_display(budget.kind, budget.free)
    return LimitReached(
        f"{intent}: the {budget_title(budget)} of {owner} has {left} {UNITS[budget.kind]} left"
        f"{_held_text(budget)}, and the input of this call needs about {need.least(budget.kind)};"
        f" {giver_name(call, budget)} can give more",
        rule=BUDGET, budget=owner, of=budget.kind.value,
    )  # fmt: skip


def _held_text(budget: Budget) -> str:
    return f" ({budget.held} are held by calls in progress)" if budget.held else ""
