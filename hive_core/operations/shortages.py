"""What follows when a purse runs low, is empty, or is filled again. Each of these is an event.

At the warning share the agent and who could give it more are told, once for each time that it is
passed. At an empty purse somebody is asked for more, and who works on it is told to come to an
end; after a while that work is stopped, with reason `budget`. More of it lets everything go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.due import due
from hive_core.broker.operation import Result
from hive_core.ledger.budgets import Shortage
from hive_core.model.budget import FUEL, UNITS, Kind, Purse, shown
from hive_core.model.machine import Wanted
from hive_core.operations.notices import tell
from hive_core.operations.purses import (
    BUDGET,
    amounts,
    note,
    owner,
    tier_of,
    title,
    topic,
    who_gives,
)

AT_ONCE: Final = 16


def paid(call: Call, purse: Purse) -> frozenset[str]:
    """Keep a purse out of which something was paid; what follows, and the topics to touch."""
    budgets = call.ledger.budgets
    touched = frozenset({topic(purse.agent)})
    if purse.empty and budgets.shortage(purse) is None:
        budgets.keep(replace(purse, warned=True))
        return touched | _short(call, purse)
    if purse.near(call.settings.budgets.warn) and not purse.warned:
        budgets.keep(replace(purse, warned=True))
        return touched | _warn(call, purse)
    budgets.keep(purse)
    return touched


def filled(call: Call, purse: Purse, amount: int) -> frozenset[str]:
    """Put something in; what was parked for want of it goes on."""
    budgets = call.ledger.budgets
    found = purse.filled(amount)
    low = found.near(call.settings.budgets.warn)
    budgets.keep(replace(found, warned=found.warned and low))
    short = budgets.shortage(found)
    if short is None or found.empty:
        return frozenset({topic(purse.agent)})
    budgets.relieved(found)
    return frozenset({topic(purse.agent)}) | _resume(call, found, short)


def drawing(call: Call, purse: Purse) -> Iterator[str]:
    """Who draws on it: the agent and those below it that have none of their own."""
    name = call.hive.name(purse.agent)
    own = {each.agent for each in call.ledger.budgets.every(purse.kind, purse.tier)}
    waiting = [] if name is None else [name]
    while waiting:
        name = waiting.pop()
        uuid = call.hive.spec(name).id
        if uuid != purse.agent and uuid in own:
            continue
        waiting.extend(call.hive.topology.children(name))
        if not purse.tier or purse.tier == tier_of(call.hive, uuid):
            yield uuid


def _warn(call: Call, purse: Purse) -> frozenset[str]:
    text = f"the {title(purse)} of {owner(call.hive, purse)} runs low: {amounts(call, purse)}"
    note(call, purse, "low", text)
    return _tell(call, (call.hive.name(purse.agent), who_gives(call, purse)), text)


def _short(call: Call, purse: Purse) -> frozenset[str]:
    """It is empty: who can give more is asked, and the time of what works on it is running."""
    whose, giver, stop = owner(call.hive, purse), who_gives(call, purse), call.settings.budgets.stop
    text = f"the {title(purse)} of {whose} is used up: {amounts(call, purse)}"
    note(call, purse, "used_up", text)
    fuel = purse.kind in FUEL
    ends = call.now + stop if fuel and stop else None
    short = Shortage(purse.agent, purse.kind, purse.tier, call.now, giver, "", ends, ())
    call.ledger.budgets.short(short)
    tier = f" tier={purse.tier}" if purse.tier else ""
    more = f"allocate_budget agent={whose} kind={purse.kind.value}{tier} amount=..."
    asked = _tell(call, (giver,), f"{text}\nmay it have more? {more}")
    return asked | _notice(call, purse, text)


def _notice(call: Call, purse: Purse, text: str) -> frozenset[str]:
    """The soft end: those who work on it, and whose it is, hear that they have to report now."""
    at_work = [
        uuid for uuid in drawing(call, purse)
        if purse.kind in FUEL and call.ledger.tasks.open_of(uuid)
    ]  # fmt: skip
    names = (call.hive.name(uuid) for uuid in dict.fromkeys((purse.agent, *at_work)))
    now = "report now what you have" if purse.kind in FUEL else "more of it is refused"
    return _tell(call, names, f"{text}\n{now}; you are told when there is more")


def _resume(call: Call, purse: Purse, short: Shortage) -> frozenset[str]:
    left = f"{shown(purse.kind, purse.free)} {UNITS[purse.kind]}"
    text = f"the {title(purse)} of {owner(call.hive, purse)} has {left} again: go on"
    note(call, purse, "filled", text)
    topics = _tell(call, (call.hive.name(purse.agent),), text)
    for uuid in short.stopped:
        run = call.ledger.runs.get(uuid)
        # Who was started or stopped by somebody since is theirs.
        if call.hive.name(uuid) and run and (run.wanted, run.reason) == (Wanted.STOPPED, BUDGET):
            call.ledger.runs.want(uuid, Wanted.RUNNING, call.now, reason=BUDGET)
            topics |= {f"run:{uuid}"}
    return topics


@due(at=lambda ledger: ledger.budgets.stop_at(), topics=frozenset({BUDGET}))
def stop_at_empty_budgets(call: Call) -> Record[Result]:
    """Whatever works on an empty purse is stopped when its time is over."""
    topics = frozenset[str]()
    for short in call.ledger.budgets.overdue(call.now, AT_ONCE):
        purse = call.ledger.budgets.get(short.agent, short.kind, short.tier)
        stopped: tuple[str, ...] = ()
        if purse is not None and purse.empty:
            stopped, touched = _stop(call, purse)
            topics |= touched
        call.ledger.budgets.short(replace(short, stop_at=None, stopped=stopped))
    return Record(Result(), wakes=topics)


def _stop(call: Call, purse: Purse) -> tuple[tuple[str, ...], frozenset[str]]:
    """Machines where time is what they have no more; else their tasks."""
    why = f"the {title(purse)} of {owner(call.hive, purse)} is used up"
    stopped, topics = list[str](), frozenset[str]()
    for uuid in drawing(call, purse):
        if purse.kind is Kind.TIME:
            run = call.ledger.runs.get(uuid)
            if run is not None and run.wanted is Wanted.RUNNING:
                grace = call.settings.grace.stop
                call.ledger.runs.want(uuid, Wanted.STOPPED, call.now, grace=grace, reason=BUDGET)
                stopped.append(uuid)
                topics |= {f"run:{uuid}"}
    if stopped:
        note(call, purse, "stopped", f"{why}: {len(stopped)} machines are stopped")
    return tuple(stopped), topics


def _tell(
    call: Call, names: Iterator[str | None] | tuple[str | None, ...], text: str
) -> frozenset[str]:
    """Each of them once; whoever is no more hears nothing."""
    topics = frozenset[str]()
    for name in dict.fromkeys(names):
        if name is not None:
            topics |= tell(call, call.hive, name, BUDGET, text)
    return topics
