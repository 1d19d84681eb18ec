"""Give budgets, add to them, and take back what is not spent."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import FRESH
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import InvalidArgument, LimitReached, NotFound
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.budget import (
    AMOUNT_MOST,
    BOUNDS,
    MILLI,
    TIERED,
    UNITS,
    Budget,
    BudgetKind,
    to_display,
    to_stored_amount,
)
from hive_core.operations.budgets.payer_budget import (
    ancestors,
    budget_title,
    budget_topic,
    millis,
    self_and_ancestors,
    settle,
)
from hive_core.operations.budgets.reported_bounds import apply_bound_change
from hive_core.operations.budgets.run_time import close_budget, recount_runners
from hive_core.operations.budgets.shortages import refill, save_payment
from hive_core.operations.fields import Agent
from hive_core.operations.tasks.refunds import unsourced_amount, unsourced_funds
from hive_core.policy.rules import ANCESTOR, OPERATOR, holds

Kinds = Literal[
    "tokens", "money", "time", "messages", "tasks", "children", "calls", "tokens_per_hour",
    "context",
]  # fmt: skip
Tiers = Literal["strategic", "tactical", "operational"]


class AllocateParams(Mutation):
    agent: Agent = Field(description="The agent that receives the budget.")
    kind: Kinds = Field(
        description="What the budget is of: tokens, money (millionths of the host's currency), time"
        " (seconds that machines run), messages (sent), tasks (assigned), children (agents"
        " created), calls (a minute), tokens_per_hour (reported), context (its tokens, reported)."
    )
    amount: int = Field(
        0, ge=-AMOUNT_MOST // MILLI, le=AMOUNT_MOST // MILLI,
        description="The amount to add. Negative: the amount to take back, if it is unspent.",
    )  # fmt: skip
    tier: Tiers | None = Field(
        None, description="Only for work of this tier (tokens and money). Absent: for all tiers."
    )
    close: bool = Field(
        default=False,
        description="Take back all that is unspent and remove the budget; the budgets of the"
        " agent's ancestors pay again.",
    )


class Allocation(Result):
    agent: str = Field(description="The agent whose budget was changed.")
    kind: str = Field(description="What the budget is of.")
    tier: str = Field(description="The tier that it is for; empty: all tiers.")
    moved: int = Field(description="The amount that was added, or taken back if negative.")
    left: int = Field(description="The unspent amount that the agent has now.")
    spent: int = Field(description="What was spent from the budget so far.")
    owed: int = Field(description="The use beyond the budget that is not paid yet.")
    source: str = Field(
        description="The agent whose budget the amount came from or went to; `operator`: no budget"
        " above."
    )


@operation(
    action="assign",
    allow=OPERATOR | ANCESTOR & holds("budget"),
    target="agent",
    preposition="to",
    destructive=True,
    login=FRESH,
)
def allocate_budget(call: Call, params: AllocateParams) -> Record[Allocation]:
    """Give an agent below the caller a budget, add to it, or take back what is not spent.

    The amount comes from the budget that the caller has or draws on, so an agent cannot give more
    than it has. The operator gives to agents without a budget above them, such as the root of a
    tree. Amounts are added to the budget; what was spent stays spent. Calls a minute, tokens an
    hour and tokens of context are bounds: they are not used up, and cannot exceed the next bound up
    the tree.
    """
    kind, tier = BudgetKind(params.kind), params.tier or ""
    if tier and kind not in TIERED:
        raise InvalidArgument(f"a budget of {UNITS[kind]} is for all tiers", field="tier")
    if params.close == bool(params.amount):
        raise InvalidArgument("set either `amount` or `close`, and not both", field="amount")
    uuid = call.hive.spec(params.agent).id
    held = call.ledger.budgets.get(uuid, kind, tier)
    if held is not None:
        held = settle(call, held)
    if params.amount > 0:
        budget = held or Budget(uuid, kind, tier)
        return _give_budget(call, params, budget, to_stored_amount(kind, params.amount))
    if held is None:
        raise NotFound(f"{params.agent} has no budget of its own of {UNITS[kind]}")
    return _take_back_budget(call, params, held)


def _give_budget(
    call: Call, params: AllocateParams, held: Budget, amount: int
) -> Record[Allocation]:
    if held.total + amount > AMOUNT_MOST:
        raise InvalidArgument(f"a budget is at most {AMOUNT_MOST}", field="amount")
    if held.kind in BOUNDS:
        return _raise_bound(call, params, held, held.free + amount)
    source = _source_budget(call, held)
    if source is not None:
        _take_from_source(call, params, source, amount)
    elif call.ledger.budgets.get(held.agent, held.kind, held.tier) is None:
        amount -= _absorb_budgets_below(call, params, held, amount)
    refill(call, replace(held, as_of=held.as_of or millis(call.now)), amount)
    recount_runners(call, call.hive)
    source_name = _name(call, source.agent if source else "")
    return _allocation_record(call, params, held, BudgetTransfer(params.amount, source_name))


def _take_from_source(call: Call, params: AllocateParams, source: Budget, amount: int) -> None:
    if source.free < amount:
        raise LimitReached(
            f"cannot give {params.agent} {params.amount} {UNITS[source.kind]}: the "
            f"{budget_title(source)} of {_name(call, source.agent)} has"
            f" {to_display(source.kind, source.free)} left",
            rule="budget", budget=_name(call, source.agent), of=source.kind.value,
        )  # fmt: skip
    call.ledger.budgets.save(source.with_removed(amount)[0])


def _source_budget(call: Call, held: Budget) -> Budget | None:
    """The budget that gives: the caller's, otherwise the nearest above; None: there is none."""
    budgets, hive = call.ledger.budgets, call.hive
    source = None
    if not call.by_operator:
        source = budgets.nearest(self_and_ancestors(hive, call.uuid), held.kind, held.tier)
    source = source or budgets.nearest(ancestors(hive, held.agent), held.kind, held.tier)
    return None if source is None else settle(call, source)


