"""The use of agents: whether they may use more, which budget pays, and what is recorded.

The daemon refuses what it sees in advance (a message, a task, a new agent) when the budget has
nothing left. It charges what agents report afterwards as far as the budget has something left. That
budget alone owes the rest, so that the report of a child cannot empty the budgets of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hive_core.broker.call import Call
from hive_core.broker.operation import Params
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.ledger.budgets.usage import UsageAmount, day_of
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.budget import (
    AMOUNT_MOST,
    TIERLESS,
    Budget,
    BudgetKind,
    UsageSource,
)
from hive_core.model.work.task_caps import TaskCapLimits
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    ChargedPayers,
    agent_tier,
    budget_refusal,
    exhausted_budget,
    funded_kinds,
    payers,
    paying_budgets,
)
from hive_core.operations.budgets.reported_bounds import report_tokens
from hive_core.operations.budgets.shortages import save_payment
from hive_core.operations.tasks.caps import check_caps, reached_cap
from hive_core.operations.tasks.funds import charge_fund

_UNBILLED: Final = frozenset({OPERATOR, DAEMON})
TOOLS: Final = "tool_calls"
# The most that one agent may report of one kind on one day: sums of years and of many agents stay
# exact.
DAY_MOST: Final = 1 << 40
_FIELDS: Final = {"money": "cost"}


class TaskCaps(TaskCapLimits, Params):
    """Bounds of one task; absent: none. At a bound the assignee may only report."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """One report of use. `cost` is in millionths of the host's currency.

    `tokens`: tokens for which no direction is known. `last`: the report that ends the task.
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
        """The amounts that are not 0, by the kinds of the usage table."""
        amounts = {
            "tokens": self.tokens, "tokens_in": self.tokens_in, "tokens_out": self.tokens_out,
            "money": self.cost, "iterations": self.iterations,
        }  # fmt: skip
        return {kind: amount for kind, amount in amounts.items() if amount}


def check_funds(call: Call, uuid: str, funded: frozenset[BudgetKind] = frozenset()) -> None:
    """Raise LimitReached when the agent, or its payer, has nothing left to work with.

    `funded`: kinds for which the work has a fund of its own.
    """
    if uuid not in _UNBILLED and (budget := exhausted_budget(call, uuid, funded)) is not None:
        raise budget_refusal(call, f"no new work for {call.hive.name(uuid) or uuid}", budget)


def charge_one(call: Call, uuid: str, kind: BudgetKind) -> None:
    """Charge one task or agent in advance; LimitReached when none is left."""
    if uuid in _UNBILLED:
        return
    pay_one(call, uuid, kind)
    day = day_of(call.now)
    call.ledger.budgets.usage.add(
        UsageAmount(day, uuid, kind, UsageSource.MEASURED.value, "", "", 1)
    )


def charge_message(call: Call, recipient: str, body: str) -> None:
    """The same for a message of the caller. Most agents have no budget of messages."""
    if call.uuid in _UNBILLED:
        return
    budgets = call.ledger.budgets
    if BudgetKind.MESSAGES in budgets.kinds:
        # Before anything is changed: a call that fails after a change costs all others.
        call.ledger.messages.check_room(recipient, body)
        pay_one(call, call.uuid, BudgetKind.MESSAGES)
    budgets.usage.count(call.uuid, BudgetKind.MESSAGES, call.now)


def pay_one(call: Call, uuid: str, kind: BudgetKind) -> None:
    """Let the budgets of the agent pay for one; LimitReached when one of them is empty."""
    for budget in paying_budgets(call, uuid, kind):
        if budget.empty:
            intent = f"{call.hive.name(uuid) or uuid} is refused more"
            raise budget_refusal(call, intent, budget)
        save_payment(call, budget.with_charge(1))


@dataclass(frozen=True, slots=True)
class AdmittedUse:
    """Use that budgets admitted before: what of each kind pays.

    `payer`: the agent whose hourly bounds count it; empty: no such agent is left.
    """

    payer: str
    charged: Mapping[BudgetKind, ChargedPayers]


class Payment(NamedTuple):
    """What one budget paid. `holder`: the agent of it, or the task whose fund it is."""

    holder: str
    kind: BudgetKind
    tier: str
    amount: int


