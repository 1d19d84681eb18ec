"""Whose purse pays for what an agent does, and how it is called in sentences."""

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
# What agents say of themselves, and what is less again after a while or a word of theirs.
SLIDING: Final = (BudgetKind.TOKENS_PER_HOUR, BudgetKind.CONTEXT)
_SETTINGS: Final = "(host)"  # no agent can be called so
_PARTS: Final = 64  # of parts of tasks that are looked at


def millis(now: float) -> int:
    return int(now * 1000)


def budget_topic(agent: str) -> str:
    """Touched when something of a budget of this agent has changed."""
    return f"{BUDGET}:{agent}"


def ancestors(hive: Hive, uuid: str) -> Iterator[str]:
    """The ancestors, nearest first."""
    name = hive.name(uuid)
    if name is not None:
        yield from (hive.spec(each).id for each in hive.topology.lineage(name))


def self_and_ancestors(hive: Hive, uuid: str) -> Iterator[str]:
    """The agent, then its ancestors."""
    yield uuid
    yield from ancestors(hive, uuid)


def agent_tier(hive: Hive, uuid: str) -> str:
    name = hive.name(uuid)
    return "" if name is None else hive.spec(name).tier.value


def paying_budgets(call: Call, uuid: str, kind: BudgetKind, tier: str = "") -> list[Budget]:
    """The purses that pay for what this agent does, as of now: for all tiers, and for this one."""
    budgets = call.ledger.budgets
    if kind not in budgets.kinds:
        return []
    tiers = (TIERLESS, tier or agent_tier(call.hive, uuid)) if kind in TIERED else (TIERLESS,)
    chain = list(self_and_ancestors(call.hive, uuid))
    found = (budgets.nearest(chain, kind, each) for each in dict.fromkeys(tiers))
    return [settle(call, purse) for purse in found if purse is not None]


def exhausted_budget(call: Call, uuid: str, covered: Collection[BudgetKind] = ()) -> Budget | None:
    """An empty purse that would have to pay for the work of this agent, or a bound that it met.

    `covered`: what the work has a fund of its own of. Those of a tier have to be good for it too.
    """
    budgets = call.ledger.budgets
    for kind in FUEL if budgets.kinds else ():
        for purse in paying_budgets(call, uuid, kind):
            if purse.empty and (purse.tier or kind not in covered):
                return purse
    found = (each for kind in SLIDING for each in bounds(call, uuid, kind))
    # Under a bound of nothing nobody has to say anything before.
    met = (each for each in found if each.empty or budgets.shortage(each))
    return next((with_reported_use(call, each) for each in met), None)


def bounds(call: Call, uuid: str, kind: BudgetKind) -> list[Budget]:
    """The bounds that hold for what this agent says of itself; `free` is the whole bound.

    That of tokens an hour is of an agent with all below it, that of a context is each agent's own.
    """
    budgets = call.ledger.budgets
    most: int = getattr(call.settings.budgets, kind.value)
    if kind in budgets.kinds:
        held = (budgets.get(holder, kind) for holder in self_and_ancestors(call.hive, uuid))
        found = [each for each in held if each is not None]
        if found and kind is BudgetKind.TOKENS_PER_HOUR:
            return found
        most = found[0].free if found else most
        return [Budget(uuid, kind, free=most)] if found or most else []
    return [Budget(uuid, kind, free=most)] if most else []


def with_reported_use(call: Call, bound: Budget) -> Budget:
    """A bound with what was said to be used of it."""
    said = call.ledger.budgets.bounds
    if bound.kind is BudgetKind.TOKENS_PER_HOUR:
        used = said.hour(bound.agent, call.now)[0].total
    elif bound.kind is BudgetKind.CONTEXT:
        used = said.context(bound.agent)[0]
    else:
        return bound
    most = bound.free
    return replace(bound, free=max(0, most - used), spent=min(used, most), over=max(0, used - most))


def task_fund(call: Call, task: str, uuid: str, kind: BudgetKind) -> TaskFund | None:
    """What pays, before all purses, for what this agent uses for a task.

    That is the fund of the task. Without one: the purse of the agent itself; and where it has none,
    the fund of what the task is a part of.
    """
    funds = call.ledger.budgets.funds
    if not task or not funds.any:
        return None
    found = funds.get(task, kind)
    if found is not None or call.ledger.budgets.get(uuid, kind) is not None:
        return found
    for _ in range(_PARTS):
        known = call.ledger.tasks.get(task)
        task = known.request.part_of if known is not None else ""
        if not task or (found := funds.get(task, kind)) is not None:
            return found
    return None