def _absorb_budgets_below(call: Call, params: AllocateParams, held: Budget, amount: int) -> int:
    """The amount in budgets further down: it becomes part of the first budget above them.

    Funds from outside come from this budget from now on.
    """
    names = call.hive.topology.subtree(params.agent)
    inside = {call.hive.spec(name).id for name in names}
    same_kind = call.ledger.budgets.of_kind(held.kind, held.tier)
    below = sum(budget.free + budget.held for budget in same_kind if budget.agent in inside)
    funds = [] if held.tier else unsourced_funds(call, call.hive, names, held.kind)
    below += sum(unsourced_amount(call, fund) for fund in funds)
    if below > amount:
        raise InvalidArgument(
            f"agents below {params.agent} have {to_display(held.kind, below)} {UNITS[held.kind]} "
            "already; give at least that",
            field="amount",
        )
    for fund in funds:
        call.ledger.budgets.funds.save(replace(fund, source=held.agent))
    return below


def _raise_bound(call: Call, params: AllocateParams, held: Budget, most: int) -> Record[Allocation]:
    """Set a bound, at most that of the next one up the tree, or that of the host at the top."""
    above = call.ledger.budgets.nearest(ancestors(call.hive, held.agent), held.kind)
    source = _name(call, above.agent if above else "")
    limit = above.free if above else 0 if call.by_operator else _host_limit(call, held.kind)
    if (above or limit) and most > limit:
        raise LimitReached(
            f"cannot give {params.agent} {most} {UNITS[held.kind]}:"
            f" {source if above else 'an agent of this host'} has {limit}",
            rule="budget", budget=source, of=held.kind.value,
        )  # fmt: skip
    call.ledger.budgets.save(replace(held, free=most))
    apply_bound_change(call, held.agent, held.kind)
    return _allocation_record(call, params, held, BudgetTransfer(most - held.free, source))


def _host_limit(call: Call, kind: BudgetKind) -> int:
    """The bound in the host's settings for each agent; 0: none."""
    limit: int = getattr(call.settings.budgets, kind.value, 0)
    return limit


def _take_back_budget(call: Call, params: AllocateParams, held: Budget) -> Record[Allocation]:
    home = call.ledger.budgets.nearest(ancestors(call.hive, held.agent), held.kind, held.tier)
    source = _name(call, home.agent if home else "")
    if params.close:
        close_budget(call, held)
        recount_runners(call, call.hive)
        apply_bound_change(call, held.agent, held.kind)
        transfer = BudgetTransfer(-to_display(held.kind, held.free), source)
        return _allocation_record(call, params, held, transfer)
    left, taken = held.with_removed(to_stored_amount(held.kind, -params.amount))
    call.ledger.budgets.save(left)
    apply_bound_change(call, held.agent, held.kind)
    if home is not None and held.kind not in BOUNDS and taken:
        refill(call, settle(call, home), taken)
    if left.empty and left.runners:
        save_payment(call, left)
    transfer = BudgetTransfer(-to_display(held.kind, taken), source)
    return _allocation_record(call, params, held, transfer)


class BudgetTransfer(NamedTuple):
    """The amount that was added, or taken if negative, and the agent whose budget is its source."""

    moved: int
    source: str


def _allocation_record(
    call: Call, params: AllocateParams, held: Budget, transfer: BudgetTransfer
) -> Record[Allocation]:
    now = call.ledger.budgets.get(held.agent, held.kind, held.tier) or Budget("", held.kind)
    result = Allocation(
        agent=params.agent, kind=params.kind, tier=held.tier, moved=transfer.moved,
        left=to_display(held.kind, now.free), spent=to_display(held.kind, now.spent),
        owed=to_display(held.kind, now.over), source=transfer.source,
    )  # fmt: skip
    call.notify(budget_topic(held.agent))
    return Record(result, fields=result.model_dump(exclude={"agent"}))


def _name(call: Call, uuid: str) -> str:
    return call.hive.name(uuid) or uuid or THE_OPERATOR
