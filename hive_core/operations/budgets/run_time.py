"""The run time of machines, measured from each start to its end and paid from budgets of time.

The row of a budget of time has the number of machines that draw on it. So a start or an end touches
one row, and the daemon knows in advance when the budget will be empty.
"""

from __future__ import annotations

from dataclasses import replace

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.budgets.usage import UsageAmount, day_of
from hive_core.model.agents.hive import Hive
from hive_core.model.work.budget import BOUNDS, Budget, BudgetKind, UsageSource
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    ancestors,
    log_budget_event,
    millis,
    paying_budgets,
    release_holds,
    self_and_ancestors,
    settle,
)
from hive_core.operations.budgets.payer_changes import (
    FormerPayer,
    former_payers_above,
    rebill_moved_subtree,
    rebill_subtree,
)
from hive_core.operations.budgets.reported_bounds import apply_bounds
from hive_core.operations.budgets.shortages import end_shortage, refill, save_payment
from hive_core.operations.budgets.usage_rollup import start_rollup
from hive_core.operations.tasks.refunds import close_fund, reassign_funds, unsourced_funds

AT_ONCE = 64


@on(AgentStarted)
def _start_run(call: Call, event: AgentStarted) -> None:
    """Begin to count the run time of a machine."""
    _end_run(call, event.uuid)
    call.ledger.budgets.start_run(event.uuid, millis(call.now))
    _change_runners(call, event.uuid, 1)


@on(AgentEnded)
def _finish_run(call: Call, event: AgentEnded) -> None:
    _end_run(call, event.uuid)


def _end_run(call: Call, uuid: str) -> None:
    """Record the time that a machine ran; if its end was not seen, at its next start."""
    budgets = call.ledger.budgets
    since = budgets.running_since(uuid)
    if since is None:
        return
    ran = max(0, millis(call.now) - since)
    day, measured = day_of(call.now), UsageSource.MEASURED.value
    budgets.usage.add(UsageAmount(day, uuid, BudgetKind.TIME.value, measured, "", "", ran))
    budgets.end_run(uuid)
    _change_runners(call, uuid, -1)


def _change_runners(call: Call, uuid: str, more: int) -> None:
    for budget in paying_budgets(call, uuid, BudgetKind.TIME):
        save_payment(call, replace(budget, runners=max(0, budget.runners + more)))


def recount_runners(call: Call, hive: Hive) -> None:
    """Count the machines that draw on each budget of time, after budgets or agents have moved.

    Time up to now is paid by the old payers, later time by those of `hive`.
    """
    budgets, now = call.ledger.budgets, millis(call.now)
    if BudgetKind.TIME not in budgets.kinds:
        return
    payers = {
        budget.agent: replace(budget.with_run_time(now), runners=0)
        for budget in budgets.of_kind(BudgetKind.TIME)
    }
    for uuid in budgets.running_agents():
        payer = next((agent for agent in self_and_ancestors(hive, uuid) if agent in payers), None)
        if payer is not None and hive.name(uuid) is not None:
            payers[payer] = replace(payers[payer], runners=payers[payer].runners + 1)
    for budget in payers.values():
        if budget.runners:
            save_payment(call, budget)
        else:
            budgets.save(budget)


@due(at=lambda ledger: ledger.budgets.next_empty_at(), topics=frozenset({BUDGET}))
def settle_empty_time_budgets(call: Call) -> Record[Result]:
    """Settle the budgets of time that are empty by now."""
    for budget in call.ledger.budgets.due_empty(millis(call.now), AT_ONCE):
        save_payment(call, budget.with_run_time(millis(call.now)))
    return Record(Result())


@on(AgentDestroyed)
def _close_budgets(call: Call, event: AgentDestroyed) -> None:
    """Return what a destroyed agent has not spent; its usage stays recorded under its name."""
    _end_run(call, event.uuid)
    for budget in call.ledger.budgets.of(event.uuid):
        _return_unspent(call, budget)
    call.ledger.budgets.forget_agent(event.uuid)
    start_rollup(call, event.uuid, event.name)


def close_budget(call: Call, budget: Budget) -> None:
    """Close a budget; agents that were short of it continue with what pays from now on."""
    payer = FormerPayer(budget, call.ledger.budgets.shortage(budget))
    _return_unspent(call, budget)
    rebill_subtree(call, budget.agent, [payer])


def _return_unspent(call: Call, budget: Budget) -> None:
    """Delete a budget, and return the unspent part to the nearest budget above it."""
    budgets = call.ledger.budgets
    budget = release_holds(call, budget.agent, settle(call, budget))
    call.ledger.models.look_again(budget.agent, call.now)
    home = budgets.nearest(ancestors(call.hive, budget.agent), budget.kind, budget.tier)
    if budget.over:
        text = f"{budget.over} were used beyond it and stay unpaid"
        log_budget_event(call, budget, "owed", text)
    if budget.kind in BOUNDS:
        end_shortage(call, budget)
    budgets.delete(budget)
    reassign_funds(call, budget, home.agent if home else "")
    if home is None or budget.kind in BOUNDS:
        return
    home = settle(call, home)
    home = replace(home, runners=home.runners + budget.runners)
    if budget.free:
        refill(call, home, budget.free)
    elif budget.runners:
        save_payment(call, home)


def rebill_move(call: Call, hive: Hive, agent: str) -> None:
    """Apply the payers and the bounds of the new place in `hive` to a moved subtree at once."""
    if not call.ledger.budgets.kinds:
        apply_bounds(replace(call, hive=hive), [agent])
    else:
        _rebill_moved_budgets(call, hive, agent)


def _rebill_moved_budgets(call: Call, hive: Hive, agent: str) -> None:
    """Keep budgets below the budget that they came from.

    When another budget is the nearest above the new place, the unspent part returns to the old one,
    and the subtree draws on the new one. So a move cannot make a budget larger.
    """
    budgets = call.ledger.budgets
    closed, uuid = list[FormerPayer](), call.hive.spec(agent).id
    above = list(former_payers_above(call, hive, uuid))
    # The deepest first: each returns to the next above it, the last one to the budget outside the
    # subtree.
    for name in reversed(call.hive.topology.subtree(agent)):
        for budget in budgets.of(call.hive.spec(name).id):
            old = budgets.nearest(ancestors(call.hive, uuid), budget.kind, budget.tier)
            new = budgets.nearest(ancestors(hive, uuid), budget.kind, budget.tier)
            if (old and old.agent) != (new and new.agent):
                closed.append(FormerPayer(settle(call, budget), budgets.shortage(budget)))
                _return_unspent(call, budget)
    _close_outside_funds(call, hive, agent)
    recount_runners(call, hive)
    rebill_moved_subtree(replace(call, hive=hive), agent, above, closed)


def _close_outside_funds(call: Call, hive: Hive, agent: str) -> None:
    """Close task funds that came from no budget, in a subtree that moves below a budget."""
    budgets = call.ledger.budgets
    uuid, inside = call.hive.spec(agent).id, call.hive.topology.subtree(agent)
    for kind in (BudgetKind.TOKENS, BudgetKind.MONEY) if budgets.funds.any else ():
        if budgets.nearest(ancestors(hive, uuid), kind) is not None:
            while funds := unsourced_funds(call, call.hive, inside, kind):
                for fund in funds:
                    close_fund(call, fund)
