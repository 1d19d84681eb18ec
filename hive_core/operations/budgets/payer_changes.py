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
from hive_core.operations.budgets.payer_budget import above, owner, settled, title, topic, upward
from hive_core.operations.budgets.reported_bounds import placed
from hive_core.operations.budgets.shortages import answered, drawing, paid, told, up_again
from hive_core.operations.tasks.offers import start_next


@dataclass(frozen=True, slots=True)
class Before:
    """A purse that paid, as it was then, and who was short of it."""

    purse: Budget
    missed: Shortage | None

    @property
    def of(self) -> tuple[BudgetKind, str]:
        return self.purse.kind, self.purse.tier


def paid_before(call: Call, uuid: str) -> list[Before]:
    """The purses of an agent, as long as they are there."""
    budgets = call.ledger.budgets
    return [Before(settled(call, each), budgets.shortage(each)) for each in budgets.of(uuid)]


def adopted(call: Call, names: Iterable[str], before: Sequence[Before]) -> frozenset[str]:
    """Their parent is gone, and these were its purses; `call.hive` is without it."""
    topics, names = frozenset[str](), list(names)
    heads = [call.hive.spec(name).id for name in names]
    for each in before:
        topics |= _drawn_elsewhere(call, heads, [each])
    bounded = any(each.purse.kind in BOUNDS for each in before)
    return topics | (placed(call, names) if bounded else frozenset())


def handed_on(call: Call, head: str, before: Sequence[Before]) -> frozenset[str]:
    """Who drew on these, from this agent downwards, draws on what is above it in `call.hive`.

    They are of one kind and tier.
    """
    return _drawn_elsewhere(call, [head], before)


def _drawn_elsewhere(call: Call, heads: Sequence[str], before: Sequence[Before]) -> frozenset[str]:
    """The same for several at once; they hang below the same agent."""
    (kind, tier), own = before[0].of, frozenset[str]()
    if kind in FUEL:
        own = frozenset(each.agent for each in call.ledger.budgets.every(kind, tier))
    outside = [head for head in heads if head not in own]
    home = call.ledger.budgets.nearest(upward(call.hive, (outside or heads)[0]), kind, tier)
    home = None if home is None else settled(call, home)
    dry = home is not None and home.empty
    topics = frozenset().union(*(_closed(call, each, dry=dry) for each in before))
    if kind not in FUEL or not outside:
        return topics
    who = [each for head in outside for each in drawing(call, Budget(head, kind, tier), own)]
    stopped = _stopped(call, before, who)
    if home is not None and dry:
        return topics | _short_of(call, home, who, stopped)
    if any(each.purse.empty for each in before):
        topics = topics.union(*(start_next(call, each) for each in who))
    return topics | up_again(call, stopped)


def _closed(call: Call, before: Before, *, dry: bool) -> frozenset[str]:
    """Nobody has to give more of it, and who was told to wait for that goes on."""
    purse, missed = before.purse, before.missed
    if missed is None or call.ledger.budgets.get(*_key(purse)) is not None:
        return frozenset()
    topics, name = answered(call, missed), owner(call.hive, purse)
    if dry or purse.kind in BOUNDS:
        return topics
    text = f"the {title(purse)} of {name} is closed, and what is above pays: go on"
    return topics | told(call, [call.hive.name(purse.agent)], text)


def _key(purse: Budget) -> tuple[str, BudgetKind, str]:
    return purse.agent, purse.kind, purse.tier


def _stopped(call: Call, before: Sequence[Before], who: Collection[str]) -> tuple[str, ...]:
    """Machines that were stopped for want of these; a purse that stays forgets about them."""
    found, inside = list[str](), set(who)
    for each in before:
        missed = each.missed
        if missed is None:
            continue
        found += [uuid for uuid in missed.stopped if uuid in inside]
        if (still := call.ledger.budgets.shortage(each.purse)) is not None:
            rest = tuple(uuid for uuid in still.stopped if uuid not in inside)
            call.ledger.budgets.short(replace(still, stopped=rest))
    return tuple(dict.fromkeys(found))


def _short_of(
    call: Call, home: Budget, who: Sequence[str], stopped: tuple[str, ...]
) -> frozenset[str]:
    """What pays now has nothing either: they wait for that, and its time to stop them runs."""
    budgets = call.ledger.budgets
    busy = [each for each in who if call.ledger.tasks.open_tasks(each, 1)]
    known = budgets.shortage(home)
    if known is None and not busy and not stopped:
        return frozenset()
    topics = frozenset({topic(home.agent)}) | paid(call, home)
    missed = budgets.shortage(home)
    if missed is None:
        return topics
    if known is not None:
        text = f"the {title(home)} of {owner(call.hive, home)} pays for you now and is used up"
        names = [call.hive.name(each) for each in dict.fromkeys((*busy, *stopped))]
        topics |= told(call, names, f"{text}\nyou are told when there is more")
    seconds, ends = call.settings.budgets.stop, missed.stop_at
    if ends is None and seconds and any(_at_work(call, home.kind, each) for each in who):
        ends = call.now + seconds
    every = tuple(dict.fromkeys((*missed.stopped, *stopped)))
    budgets.short(replace(missed, stop_at=ends, stopped=every))
    return topics


def _at_work(call: Call, kind: BudgetKind, uuid: str) -> bool:
    if kind is not BudgetKind.TIME:
        return bool(call.ledger.tasks.count_offered(uuid))
    run = call.ledger.runs.get(uuid)
    return run is not None and run.wanted is DesiredState.RUNNING


def payers_above(call: Call, hive: Hive, uuid: str) -> Iterator[Before]:
    """What paid for an agent from above, and does not where it hangs in `hive`."""
    budgets = call.ledger.budgets
    for kind in FUEL if budgets.kinds else ():
        for tier in dict.fromkeys(each.tier for each in budgets.every(kind)):
            old = budgets.nearest(above(call.hive, uuid), kind, tier)
            new = budgets.nearest(above(hive, uuid), kind, tier)
            if (old and old.agent) != (new and new.agent):
                # Where nobody paid there was no bound: like a purse with something in it.
                found = Budget("", kind, tier, free=1) if old is None else settled(call, old)
                yield Before(found, budgets.shortage(found))


def hung_elsewhere(
    call: Call, name: str, paying: Iterable[Before], closed: Iterable[Before]
) -> frozenset[str]:
    """A subtree draws on others in `call.hive`: than those above it, and than its own."""
    uuid, groups = call.hive.spec(name).id, defaultdict[tuple[BudgetKind, str], list[Before]](list)
    for each in (*paying, *closed):
        groups[each.of].append(each)
    found = (handed_on(call, uuid, each) for each in groups.values())
    return frozenset().union(*found) | placed(call, [name])
