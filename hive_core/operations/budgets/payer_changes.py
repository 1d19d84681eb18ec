"""Another purse pays from now on: a purse was closed, its agent is gone, or hangs elsewhere.

Nobody who was short of the one before sleeps until something else happens: it goes on where the
purse that pays now has something, and else it is short of that one, with all that follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hive_core.broker.call import Call
from hive_core.ledger.budgets.storage import Shortage
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.budget import BOUNDS, FUEL, Budget, BudgetKind
from hive_core.operations.budgets.payer_budget import (
    ancestors,
    budget_title,
    budget_topic,
    owner_name,
    self_and_ancestors,
    settle,
)
from hive_core.operations.budgets.reported_bounds import apply_bounds
from hive_core.operations.budgets.shortages import (
    drawing_agents,
    restart_machines,
    save_payment,
    tell_agents,
    withdraw_question,
)
from hive_core.operations.tasks.offers import start_next


@dataclass(frozen=True, slots=True)
class FormerPayer:
    """A purse that paid, as it was then, and who was short of it."""

    purse: Budget
    missed: Shortage | None

    @property
    def of(self) -> tuple[BudgetKind, str]:
        return self.purse.kind, self.purse.tier


def former_payers(call: Call, uuid: str) -> list[FormerPayer]:
    """The purses of an agent, as long as they are there."""
    budgets = call.ledger.budgets
    return [FormerPayer(settle(call, each), budgets.shortage(each)) for each in budgets.of(uuid)]


def rebill_adopted_children(
    call: Call, names: Iterable[str], before: Sequence[FormerPayer]
) -> frozenset[str]:
    """Their parent is gone, and these were its purses; `call.hive` is without it."""
    topics, names = frozenset[str](), list(names)
    heads = [call.hive.spec(name).id for name in names]
    for each in before:
        topics |= _rebill(call, heads, [each])
    bounded = any(each.purse.kind in BOUNDS for each in before)
    return topics | (apply_bounds(call, names) if bounded else frozenset())


def rebill_subtree(call: Call, head: str, before: Sequence[FormerPayer]) -> frozenset[str]:
    """Who drew on these, from this agent downwards, draws on what is above it in `call.hive`.

    They are of one kind and tier.
    """
    return _rebill(call, [head], before)


def _rebill(call: Call, heads: Sequence[str], before: Sequence[FormerPayer]) -> frozenset[str]:
    """The same for several at once; they hang below the same agent."""
    (kind, tier), own = before[0].of, frozenset[str]()
    if kind in FUEL:
        own = frozenset(each.agent for each in call.ledger.budgets.of_kind(kind, tier))
    outside = [head for head in heads if head not in own]
    home = call.ledger.budgets.nearest(
        self_and_ancestors(call.hive, (outside or heads)[0]), kind, tier
    )
    home = None if home is None else settle(call, home)
    dry = home is not None and home.empty
    topics = frozenset().union(*(_close_shortage(call, each, dry=dry) for each in before))
    if kind not in FUEL or not outside:
        return topics
    who = [each for head in outside for each in drawing_agents(call, Budget(head, kind, tier), own)]
    stopped = _collect_stopped(call, before, who)
    if home is not None and dry:
        return topics | _join_shortage(call, home, who, stopped)
    if any(each.purse.empty for each in before):
        topics = topics.union(*(start_next(call, each) for each in who))
    return topics | restart_machines(call, stopped)


def _close_shortage(call: Call, before: FormerPayer, *, dry: bool) -> frozenset[str]:
    """Nobody has to give more of it, and who was told to wait for that goes on."""
    purse, missed = before.purse, before.missed
    if missed is None or call.ledger.budgets.get(*_budget_key(purse)) is not None:
        return frozenset()
    topics, name = withdraw_question(call, missed), owner_name(call.hive, purse)
    if dry or purse.kind in BOUNDS:
        return topics
    text = f"the {budget_title(purse)} of {name} is closed, and what is above pays: go on"
    return topics | tell_agents(call, [call.hive.name(purse.agent)], text)


def _budget_key(purse: Budget) -> tuple[str, BudgetKind, str]:
    return purse.agent, purse.kind, purse.tier


def _collect_stopped(
    call: Call, before: Sequence[FormerPayer], who: Collection[str]
) -> tuple[str, ...]:
    """Machines that were stopped for want of these; a purse that stays forgets about them."""
    found, inside = list[str](), set(who)
    for each in before:
        missed = each.missed
        if missed is None:
            continue
        found += [uuid for uuid in missed.stopped if uuid in inside]
        if (still := call.ledger.budgets.shortage(each.purse)) is not None:
            rest = tuple(uuid for uuid in still.stopped if uuid not in inside)
            call.ledger.budgets.save_shortage(replace(still, stopped=rest))
    return tuple(dict.fromkeys(found))


def _join_shortage(
    call: Call, home: Budget, who: Sequence[str], stopped: tuple[str, ...]
) -> frozenset[str]:
    """What pays now has nothing either: they wait for that, and its time to stop them runs."""
    budgets = call.ledger.budgets
    busy = [each for each in who if call.ledger.tasks.open_tasks(each, 1)]
    known = budgets.shortage(home)
    if known is None and not busy and not stopped:
        return frozenset()
    topics = frozenset({budget_topic(home.agent)}) | save_payment(call, home)
    missed = budgets.shortage(home)
    if missed is None:
        return topics
    if known is not None:
        whose = owner_name(call.hive, home)
        text = f"the {budget_title(home)} of {whose} pays for you now and is used up"
        names = [call.hive.name(each) for each in dict.fromkeys((*busy, *stopped))]
        topics |= tell_agents(call, names, f"{text}\nyou are told when there is more")
    seconds, ends = call.settings.budgets.stop, missed.stop_at
    if ends is None and seconds and any(_is_at_work(call, home.kind, each) for each in who):
        ends = call.now + seconds
    every = tuple(dict.fromkeys((*missed.stopped, *stopped)))
    budgets.save_shortage(replace(missed, stop_at=ends, stopped=every))
    return topics


def _is_at_work(call: Call, kind: BudgetKind, uuid: str) -> bool:
    if kind is not BudgetKind.TIME:
        return bool(call.ledger.tasks.count_offered(uuid))
    run = call.ledger.runs.get(uuid)
    return run is not None and run.wanted is DesiredState.RUNNING


def former_payers_above(call: Call, hive: Hive, uuid: str) -> Iterator[FormerPayer]:
    """What paid for an agent from above, and does not where it hangs in `hive`."""
    budgets = call.ledger.budgets
    for kind in FUEL if budgets.kinds else ():
        for tier in dict.fromkeys(each.tier for each in budgets.of_kind(kind)):
            old = budgets.nearest(ancestors(call.hive, uuid), kind, tier)
            new = budgets.nearest(ancestors(hive, uuid), kind, tier)
            if (old and old.agent) != (new and new.agent):
                # Where nobody paid there was no bound: like a purse with something in it.
                found = Budget("", kind, tier, free=1) if old is None else settle(call, old)
                yield FormerPayer(found, budgets.shortage(found))


def rebill_moved_subtree(
    call: Call, name: str, paying: Iterable[FormerPayer], closed: Iterable[FormerPayer]
) -> frozenset[str]:
    """A subtree draws on others in `call.hive`: than those above it, and than its own."""
    uuid, groups = (
        call.hive.spec(name).id,
        defaultdict[tuple[BudgetKind, str], list[FormerPayer]](list),
    )
    for each in (*paying, *closed):
        groups[each.of].append(each)
    found = (rebill_subtree(call, uuid, each) for each in groups.values())
    return frozenset().union(*found) | apply_bounds(call, [name])
