"""The time of machines: measured from each start to each end, and paid out of purses of time.

How many machines draw on a purse stands in it, so that a start or an end touches one row, and
when it will be empty is known beforehand.
"""

from __future__ import annotations

from dataclasses import replace

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, when
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
from hive_core.operations.tasks.refunds import closed, from_nobody, inherited

AT_ONCE = 64


@when(AgentStarted)
def _start_run(call: Call, what: AgentStarted) -> frozenset[str]:
    """It runs: its time begins."""
    topics = _end_run(call, what.uuid)
    call.ledger.budgets.start_run(what.uuid, millis(call.now))
    return topics | _change_runners(call, what.uuid, 1)


@when(AgentEnded)
def _finish_run(call: Call, what: AgentEnded) -> frozenset[str]:
    return _end_run(call, what.uuid)


def _end_run(call: Call, uuid: str) -> frozenset[str]:
    """What it ran is written down; also of one whose end nobody saw when it starts again."""
    budgets = call.ledger.budgets
    since = budgets.running_since(uuid)
    if since is None:
        return frozenset()
    ran = max(0, millis(call.now) - since)
    day, measured = day_of(call.now), UsageSource.MEASURED.value
    budgets.usage.add(UsageAmount(day, uuid, BudgetKind.TIME.value, measured, "", "", ran))
    budgets.end_run(uuid)
    return _change_runners(call, uuid, -1)


def _change_runners(call: Call, uuid: str, more: int) -> frozenset[str]:
    topics = frozenset[str]()
    for purse in paying_budgets(call, uuid, BudgetKind.TIME):
        topics |= save_payment(call, replace(purse, runners=max(0, purse.runners + more)))
    return topics


def recount_runners(call: Call, hive: Hive) -> frozenset[str]:
    """After purses or agents have changed places: up to now as before, from now on as in `hive`."""
    budgets, now = call.ledger.budgets, millis(call.now)
    if BudgetKind.TIME not in budgets.kinds:
        return frozenset()
    found = {
        each.agent: replace(each.with_run_time(now), runners=0)
        for each in budgets.of_kind(BudgetKind.TIME)
    }
    for uuid in budgets.running_agents():
        pays = next((each for each in self_and_ancestors(hive, uuid) if each in found), None)
        if pays is not None and hive.name(uuid) is not None:
            found[pays] = replace(found[pays], runners=found[pays].runners + 1)
    topics = (
        save_payment(call, each) if each.runners else _save_budget(call, each)
        for each in found.values()
    )
    return frozenset().union(*topics)


def _save_budget(call: Call, purse: Budget) -> frozenset[str]:
    call.ledger.budgets.save(purse)
    return frozenset()


@due(at=lambda ledger: ledger.budgets.next_empty_at(), topics=frozenset({BUDGET}))
def settle_empty_time_budgets(call: Call) -> Record[Result]:
    """Purses of time that are empty by now."""
    topics = frozenset[str]()
    for purse in call.ledger.budgets.due_empty(millis(call.now), AT_ONCE):
        topics |= save_payment(call, purse.with_run_time(millis(call.now)))
    return Record(Result(), wakes=topics)


@when(AgentDestroyed)
def _close_budgets(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """What it has not spent goes back up; what it used stays written down under its name."""
    topics = _end_run(call, what.uuid)
    for purse in call.ledger.budgets.of(what.uuid):
        topics |= _return_unspent(call, purse)
    call.ledger.budgets.forget_agent(what.uuid)
    return topics | start_rollup(call, what.uuid, what.name)


def close_budget(call: Call, purse: Budget) -> frozenset[str]:
    """Close a purse; who was short of it goes on with what pays now."""
    before = FormerPayer(purse, call.ledger.budgets.shortage(purse))
    return _return_unspent(call, purse) | rebill_subtree(call, purse.agent, [before])


def _return_unspent(call: Call, purse: Budget) -> frozenset[str]:
    """The unspent part goes to the nearest one above it."""
    budgets = call.ledger.budgets
    if purse.kind is BudgetKind.TIME:
        purse = purse.with_run_time(millis(call.now))
    home = budgets.nearest(ancestors(call.hive, purse.agent), purse.kind, purse.tier)
    if purse.over:
        log_budget_event(
            call, purse, "owed", f"{purse.over} were used beyond it, and nobody pays for them"
        )
    topics = end_shortage(call, purse) if purse.kind in BOUNDS else frozenset[str]()
    budgets.delete(purse)
    inherited(call, purse, home.agent if home else "")
    if home is None or purse.kind in BOUNDS:
        return topics
    if home.kind is BudgetKind.TIME:
        home = home.with_run_time(millis(call.now))
    home = replace(home, runners=home.runners + purse.runners)
    if purse.free:
        return topics | refill(call, home, purse.free)
    return save_payment(call, home) if purse.runners else topics


def rebill_move(call: Call, hive: Hive, agent: str) -> frozenset[str]:
    """The subtree hangs elsewhere in `hive`: what pays for it and bounds it is judged at once."""
    if not call.ledger.budgets.kinds:
        return apply_bounds(call._replace(hive=hive), [agent])
    return _rebill_moved_budgets(call, hive, agent)


def _rebill_moved_budgets(call: Call, hive: Hive, agent: str) -> frozenset[str]:
    """Purses do not leave the purse that they came from.

    Where another one is the nearest above the new place, what is unspent goes back to the old one,
    and the subtree draws on the new one. So no move makes a budget bigger than it was.
    """
    budgets, topics = call.ledger.budgets, frozenset[str]()
    own, uuid = list[FormerPayer](), call.hive.spec(agent).id
    paying = list(former_payers_above(call, hive, uuid))
    # The deepest first: each gives back to the one above it, the last to the one outside.
    for name in reversed(call.hive.topology.subtree(agent)):
        for purse in budgets.of(call.hive.spec(name).id):
            old = budgets.nearest(ancestors(call.hive, uuid), purse.kind, purse.tier)
            new = budgets.nearest(ancestors(hive, uuid), purse.kind, purse.tier)
            if (old and old.agent) != (new and new.agent):
                own.append(FormerPayer(settle(call, purse), budgets.shortage(purse)))
                topics |= _return_unspent(call, purse)
    topics |= _close_outside_funds(call, hive, agent) | recount_runners(call, hive)
    return topics | rebill_moved_subtree(call._replace(hive=hive), agent, paying, own)


def _close_outside_funds(call: Call, hive: Hive, agent: str) -> frozenset[str]:
    """Tasks with something from outside, in a subtree that comes below a purse: they draw on it."""
    budgets, topics = call.ledger.budgets, frozenset[str]()
    uuid, inside = call.hive.spec(agent).id, call.hive.topology.subtree(agent)
    for kind in (BudgetKind.TOKENS, BudgetKind.MONEY) if budgets.funds.any else ():
        if budgets.nearest(ancestors(hive, uuid), kind) is not None:
            while found := from_nobody(call, call.hive, inside, kind):
                for each in found:
                    topics |= closed(call, each)
    return topics
