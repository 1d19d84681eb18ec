"""The time of machines: measured from each start to each end, and paid out of purses of time.

How many machines draw on a purse stands in it, so that a start or an end touches one row, and
when it will be empty is known beforehand.
"""

from __future__ import annotations

from dataclasses import replace

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import Ended, Gone, Started, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.budgets.usage import Figure, day_of
from hive_core.model.agents.hive import Hive
from hive_core.model.work.budget import BOUNDS, Budget, BudgetKind, UsageSource
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    above,
    drawn,
    millis,
    note,
    settled,
    upward,
)
from hive_core.operations.budgets.payer_changes import (
    Before,
    handed_on,
    hung_elsewhere,
    payers_above,
)
from hive_core.operations.budgets.reported_bounds import placed
from hive_core.operations.budgets.shortages import filled, lifted, paid
from hive_core.operations.budgets.usage_rollup import departed
from hive_core.operations.tasks.refunds import closed, from_nobody, inherited

AT_ONCE = 64


@when(Started)
def _started(call: Call, what: Started) -> frozenset[str]:
    """It runs: its time begins."""
    topics = _ended(call, what.uuid)
    call.ledger.budgets.started(what.uuid, millis(call.now))
    return topics | _runners(call, what.uuid, 1)


@when(Ended)
def _over(call: Call, what: Ended) -> frozenset[str]:
    return _ended(call, what.uuid)


def _ended(call: Call, uuid: str) -> frozenset[str]:
    """What it ran is written down; also of one whose end nobody saw when it starts again."""
    budgets = call.ledger.budgets
    since = budgets.runs_since(uuid)
    if since is None:
        return frozenset()
    ran = max(0, millis(call.now) - since)
    day, measured = day_of(call.now), UsageSource.MEASURED.value
    budgets.usage.add(Figure(day, uuid, BudgetKind.TIME.value, measured, "", "", ran))
    budgets.ended(uuid)
    return _runners(call, uuid, -1)


def _runners(call: Call, uuid: str, more: int) -> frozenset[str]:
    topics = frozenset[str]()
    for purse in drawn(call, uuid, BudgetKind.TIME):
        topics |= paid(call, replace(purse, runners=max(0, purse.runners + more)))
    return topics


def recount(call: Call, hive: Hive) -> frozenset[str]:
    """After purses or agents have changed places: up to now as before, from now on as in `hive`."""
    budgets, now = call.ledger.budgets, millis(call.now)
    if BudgetKind.TIME not in budgets.kinds:
        return frozenset()
    found = {
        each.agent: replace(each.with_run_time(now), runners=0)
        for each in budgets.every(BudgetKind.TIME)
    }
    for uuid in budgets.running():
        pays = next((each for each in upward(hive, uuid) if each in found), None)
        if pays is not None and hive.name(uuid) is not None:
            found[pays] = replace(found[pays], runners=found[pays].runners + 1)
    topics = (paid(call, each) if each.runners else _kept(call, each) for each in found.values())
    return frozenset().union(*topics)


def _kept(call: Call, purse: Budget) -> frozenset[str]:
    call.ledger.budgets.keep(purse)
    return frozenset()


@due(at=lambda ledger: ledger.budgets.dry_at(), topics=frozenset({BUDGET}))
def budgets_of_time_run_out(call: Call) -> Record[Result]:
    """Purses of time that are empty by now."""
    topics = frozenset[str]()
    for purse in call.ledger.budgets.dry(millis(call.now), AT_ONCE):
        topics |= paid(call, purse.with_run_time(millis(call.now)))
    return Record(Result(), wakes=topics)


@when(Gone)
def _gone(call: Call, what: Gone) -> frozenset[str]:
    """What it has not spent goes back up; what it used stays written down under its name."""
    topics = _ended(call, what.uuid)
    for purse in call.ledger.budgets.of(what.uuid):
        topics |= _closed(call, purse)
    call.ledger.budgets.leave(what.uuid)
    return topics | departed(call, what.uuid, what.name)


def given_back(call: Call, purse: Budget) -> frozenset[str]:
    """Close a purse; who was short of it goes on with what pays now."""
    before = Before(purse, call.ledger.budgets.shortage(purse))
    return _closed(call, purse) | handed_on(call, purse.agent, [before])


def _closed(call: Call, purse: Budget) -> frozenset[str]:
    """The unspent part goes to the nearest one above it."""
    budgets = call.ledger.budgets
    if purse.kind is BudgetKind.TIME:
        purse = purse.with_run_time(millis(call.now))
    home = budgets.nearest(above(call.hive, purse.agent), purse.kind, purse.tier)
    if purse.over:
        note(call, purse, "owed", f"{purse.over} were used beyond it, and nobody pays for them")
    topics = lifted(call, purse) if purse.kind in BOUNDS else frozenset[str]()
    budgets.drop(purse)
    inherited(call, purse, home.agent if home else "")
    if home is None or purse.kind in BOUNDS:
        return topics
    if home.kind is BudgetKind.TIME:
        home = home.with_run_time(millis(call.now))
    home = replace(home, runners=home.runners + purse.runners)
    if purse.free:
        return topics | filled(call, home, purse.free)
    return paid(call, home) if purse.runners else topics


def moved(call: Call, hive: Hive, agent: str) -> frozenset[str]:
    """The subtree hangs elsewhere in `hive`: what pays for it and bounds it is judged at once."""
    if not call.ledger.budgets.kinds:
        return placed(call._replace(hive=hive), [agent])
    return _paid_elsewhere(call, hive, agent)


def _paid_elsewhere(call: Call, hive: Hive, agent: str) -> frozenset[str]:
    """Purses do not leave the purse that they came from.

    Where another one is the nearest above the new place, what is unspent goes back to the old one,
    and the subtree draws on the new one. So no move makes a budget bigger than it was.
    """
    budgets, topics = call.ledger.budgets, frozenset[str]()
    own, uuid = list[Before](), call.hive.spec(agent).id
    paying = list(payers_above(call, hive, uuid))
    # The deepest first: each gives back to the one above it, the last to the one outside.
    for name in reversed(call.hive.topology.subtree(agent)):
        for purse in budgets.of(call.hive.spec(name).id):
            old = budgets.nearest(above(call.hive, uuid), purse.kind, purse.tier)
            new = budgets.nearest(above(hive, uuid), purse.kind, purse.tier)
            if (old and old.agent) != (new and new.agent):
                own.append(Before(settled(call, purse), budgets.shortage(purse)))
                topics |= _closed(call, purse)
    topics |= _left_outside(call, hive, agent) | recount(call, hive)
    return topics | hung_elsewhere(call._replace(hive=hive), agent, paying, own)


def _left_outside(call: Call, hive: Hive, agent: str) -> frozenset[str]:
    """Tasks with something from outside, in a subtree that comes below a purse: they draw on it."""
    budgets, topics = call.ledger.budgets, frozenset[str]()
    uuid, inside = call.hive.spec(agent).id, call.hive.topology.subtree(agent)
    for kind in (BudgetKind.TOKENS, BudgetKind.MONEY) if budgets.funds.any else ():
        if budgets.nearest(above(hive, uuid), kind) is not None:
            while found := from_nobody(call, call.hive, inside, kind):
                for each in found:
                    topics |= closed(call, each)
    return topics