def funded_kinds(call: Call, task: str, uuid: str) -> frozenset[BudgetKind]:
    """Of what a task has something of its own, whatever is left to its agent."""
    found = {
        kind: task_fund(call, task, uuid, kind) for kind in (BudgetKind.TOKENS, BudgetKind.MONEY)
    }
    return frozenset(kind for kind, fund in found.items() if fund and not fund.budget.empty)


def settle(call: Call, purse: Budget) -> Budget:
    """As of now: of time, with what runs."""
    return purse.with_run_time(millis(call.now)) if purse.kind is BudgetKind.TIME else purse


def budget_title(purse: Budget) -> str:
    """For sentences: `token budget`, `money budget for tier strategic`."""
    if purse.kind in BOUNDS:
        return f"bound of {UNITS[purse.kind]}"
    word = {
        BudgetKind.TOKENS: "token",
        BudgetKind.MESSAGES: "message",
        BudgetKind.TASKS: "task",
    }.get(purse.kind)
    name = f"budget of {UNITS[purse.kind]}" if purse.kind is BudgetKind.CHILDREN else (
        f"{word or purse.kind.value} budget"
    )  # fmt: skip
    return f"{name} for tier {purse.tier}" if purse.tier else name


def owner_name(hive: Hive, purse: Budget) -> str:
    return hive.name(purse.agent) or purse.agent


def holder_name(call: Call, purse: Budget) -> str:
    """The name of who has it; of a bound that an agent is under, of who has that."""
    if purse.kind not in SLIDING:
        return owner_name(call.hive, purse)
    found = call.ledger.budgets.nearest(self_and_ancestors(call.hive, purse.agent), purse.kind)
    return _SETTINGS if found is None else owner_name(call.hive, found)


def usage_text(call: Call, purse: Budget) -> str:
    """For sentences: `990 of 1000 tokens are spent`."""
    had = to_display(purse.kind, purse.spent + purse.free)
    unit = UNITS[purse.kind]
    if purse.kind is BudgetKind.MONEY:
        unit = f"{unit} of {call.settings.budgets.currency}"
    if purse.kind in SLIDING:
        return f"{purse.spent + purse.over} of {had} {unit}, as reported"
    owed = f", and {to_display(purse.kind, purse.over)} beyond it" if purse.over else ""
    return f"{to_display(purse.kind, purse.spent)} of {had} {unit} spent{owed}"


def budget_refusal(call: Call, what: str, purse: Budget) -> LimitReached:
    """The error of a call that an empty purse would have to pay for."""
    whose, giver = owner_name(call.hive, purse), giver_name(call, purse)
    short = call.ledger.budgets.shortage(purse) if purse.kind in SLIDING else None
    if short is not None:
        wait = max(0.0, (short.stop_at or call.now) - call.now)
        again = f"try again in {wait:.0f} s, or " if wait else ""
        more = {"retry_after": wait} if wait else {}
        return LimitReached(
            f"{what}: the {budget_title(purse)} of {whose} is reached ({usage_text(call, purse)});"
            f" {again}{giver} can give more",
            rule=BUDGET, budget=whose, of=purse.kind.value, **more,
        )  # fmt: skip
    return LimitReached(
        f"{what}: the {budget_title(purse)} of {whose} is used up ({usage_text(call, purse)});"
        f" {giver} can give more",
        rule=BUDGET, budget=whose, of=purse.kind.value,
    )  # fmt: skip


def giver_name(call: Call, purse: Budget) -> str:
    """The nearest ancestor that has some left and may give it; else the operator."""
    budgets, hive = call.ledger.budgets, call.hive
    for uuid in ancestors(hive, purse.agent):
        found = budgets.get(uuid, purse.kind, purse.tier)
        name = hive.name(uuid)
        least = purse.free + purse.spent if purse.kind in BOUNDS else 0
        if found is None or name is None or settle(call, found).free <= least:
            continue
        if covers(hive.spec(name).capabilities, "budget"):
            return name
    return OPERATOR


def log_budget_event(call: Call, purse: Budget, what: str, text: str) -> None:
    """The event."""
    fields = {
        "of": purse.kind.value, "tier": purse.tier, "left": to_display(purse.kind, purse.free),
        "spent": to_display(purse.kind, purse.spent), "over": to_display(purse.kind, purse.over),
    }  # fmt: skip
    call.ledger.events.append(
        AuditEntry(
            BUDGET, DAEMON, what.replace(" ", "_"), purse.agent, None, "", text, call.hive.commit,
            call.request, call.now, fields,
        )
    )  # fmt: skip
