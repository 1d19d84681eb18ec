"""Giving budgets, giving more, and taking back what is not spent."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from pydantic import Field

from hive_core.broker.call import Call, Record
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
    to_stored,
)
from hive_core.operations.budgets.payer_budget import (
    ancestors,
    budget_title,
    millis,
    self_and_ancestors,
)
from hive_core.operations.budgets.reported_bounds import apply_bound_change
from hive_core.operations.budgets.run_time import close_budget, recount_runners
from hive_core.operations.budgets.shortages import refill, save_payment
from hive_core.operations.fields import Agent
from hive_core.operations.tasks.refunds import from_nobody, outside
from hive_core.policy.rules import ANCESTOR, OPERATOR, holds

Kinds = Literal[
    "tokens", "money", "time", "messages", "tasks", "children", "calls", "tokens_per_hour",
    "context",
]  # fmt: skip
Tiers = Literal["strategic", "tactical", "operational"]


class AllocateParams(Mutation):
    agent: Agent = Field(description="Who gets it.")
    kind: Kinds = Field(
        description="What of: tokens, money (millionths of the host's currency), time (seconds"
        " that machines run), messages (sent), tasks (given), children (agents created), calls"
        " (a minute), tokens_per_hour (reported), context (tokens of it, reported)."
    )
    amount: int = Field(
        0, ge=-AMOUNT_MOST // MILLI, le=AMOUNT_MOST // MILLI,
        description="So much more. Negative: so much is taken back, as far as it is not spent.",
    )  # fmt: skip
    tier: Tiers | None = Field(
        None, description="Only for work of this tier; tokens and money. Absent: for all of it."
    )
    close: bool = Field(
        default=False,
        description="Take back all that is not spent; the agent draws on its ancestors again.",
    )


class Allocation(Result):
    agent: str = Field(description="Who got it, or gave it back.")
    kind: str = Field(description="What of.")
    tier: str = Field(description="For which tier; empty: for all.")
    moved: int = Field(description="How much really came, or went if negative.")
    left: int = Field(description="What the agent has now and has not spent.")
    spent: int = Field(description="What was spent out of it so far.")
    owed: int = Field(description="What was used beyond it and is not paid yet.")
    source: str = Field(
        description="Out of whose budget it came, or into whose it went; `operator`: out of none."
    )


@operation(
    action="assign", allow=OPERATOR | ANCESTOR & holds("budget"), target="agent", preposition="to"
)
def allocate_budget(call: Call, params: AllocateParams) -> Record[Allocation]:
    """Give an agent below the caller a budget, or more of it, or take back what is not spent.

    It comes out of what the caller has itself, or draws on; so nobody can give what it has not.
    The operator gives to whoever has no budget above it, such as the root of a tree. More is
    always added to what is there; what was spent stays spent. Calls a minute, tokens an hour and
    tokens of context are bounds, which are not used up, and never above the next one up the tree.
    """
    kind, tier = BudgetKind(params.kind), params.tier or ""
    if tier and kind not in TIERED:
        raise InvalidArgument(f"a budget of {UNITS[kind]} is for all tiers", field="tier")
    if params.close == bool(params.amount):
        raise InvalidArgument("say an amount, or close, and not both", field="amount")
    uuid = call.hive.spec(params.agent).id
    held = call.ledger.budgets.get(uuid, kind, tier)
    if held is not None and kind is BudgetKind.TIME:
        held = held.with_run_time(millis(call.now))
    if params.amount > 0:
        return _give_budget(
            call, params, held or Budget(uuid, kind, tier), to_stored(kind, params.amount)
        )
    if held is None:
        raise NotFound(f"{params.agent} has no budget of its own of {UNITS[kind]}")
    return _take_back_budget(call, params, held)


def _give_budget(
    call: Call, params: AllocateParams, held: Budget, amount: int
) -> Record[Allocation]:
    if held.total + amount > AMOUNT_MOST:
        raise InvalidArgument(f"no budget is above {AMOUNT_MOST}", field="amount")
    if held.kind in BOUNDS:
        return _raise_bound(call, params, held, held.free + amount)
    source = _source_budget(call, held)
    if source is not None:
        _take_from_source(call, params, source, amount)
    elif call.ledger.budgets.get(held.agent, held.kind, held.tier) is None:
        amount -= _absorb_budgets_below(call, params, held, amount)
    topics = refill(call, replace(held, as_of=held.as_of or millis(call.now)), amount)
    topics |= recount_runners(call, call.hive)
    flow = BudgetTransfer(params.amount, _name(call, source.agent if source else ""))
    return _allocation_record(call, params, held, flow, topics)


def _take_from_source(call: Call, params: AllocateParams, source: Budget, amount: int) -> None:
    if source.free < amount:
        raise LimitReached(
            f"cannot give {params.agent} {params.amount} {UNITS[source.kind]}: of the"
            f" {budget_title(source)} of {_name(call, source.agent)} are"
            f" {to_display(source.kind, source.free)} left",
            rule="budget", budget=_name(call, source.agent), of=source.kind.value,
        )  # fmt: skip
    call.ledger.budgets.save(source.with_removed(amount)[0])


def _source_budget(call: Call, held: Budget) -> Budget | None:
    """Out of which purse it comes: the caller's, else the nearest above; none: from outside."""
    budgets, hive = call.ledger.budgets, call.hive
    found = None
    if not call.by_operator:
        found = budgets.nearest(self_and_ancestors(hive, call.uuid), held.kind, held.tier)
    found = found or budgets.nearest(ancestors(hive, held.agent), held.kind, held.tier)
    if found is not None and found.kind is BudgetKind.TIME:
        found = found.with_run_time(millis(call.now))
    return found


