"""What agents use: whether they may, who pays, and what is written down of it.

What the daemon can see beforehand (a message, a task, a new agent) is refused when the purse has
nothing left. What is reported afterwards is charged as far as there is something; the rest is
owed by that purse alone, so that no report of a child empties the purses of others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.operation import Params
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.ledger.budgets.usage import UsageAmount, day_of
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.budget import AMOUNT_MOST, Budget, BudgetKind, UsageSource
from hive_core.model.work.task_caps import TaskCapLimits
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    agent_tier,
    budget_refusal,
    exhausted_budget,
    funded_kinds,
    paying_budgets,
    task_fund,
)
from hive_core.operations.budgets.reported_bounds import report_tokens
from hive_core.operations.budgets.shortages import save_payment
from hive_core.operations.tasks.caps import capped, note_caps
from hive_core.operations.tasks.funds import spend

_NOBODY: Final = frozenset({OPERATOR, DAEMON})
TOOLS: Final = "tool_calls"
# What one agent may report of one kind on one day: sums of years and of many agents stay exact.
DAY_MOST: Final = 1 << 40
_FIELDS: Final = {"money": "cost"}


class TaskCaps(TaskCapLimits, Params):
    """Bounds of one task; absent: none. At one of them only the report is left."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was used at once. `cost` is in millionths of the host's currency.

    `tokens`: those of which nobody says whether they went in or out. `last`: the task ends by it.
    """

    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    iterations: int = 0
    model: str = ""
    tier: str = ""
    task: str = ""
    last: bool = False

    @property
    def amounts(self) -> dict[str, int]:
        """By the words of the accounts, without what is none."""
        found = {
            "tokens": self.tokens, "tokens_in": self.tokens_in, "tokens_out": self.tokens_out,
            "money": self.cost, "iterations": self.iterations,
        }  # fmt: skip
        return {kind: amount for kind, amount in found.items() if amount}


def check_funds(call: Call, uuid: str, own: frozenset[BudgetKind] = frozenset()) -> None:
    """LimitReached when the agent, or whoever pays for it, has nothing left to work with.

    `own`: of what the work has something of its own.
    """
    if uuid not in _NOBODY and (purse := exhausted_budget(call, uuid, own)) is not None:
        raise budget_refusal(call, f"no new work for {call.hive.name(uuid) or uuid}", purse)


def charge_one(call: Call, uuid: str, kind: BudgetKind) -> frozenset[str]:
    """One message, task or agent more, paid beforehand; LimitReached when there is none left."""
    if uuid in _NOBODY:
        return frozenset()
    topics = frozenset[str]()
    for purse in paying_budgets(call, uuid, kind):
        if purse.empty:
            raise budget_refusal(
                call, f"{call.hive.name(uuid) or uuid} may do no more of this", purse
            )
        topics |= save_payment(call, purse.with_charge(1))
    usage = call.ledger.budgets.usage
    if kind is BudgetKind.MESSAGES:
        usage.count(uuid, kind, call.now)
    else:
        usage.add(UsageAmount(day_of(call.now), uuid, kind, UsageSource.MEASURED.value, "", "", 1))
    return topics


def record_usage(
    call: Call, uuid: str, spent: UsageReport, source: UsageSource = UsageSource.REPORTED
) -> frozenset[str]:
    """Write down what an agent has used, and charge it; the topics to touch."""
    tier = spent.tier or agent_tier(call.hive, uuid)
    usage, day = call.ledger.budgets.usage, day_of(call.now)
    for kind, amount in spent.amounts.items():
        if usage.used_on_day(day, uuid, kind) + amount > DAY_MOST:
            raise _amount_error(kind, amount, f"more than {DAY_MOST} in a day")
        figure = UsageAmount(day, uuid, kind, source.value, tier, spent.model, amount)
        usage.add(figure)
        if spent.task:
            usage.add_task(spent.task, figure, call.now)
    tokens = spent.tokens + spent.tokens_in + spent.tokens_out
    topics = report_tokens(call, uuid, tokens)
    for what, amount in ((BudgetKind.TOKENS, tokens), (BudgetKind.MONEY, spent.cost)):
        if amount:
            topics |= _charge(call, uuid, replace(spent, tier=tier), (what, amount))
    return topics | (note_caps(call, spent.task) if spent.task else frozenset())


def _charge(
    call: Call, uuid: str, spent: UsageReport, bill: tuple[BudgetKind, int]
) -> frozenset[str]:
    """Who pays: the fund of the task instead of a purse for all tiers; one of a tier besides."""
    kind, amount = bill
    fund = task_fund(call, spent.task, uuid, kind)
    purses = [
        each for each in paying_budgets(call, uuid, kind, spent.tier) if each.tier or fund is None
    ]
    for each in (*purses, *([fund.budget] if fund else [])):
        _check_total(each, amount)
    topics = frozenset[str]()
    for purse in purses:
        topics |= save_payment(call, purse.with_charge(amount))
    return topics | (spend(call, fund, amount, last=spent.last) if fund else frozenset())


def _check_total(purse: Budget, amount: int) -> None:
    if purse.total + amount > AMOUNT_MOST:
        raise _amount_error(purse.kind, amount, f"more than {AMOUNT_MOST} in the budget for it")


def _amount_error(kind: str, amount: int, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot report {amount} {kind}: it would make {why}", field=_FIELDS.get(kind, kind)
    )


def record_final_report(call: Call, uuid: str, task: str, tokens: int, cost: int) -> frozenset[str]:
    """What stands in the report that ends a task; its bounds are of no use any more."""
    call.ledger.budgets.usage.remove_caps(task)
    if not tokens and not cost:
        return frozenset()
    return record_usage(call, uuid, UsageReport(tokens=tokens, cost=cost, task=task, last=True))


def check_tool_budget(call: Call, uuid: str, task: str) -> None:
    """LimitReached when there is nothing left to pay for one tool more of this task."""
    check_funds(call, uuid, funded_kinds(call, task, uuid))


def count_tool_call(call: Call, uuid: str, task: str = "") -> frozenset[str]:
    """One tool more; LimitReached when its task has used all that it may."""
    usage = call.ledger.budgets.usage
    if task and (bound := capped(call, task)):
        raise LimitReached(
            f"task {task} may use no more tools: {bound}; report now", rule=BUDGET, of=TOOLS
        )
    figure = UsageAmount(day_of(call.now), uuid, TOOLS, UsageSource.MEASURED.value, "", "", 1)
    usage.add(figure)
    if not task:
        return frozenset()
    usage.add_task(task, figure, call.now)
    return note_caps(call, task)


def set_task_caps(call: Call, task: str, agent: str, caps: TaskCapLimits | None) -> None:
    """What a new task may use at most."""
    bounds = {} if caps is None else caps.model_dump(exclude_none=True)
    if bounds:
        call.ledger.budgets.usage.set_caps(task, agent, bounds)
