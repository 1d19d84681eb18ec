"""The budgets that pay for what an agent does, and their names in messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import LimitReached
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.capability import covers
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.model.work.budget import (
    BOUNDS,
    FUEL,
    TIERED,
    TIERLESS,
    UNITS,
    Budget,
    BudgetKind,
    TaskFund,
    to_display,
)

BUDGET: Final = "budget"
# Bounds on what agents report about themselves. Their use decreases with time, or by a new report.
SLIDING: Final = (BudgetKind.TOKENS_PER_HOUR, BudgetKind.CONTEXT)
_SETTINGS: Final = "(host)"  # cannot be the name of an agent
_PARTS: Final = 64  # levels of tasks that `task_fund` walks up


def millis(now: float) -> int:
    return int(now * 1000)


def budget_topic(agent: str) -> str:
    """The topic that is touched when a budget of this agent has changed."""
    return f"{BUDGET}:{agent}"


def ancestors(hive: Hive, uuid: str) -> Iterator[str]:
    """UUIDs of the ancestors of an agent, the nearest first."""
    name = hive.name(uuid)
    if name is not None:
        yield from (hive.spec(ancestor).id for ancestor in hive.topology.lineage(name))


def self_and_ancestors(hive: Hive, uuid: str) -> Iterator[str]:
    """UUIDs of the agent and its ancestors, the nearest first."""
    yield uuid
    yield from ancestors(hive, uuid)


def agent_tier(hive: Hive, uuid: str) -> str:
    name = hive.name(uuid)
    return "" if name is None else hive.spec(name).tier.value


def paying_budgets(call: Call, uuid: str, kind: BudgetKind, tier: str = "") -> list[Budget]:
    """The budgets that pay for what this agent does, as of now: for all tiers, and for its own."""
    budgets = call.ledger.budgets
    if kind not in budgets.kinds:
        return []
    tiers = (TIERLESS, tier or agent_tier(call.hive, uuid)) if kind in TIERED else (TIERLESS,)
    lineage = list(self_and_ancestors(call.hive, uuid))
    nearest = (budgets.nearest(lineage, kind, tier_) for tier_ in dict.fromkeys(tiers))
    return [settle(call, budget) for budget in nearest if budget is not None]


def exhausted_budget(call: Call, uuid: str, funded: Collection[BudgetKind] = ()) -> Budget | None:
    """An empty budget that would have to pay for the agent's work, or a bound that it reached.

    `funded`: kinds for which the work has a fund of its own. A budget of a tier must have something
    left even when the work has a fund.
    """
    budgets = call.ledger.budgets
    for kind in FUEL if budgets.kinds else ():
        for budget in paying_budgets(call, uuid, kind):
            if budget.empty and (budget.tier or kind not in funded):
                return budget
    limits = (bound for kind in SLIDING for bound in bounds(call, uuid, kind))
    # A bound of 0 refuses work before the agent has reported anything.
    reached = (bound for bound in limits if bound.empty or budgets.shortage(bound))
    return next((with_reported_use(call, bound) for bound in reached), None)


def bounds(call: Call, uuid: str, kind: BudgetKind) -> list[Budget]:
    """The bounds that hold for what this agent reports; `free` is the whole bound.

    A bound of tokens an hour covers an agent and all its descendants. A bound of context covers
    each agent on its own.
    """
    budgets = call.ledger.budgets
    most: int = getattr(call.settings.budgets, kind.value)
    if kind in budgets.kinds:
        lineage = self_and_ancestors(call.hive, uuid)
        held = [
            budget for holder in lineage if (budget := budgets.get(holder, kind)) is not None
        ]  # fmt: skip
        if held and kind is BudgetKind.TOKENS_PER_HOUR:
            return held
        most = held[0].free if held else most
        return [Budget(uuid, kind, free=most)] if held or most else []
    return [Budget(uuid, kind, free=most)] if most else []


def with_reported_use(call: Call, bound: Budget) -> Budget:
    """The budget; a bound has the use that agents reported filled in."""
    reported = call.ledger.budgets.bounds
    if bound.kind is BudgetKind.TOKENS_PER_HOUR:
        used = reported.hour(bound.agent, call.now)[0].total
    elif bound.kind is BudgetKind.CONTEXT:
        used = reported.context(bound.agent)[0]
    else:
        return bound
    most = bound.free
    return replace(bound, free=max(0, most - used), spent=min(used, most), over=max(0, used - most))


def task_fund(call: Call, task: str, uuid: str, kind: BudgetKind) -> TaskFund | None:
    """The fund that pays, before all budgets, for what this agent uses for a task.

    It is the fund of the task itself. Without one, the agent's own budget pays; without that, the
    fund of the nearest task that this one is a part of.
    """
    funds = call.ledger.budgets.funds
    if not task or not funds.any:
        return None
    fund = funds.get(task, kind)
    if fund is not None or call.ledger.budgets.get(uuid, kind) is not None:
        return fund
    for _ in range(_PARTS):
        row = call.ledger.tasks.get(task)
        task = row.request.part_of if row is not None else ""
        if not task or (fund := funds.get(task, kind)) is not None:
            return fund
    return None


# Budgets, and the fund of a task, each of which pays the whole.
ChargedPayers = tuple[list[Budget], TaskFund | None]


def payers(call: Call, uuid: str, kind: BudgetKind, tier: str, task: str) -> ChargedPayers:
    """What pays for this agent's use for a task: budgets, and the fund of the task.

    The fund pays in place of a budget for all tiers. A budget of a tier pays as well.
    """
    fund = task_fund(call, task, uuid, kind)
    budgets = [
        budget for budget in paying_budgets(call, uuid, kind, tier) if budget.tier or fund is None
    ]
    return budgets, fund


def funded_kinds(call: Call, task: str, uuid: str) -> frozenset[BudgetKind]:
    """The kinds for which a task has a fund with something left."""
    funds = {
        kind: task_fund(call, task, uuid, kind) for kind in (BudgetKind.TOKENS, BudgetKind.MONEY)
    }
    return frozenset(kind for kind, fund in funds.items() if fund and not fund.budget.empty)


def release_holds(call: Call, holder: str, budget: Budget) -> Budget:
    """The budget of an agent, or of a task, without what calls of models hold in it.

    It is about to be closed. Such a call is paid at its end by what pays for its agent then; any
    other call is paid by the budgets that admitted it.
    """
    if not budget.held:
        return budget
    call.ledger.models.drop_holds(holder, budget.kind, budget.tier)
    return budget.with_release(budget.held)


def settle(call: Call, budget: Budget) -> Budget:
    """Bring a budget up to date: a budget of time pays for the machines that run."""
    return budget.with_run_time(millis(call.now)) if budget.kind is BudgetKind.TIME else budget


def budget_title(budget: Budget) -> str:
    """A budget in a sentence: `token budget`, `money budget for tier strategic`."""
    if budget.kind in BOUNDS:
        return f"bound of {UNITS[budget.kind]}"
    if budget.kind is BudgetKind.CHILDREN:
        name = f"budget of {UNITS[budget.kind]}"
    else:
        name = f"{_ADJECTIVES.get(budget.kind, budget.kind.value)} budget"
    return f"{name} for tier {budget.tier}" if budget.tier else name


_ADJECTIVES: Final = {
    BudgetKind.TOKENS: "token", BudgetKind.MESSAGES: "message", BudgetKind.TASKS: "task",
}  # fmt: skip


def owner_name(hive: Hive, budget: Budget) -> str:
    return hive.name(budget.agent) or budget.agent


def holder_name(call: Call, budget: Budget) -> str:
    """The name of the agent that has this budget; for a bound, of the agent that imposes it."""
    if budget.kind not in SLIDING:
        return owner_name(call.hive, budget)
    lineage = self_and_ancestors(call.hive, budget.agent)
    bound = call.ledger.budgets.nearest(lineage, budget.kind)
    return _SETTINGS if bound is None else owner_name(call.hive, bound)


def usage_text(call: Call, budget: Budget) -> str:
    """The use of a budget in a sentence: `990 of 1000 tokens spent`."""
    total = to_display(budget.kind, budget.spent + budget.held + budget.free)
    unit = UNITS[budget.kind]
    if budget.kind is BudgetKind.MONEY:
        unit = f"{unit} of {call.settings.budgets.currency}"
    if budget.kind in SLIDING:
        return f"{budget.spent + budget.over} of {total} {unit}, as reported"
    owed = f", and {to_display(budget.kind, budget.over)} beyond it" if budget.over else ""
    return f"{to_display(budget.kind, budget.spent)} of {total} {unit} spent{owed}"


def budget_refusal(call: Call, intent: str, budget: Budget) -> LimitReached:
    """The error of a call that an empty budget would have to pay for."""
    owner, giver = owner_name(call.hive, budget), giver_name(call, budget)
    shortage = call.ledger.budgets.shortage(budget) if budget.kind in SLIDING else None
    if shortage is not None:
        wait = max(0.0, (shortage.stop_at or call.now) - call.now)
        again = f"try again in {wait:.0f} s, or " if wait else ""
        more = {"retry_after": wait} if wait else {}
        return LimitReached(
            f"{intent}: the {budget_title(budget)} of {owner} is reached"
            f" ({usage_text(call, budget)}); {again}{giver} can give more",
            rule=BUDGET, budget=owner, of=budget.kind.value, **more,
        )  # fmt: skip
    return LimitReached(
        f"{intent}: the {budget_title(budget)} of {owner} is used up ({usage_text(call, budget)});"
        f" {giver} can give more",
        rule=BUDGET, budget=owner, of=budget.kind.value,
    )  # fmt: skip


def giver_name(call: Call, budget: Budget) -> str:
    """The nearest ancestor that has an amount left and may give it; otherwise the operator."""
    budgets, hive = call.ledger.budgets, call.hive
    for uuid in ancestors(hive, budget.agent):
        above = budgets.get(uuid, budget.kind, budget.tier)
        name = hive.name(uuid)
        least = budget.free + budget.spent if budget.kind in BOUNDS else 0
        if above is None or name is None or settle(call, above).free <= least:
            continue
        if covers(hive.spec(name).capabilities, "budget"):
            return name
    return OPERATOR


def log_budget_event(
    call: Call, budget: Budget, operation: str, text: str, task: str = ""
) -> None:  # fmt: skip
    """Write an event of kind `budget`. `task`: the one whose own budget it is."""
    name = call.hive.name(budget.agent)
    fields = {
        "target_name": name or budget.agent, "of": budget.kind.value, "tier": budget.tier,
        "left": to_display(budget.kind, budget.free),
        "spent": to_display(budget.kind, budget.spent),
        "over": to_display(budget.kind, budget.over), **({"task": task} if task else {}),
    }  # fmt: skip
    call.ledger.events.append(
        AuditEntry(
            BUDGET, DAEMON, operation.replace(" ", "_"), budget.agent, None, "", text,
            call.hive.commit, call.request, call.now, fields,
        )
    )  # fmt: skip
