"""Bounds on what agents report: tokens an hour, and the size of a context (row K23).

A bound is not a budget: nothing is used up, and no work is stopped. The daemon warns an agent that
comes near a bound. An agent that reaches one gets no new task and no tool until its use is lower,
and the daemon asks the party above it whether to raise the bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hive_core.broker.call import Call
from hive_core.broker.hooks import AgentStarted, on
from hive_core.model.work.budget import Budget, BudgetKind
from hive_core.operations.budgets.payer_budget import (
    SLIDING,
    bounds,
    budget_topic,
    with_reported_use,
)
from hive_core.operations.budgets.shortages import (
    end_shortage,
    recheck_bound,
    start_shortage,
    warn_low,
)
from hive_core.operations.tasks.offers import offer_next_tasks


def report_tokens(call: Call, uuid: str, tokens: int) -> None:
    """Add tokens to the hours of the agent and of all ancestors that have such a bound."""
    reported = call.ledger.budgets.bounds
    for bound in bounds(call, uuid, BudgetKind.TOKENS_PER_HOUR) if tokens else ():
        hour, warned = reported.hour(bound.agent, call.now)
        hour = hour.add(tokens)
        reported.save_hour(bound.agent, hour, warned=warned)
        warned_now = _check_bound(call, with_reported_use(call, bound), warned=warned)
        if warned_now != warned:
            reported.save_hour(bound.agent, hour, warned=warned_now)


def report_context(call: Call, uuid: str, tokens: int) -> None:
    """Save how many tokens the context of the agent has now, and check its bound."""
    reported = call.ledger.budgets.bounds
    warned = reported.context(uuid)[1]
    call.notify(f"usage:{uuid}")
    reported.save_context(uuid, tokens, warned=warned)
    limits = bounds(call, uuid, BudgetKind.CONTEXT)
    for bound in limits:
        warned = _check_bound(call, with_reported_use(call, bound), warned=warned)
    reported.save_context(uuid, tokens, warned=warned)
    if not limits:
        end_shortage(call, Budget(uuid, BudgetKind.CONTEXT))


def apply_bound_change(call: Call, uuid: str, kind: BudgetKind) -> None:
    """Compare what was reported before with the new bound of this agent."""
    budgets = call.ledger.budgets
    if kind is BudgetKind.CONTEXT:
        sizes = budgets.bounds.contexts()
        for name in call.hive.topology.subtree(call.hive.name(uuid) or uuid):
            agent = call.hive.spec(name).id
            if agent in sizes:
                report_context(call, agent, sizes[agent])
            offer_next_tasks(call, agent)
    for bound in bounds(call, uuid, kind) if kind is BudgetKind.TOKENS_PER_HOUR else ():
        if bound.agent == uuid:
            _recheck_hour(call, bound)


def apply_bounds(call: Call, names: Iterable[str]) -> None:
    """Apply the bounds of `call.hive` to these agents and their descendants.

    The sizes of their contexts count as if they had just been reported. The hour of a bound keeps
    what was reported under it: hours are counted for whole subtrees, so the part of a moved subtree
    that the new place counted before is unknown.
    """
    budgets, host = call.ledger.budgets, call.settings.budgets
    limited = budgets.kinds.intersection(SLIDING) or host.tokens_per_hour or host.context
    if not limited and not any(row.kind in SLIDING for row in budgets.shortages()):
        return
    sizes = budgets.bounds.contexts()
    for name in chain.from_iterable(map(call.hive.topology.subtree, names)):
        uuid = call.hive.spec(name).id
        for bound in bounds(call, uuid, BudgetKind.TOKENS_PER_HOUR):
            if bound.agent == uuid:
                _recheck_hour(call, bound)
        if uuid in sizes:
            report_context(call, uuid, sizes[uuid])
        _recheck_own_bound(call, uuid)
        offer_next_tasks(call, uuid)


def _recheck_own_bound(call: Call, uuid: str) -> None:
    """Recheck a bound that the agent reached and that no longer applies to it."""
    shortage = call.ledger.budgets.shortage(Budget(uuid, BudgetKind.TOKENS_PER_HOUR))
    limits = bounds(call, uuid, BudgetKind.TOKENS_PER_HOUR)
    if shortage is not None and not any(bound.agent == uuid for bound in limits):
        recheck_bound(call, shortage)


def _recheck_hour(call: Call, bound: Budget) -> None:
    budgets, used = call.ledger.budgets, with_reported_use(call, bound)
    shortage = budgets.shortage(bound)
    if shortage is not None and used.empty:
        recheck_bound(call, shortage)
    elif shortage is not None:
        end_shortage(call, used)
    else:
        hour, warned = budgets.bounds.hour(bound.agent, call.now)
        warned_now = _check_bound(call, used, warned=warned)
        if warned_now != warned:
            budgets.bounds.save_hour(bound.agent, hour, warned=warned_now)


def _check_bound(call: Call, bound: Budget, *, warned: bool) -> bool:
    """Warn, or start or end a shortage, by the use of a bound.

    Return whether the warning stands.
    """
    near = bound.is_near_end(call.settings.budgets.warn)
    if call.ledger.budgets.shortage(bound) is not None:
        if bound.kind is BudgetKind.CONTEXT and not bound.empty:
            end_shortage(call, bound)
        return near
    if bound.empty:
        start_shortage(call, bound)
        shortage = call.ledger.budgets.shortage(bound)
        if shortage is not None:
            recheck_bound(call, shortage)
        return True
    if near and not warned:
        warn_low(call, bound)
        call.notify(budget_topic(bound.agent))
        return True
    return near


@on(AgentStarted)
def _reset_context(call: Call, event: AgentStarted) -> None:
    """Reset the context of an agent that starts: it is empty until the agent reports a size."""
    if call.ledger.budgets.bounds.context(event.uuid)[0]:
        report_context(call, event.uuid, 0)