def _absorb_budgets_below(call: Call, params: AllocateParams, held: Budget, amount: int) -> int:
    """What lies in purses further down already: it is part of what the first one above them has."""
    inside = {call.hive.spec(name).id for name in call.hive.topology.subtree(params.agent)}
    every = call.ledger.budgets.of_kind(held.kind, held.tier)
    found = sum(each.free for each in every if each.agent in inside)
    names = call.hive.topology.subtree(params.agent)
    funds = [] if held.tier else from_nobody(call, call.hive, names, held.kind)
    found += sum(outside(call, each) for each in funds)
    if found > amount:
        raise InvalidArgument(
            f"those below {params.agent} have {to_display(held.kind, found)} {UNITS[held.kind]}"
            " already; give at least so much",
            field="amount",
        )
    for each in funds:
        call.ledger.budgets.funds.save(replace(each, source=held.agent))
    return found


def _raise_bound(call: Call, params: AllocateParams, held: Budget, most: int) -> Record[Allocation]:
    """Bounds: no more than the next one up the tree has, or the host where there is none."""
    over = call.ledger.budgets.nearest(ancestors(call.hive, held.agent), held.kind)
    source = _name(call, over.agent if over else "")
    limit = over.free if over else 0 if call.by_operator else _host_limit(call, held.kind)
    if (over or limit) and most > limit:
        raise LimitReached(
            f"cannot give {params.agent} {most} {UNITS[held.kind]}:"
            f" {source if over else 'an agent of this host'} has {limit}",
            rule="budget", budget=source, of=held.kind.value,
        )  # fmt: skip
    call.ledger.budgets.save(replace(held, free=most))
    topics = apply_bound_change(call, held.agent, held.kind)
    return _allocation_record(call, params, held, BudgetTransfer(most - held.free, source), topics)


def _host_limit(call: Call, kind: BudgetKind) -> int:
    """What the host's settings say for each agent; 0: nothing."""
    found: int = getattr(call.settings.budgets, kind.value, 0)
    return found


def _take_back_budget(call: Call, params: AllocateParams, held: Budget) -> Record[Allocation]:
    home = call.ledger.budgets.nearest(ancestors(call.hive, held.agent), held.kind, held.tier)
    source = _name(call, home.agent if home else "")
    if params.close:
        topics = close_budget(call, held) | recount_runners(call, call.hive)
        topics |= apply_bound_change(call, held.agent, held.kind)
        return _allocation_record(
            call, params, held, BudgetTransfer(-to_display(held.kind, held.free), source), topics
        )
    left, taken = held.with_removed(to_stored(held.kind, -params.amount))
    call.ledger.budgets.save(left)
    topics = apply_bound_change(call, held.agent, held.kind)
    if home is not None and held.kind not in BOUNDS and taken:
        home = home.with_run_time(millis(call.now)) if home.kind is BudgetKind.TIME else home
        topics |= refill(call, home, taken)
    if left.empty and left.runners:
        topics |= save_payment(call, left)
    return _allocation_record(
        call, params, held, BudgetTransfer(-to_display(held.kind, taken), source), topics
    )


class BudgetTransfer(NamedTuple):
    """How much came, or went if negative; and out of whose purse, or into whose."""

    moved: int
    source: str


def _allocation_record(
    call: Call, params: AllocateParams, held: Budget, flow: BudgetTransfer, topics: frozenset[str]
) -> Record[Allocation]:
    now = call.ledger.budgets.get(held.agent, held.kind, held.tier) or Budget("", held.kind)
    result = Allocation(
        agent=params.agent, kind=params.kind, tier=held.tier, moved=flow.moved,
        left=to_display(held.kind, now.free), spent=to_display(held.kind, now.spent),
        owed=to_display(held.kind, now.over), source=flow.source,
    )  # fmt: skip
    fields = result.model_dump(exclude={"agent"})
    return Record(result, wakes=topics | {f"budget:{held.agent}"}, fields=fields)


def _name(call: Call, uuid: str) -> str:
    return call.hive.name(uuid) or uuid or THE_OPERATOR
