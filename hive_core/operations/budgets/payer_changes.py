"""Changes of the budget that pays: the old one was closed, or its agent was destroyed or moved.

Agents that waited for the old budget must not wait for it forever. If the new payer has something
left they continue; otherwise they join the shortage of the new payer.
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
from hive_core.operations.tasks.offers import offer_next_tasks


@dataclass(frozen=True, slots=True)
class FormerPayer:
    """A budget that paid, as it was then, and its shortage."""

    budget: Budget
    shortage: Shortage | None

    @property
    def of(self) -> tuple[BudgetKind, str]:
        return self.budget.kind, self.budget.tier


def former_payers(call: Call, uuid: str) -> list[FormerPayer]:
    """The budgets of an agent; call it before they are closed."""
    budgets = call.ledger.budgets
    return [
        FormerPayer(settle(call, budget), budgets.shortage(budget)) for budget in budgets.of(uuid)
    ]


def rebill_adopted_children(
    call: Call, names: Iterable[str], payers: Sequence[FormerPayer]
) -> None:
    """Move children to new payers after their parent, which had these budgets, was destroyed.

    `call.hive` is without the parent.
    """
    names = list(names)
    heads = [call.hive.spec(name).id for name in names]
    for payer in payers:
        _rebill(call, heads, [payer])
    if any(payer.budget.kind in BOUNDS for payer in payers):
        apply_bounds(call, names)


def rebill_subtree(call: Call, head: str, payers: Sequence[FormerPayer]) -> None:
    """Move a subtree from these payers, of one kind and tier, to those above it in `call.hive`."""
    _rebill(call, [head], payers)


def _rebill(call: Call, heads: Sequence[str], payers: Sequence[FormerPayer]) -> None:
    """Move several subtrees below the same agent to the next payer above."""
    (kind, tier), own = payers[0].of, frozenset[str]()
    if kind in FUEL:
        own = frozenset(budget.agent for budget in call.ledger.budgets.of_kind(kind, tier))
    outside = [head for head in heads if head not in own]
    lineage = self_and_ancestors(call.hive, (outside or heads)[0])
    home = call.ledger.budgets.nearest(lineage, kind, tier)
    home = None if home is None else settle(call, home)
    dry = home is not None and home.empty
    for payer in payers:
        _close_shortage(call, payer, dry=dry)
    if kind not in FUEL or not outside:
        return
    agents = [
        uuid for head in outside for uuid in drawing_agents(call, Budget(head, kind, tier), own)
    ]  # fmt: skip
    stopped = _collect_stopped_agents(call, payers, agents)
    if home is not None and dry:
        _join_shortage(call, home, agents, stopped)
        return
    if any(payer.budget.empty for payer in payers):
        for uuid in agents:
            offer_next_tasks(call, uuid)
    restart_machines(call, stopped)


def _close_shortage(call: Call, payer: FormerPayer, *, dry: bool) -> None:
    """Withdraw the question about a closed budget.

    Its agent continues unless every payer is `dry`.
    """
    budget, shortage = payer.budget, payer.shortage
    if shortage is None or call.ledger.budgets.get(*_budget_key(budget)) is not None:
        return
    withdraw_question(call, shortage)
    if not dry and budget.kind not in BOUNDS:
        name = owner_name(call.hive, budget)
        text = (
            f"the {budget_title(budget)} of {name} is closed, and the budget above it pays now:"
            " continue"
        )
        tell_agents(call, [call.hive.name(budget.agent)], text)


def _budget_key(budget: Budget) -> tuple[str, BudgetKind, str]:
    return budget.agent, budget.kind, budget.tier


def _collect_stopped_agents(
    call: Call, payers: Sequence[FormerPayer], agents: Collection[str]
) -> tuple[str, ...]:
    """The machines of these agents that the payers' shortages stopped.

    The shortage of a budget that stays open no longer lists them.
    """
    machines, inside = list[str](), set(agents)
    for payer in payers:
        if payer.shortage is None:
            continue
        machines += [uuid for uuid in payer.shortage.stopped if uuid in inside]
        if (current := call.ledger.budgets.shortage(payer.budget)) is not None:
            rest = tuple(uuid for uuid in current.stopped if uuid not in inside)
            call.ledger.budgets.save_shortage(replace(current, stopped=rest))
    return tuple(dict.fromkeys(machines))


def _join_shortage(
    call: Call, home: Budget, agents: Sequence[str], stopped: tuple[str, ...]
) -> None:
    """Let agents join the shortage of a new payer that is empty too.

    They stop when its other agents do.
    """
    budgets = call.ledger.budgets
    busy = [uuid for uuid in agents if call.ledger.tasks.open_tasks(uuid, 1)]
    earlier = budgets.shortage(home)
    if earlier is None and not busy and not stopped:
        return
    call.notify(budget_topic(home.agent))
    save_payment(call, home)
    shortage = budgets.shortage(home)
    if shortage is None:
        return
    if earlier is not None:
        owner = owner_name(call.hive, home)
        text = f"the {budget_title(home)} of {owner} pays for you now and is used up"
        names = [call.hive.name(uuid) for uuid in dict.fromkeys((*busy, *stopped))]
        tell_agents(call, names, f"{text}\nyou get a message when it has been refilled")
    seconds, stop_at = call.settings.budgets.stop, shortage.stop_at
    if stop_at is None and seconds and any(_is_at_work(call, home.kind, uuid) for uuid in agents):
        stop_at = call.now + seconds
    machines = tuple(dict.fromkeys((*shortage.stopped, *stopped)))
    budgets.save_shortage(replace(shortage, stop_at=stop_at, stopped=machines))


def _is_at_work(call: Call, kind: BudgetKind, uuid: str) -> bool:
    if kind is not BudgetKind.TIME:
        return bool(call.ledger.tasks.count_open("assignee", uuid))
    run = call.ledger.runs.get(uuid)
    return run is not None and run.wanted is DesiredState.RUNNING


def former_payers_above(call: Call, hive: Hive, uuid: str) -> Iterator[FormerPayer]:
    """The budgets that pay for an agent from above in `call.hive` and do not in `hive`."""
    budgets = call.ledger.budgets
    for kind in FUEL if budgets.kinds else ():
        for tier in dict.fromkeys(budget.tier for budget in budgets.of_kind(kind)):
            old = budgets.nearest(ancestors(call.hive, uuid), kind, tier)
            new = budgets.nearest(ancestors(hive, uuid), kind, tier)
            if (old and old.agent) != (new and new.agent):
                # No payer means no limit, as with a budget that has something left.
                payer = Budget("", kind, tier, free=1) if old is None else settle(call, old)
                yield FormerPayer(payer, budgets.shortage(payer))


def rebill_moved_subtree(
    call: Call, name: str, above: Iterable[FormerPayer], closed: Iterable[FormerPayer]
) -> None:
    """Move a subtree to its new payers in `call.hive`.

    The budgets `above` it and its own ones, which are `closed`, paid for it before.
    """
    uuid = call.hive.spec(name).id
    groups = defaultdict[tuple[BudgetKind, str], list[FormerPayer]](list)
    for payer in (*above, *closed):
        groups[payer.of].append(payer)
    for payers in groups.values():
        rebill_subtree(call, uuid, payers)
    apply_bounds(call, [name])