class Bill(NamedTuple):
    """What is charged. `last`: the task ends with it."""

    kind: BudgetKind
    amount: int
    last: bool


def record_usage(
    call: Call,
    uuid: str,
    report: UsageReport,
    source: UsageSource = UsageSource.REPORTED,
    admitted: AdmittedUse | None = None,
) -> list[Payment]:
    """Record what an agent has used, and charge it; return what was paid."""
    tier, payer = report.tier or agent_tier(call.hive, uuid), admitted.payer if admitted else uuid
    usage, day = call.ledger.budgets.usage, day_of(call.now)
    for kind, amount in report.amounts.items():
        if usage.used_on_day(day, uuid, kind) + amount > DAY_MOST:
            raise _amount_error(kind, amount, f"more than {DAY_MOST} in a day")
        row = UsageAmount(day, uuid, kind, source.value, tier, report.model, amount)
        usage.add(row)
        if report.task:
            usage.add_task(report.task, row, call.now)
    tokens = report.tokens + report.tokens_in + report.tokens_out
    if payer:
        report_tokens(call, payer, tokens)
    call.notify(f"usage:{uuid}")
    paid: list[Payment] = []
    for kind, amount in ((BudgetKind.TOKENS, tokens), (BudgetKind.MONEY, report.cost)):
        if amount:
            charged = (
                payers(call, uuid, kind, tier, report.task)
                if admitted is None else admitted.charged[kind]
            )  # fmt: skip
            paid += _charge(call, charged, Bill(kind, amount, last=report.last))
    if report.task:
        check_caps(call, report.task)
    return paid


def _charge(call: Call, charged: ChargedPayers, bill: Bill) -> list[Payment]:
    """Charge these budgets, and this fund of a task, the whole amount each."""
    (budgets, fund), (kind, amount, last) = charged, bill
    for budget in (*budgets, *([fund.budget] if fund else [])):
        _check_total(budget, amount)
    for budget in budgets:
        save_payment(call, budget.with_charge(amount))
    paid = [Payment(budget.agent, kind, budget.tier, amount) for budget in budgets]
    if fund:
        charge_fund(call, fund, amount, last=last)
        paid.append(Payment(fund.task, kind, TIERLESS, amount))
    return paid


def _check_total(budget: Budget, amount: int) -> None:
    if budget.total + amount > AMOUNT_MOST:
        raise _amount_error(budget.kind, amount, f"more than {AMOUNT_MOST} in the budget for it")


def _amount_error(kind: str, amount: int, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot report {amount} {kind}: it would make {why}", field=_FIELDS.get(kind, kind)
    )


def record_final_report(call: Call, uuid: str, task: str, tokens: int, cost: int) -> None:
    """Record the usage in the report that ends a task, and remove the bounds of the task."""
    call.ledger.budgets.usage.remove_caps(task)
    if tokens or cost:
        record_usage(call, uuid, UsageReport(tokens=tokens, cost=cost, task=task, last=True))


def check_tool_budget(call: Call, uuid: str, task: str) -> None:
    """Raise LimitReached when nothing is left to pay for one more tool call of this task."""
    check_funds(call, uuid, funded_kinds(call, task, uuid))


def count_tool_call(call: Call, uuid: str, task: str = "") -> None:
    """Count one tool call; LimitReached when its task has used its cap."""
    usage = call.ledger.budgets.usage
    if task and (bound := reached_cap(call, task)):
        raise LimitReached(
            f"task {task} may use no more tools: {bound}; report now", rule=BUDGET, of=TOOLS
        )
    row = UsageAmount(day_of(call.now), uuid, TOOLS, UsageSource.MEASURED.value, "", "", 1)
    usage.add(row)
    if task:
        usage.add_task(task, row, call.now)
        check_caps(call, task)


def set_task_caps(call: Call, task: str, agent: str, caps: TaskCapLimits | None) -> None:
    """Save the caps of a new task."""
    bounds = {} if caps is None else caps.model_dump(exclude_none=True)
    if bounds:
        call.ledger.budgets.usage.set_caps(task, agent, bounds)
