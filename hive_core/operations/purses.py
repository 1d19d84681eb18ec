"""Whose purse pays for what an agent does, and how it is called in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import LimitReached
from hive_core.ledger.events import Entry
from hive_core.model.budget import FUEL, TIERED, TIERLESS, UNITS, Kind, Purse, shown
from hive_core.model.capability import covers
from hive_core.model.hive import Hive
from hive_core.model.record import DAEMON, OPERATOR

BUDGET: Final = "budget"


def millis(now: float) -> int:
    return int(now * 1000)


def topic(agent: str) -> str:
    """Touched when something of a budget of this agent has changed."""
    return f"{BUDGET}:{agent}"


def above(hive: Hive, uuid: str) -> Iterator[str]:
    """The ancestors, nearest first."""
    name = hive.name(uuid)
    if name is not None:
        yield from (hive.spec(each).id for each in hive.topology.lineage(name))


def upward(hive: Hive, uuid: str) -> Iterator[str]:
    """The agent, then its ancestors."""
    yield uuid
    yield from above(hive, uuid)


def tier_of(hive: Hive, uuid: str) -> str:
    name = hive.name(uuid)
    return "" if name is None else hive.spec(name).tier.value


def drawn(call: Call, uuid: str, kind: Kind, tier: str = "") -> list[Purse]:
    """The purses that pay for what this agent does, as of now: for all tiers, and for this one."""
    budgets = call.ledger.budgets
    if kind not in budgets.kinds:
        return []
    tiers = (TIERLESS, tier or tier_of(call.hive, uuid)) if kind in TIERED else (TIERLESS,)
    chain = list(upward(call.hive, uuid))
    found = (budgets.nearest(chain, kind, each) for each in dict.fromkeys(tiers))
    return [settled(call, purse) for purse in found if purse is not None]


def exhausted(call: Call, uuid: str) -> Purse | None:
    """An empty purse that would have to pay for the work of this agent."""
    if not call.ledger.budgets.kinds:
        return None
    found = (purse for kind in FUEL for purse in drawn(call, uuid, kind))
    return next((purse for purse in found if purse.empty), None)


def settled(call: Call, purse: Purse) -> Purse:
    """As of now: of time, with what runs."""
    return purse.settled(millis(call.now)) if purse.kind is Kind.TIME else purse


def title(purse: Purse) -> str:
    """For sentences: `token budget`, `money budget for tier strategic`."""
    word = {Kind.TOKENS: "token", Kind.MESSAGES: "message", Kind.TASKS: "task"}.get(purse.kind)
    name = f"budget of {UNITS[purse.kind]}" if purse.kind is Kind.CHILDREN else (
        f"{word or purse.kind.value} budget"
    )  # fmt: skip
    return f"{name} for tier {purse.tier}" if purse.tier else name


def owner(hive: Hive, purse: Purse) -> str:
    return hive.name(purse.agent) or purse.agent


def amounts(call: Call, purse: Purse) -> str:
    """For sentences: `990 of 1000 tokens are spent`."""
    had = shown(purse.kind, purse.spent + purse.free)
    unit = UNITS[purse.kind]
    if purse.kind is Kind.MONEY:
        unit = f"{unit} of {call.settings.budgets.currency}"
    owed = f", and {shown(purse.kind, purse.over)} beyond it" if purse.over else ""
    return f"{shown(purse.kind, purse.spent)} of {had} {unit} spent{owed}"


def refused(call: Call, what: str, purse: Purse) -> LimitReached:
    """The error of a call that an empty purse would have to pay for."""
    whose, giver = owner(call.hive, purse), who_gives(call, purse)
    return LimitReached(
        f"{what}: the {title(purse)} of {whose} is used up ({amounts(call, purse)});"
        f" {giver} can give more",
        rule=BUDGET, budget=whose, of=purse.kind.value,
    )  # fmt: skip


def who_gives(call: Call, purse: Purse) -> str:
    """The nearest ancestor that has some left and may give it; else the operator."""
    budgets, hive = call.ledger.budgets, call.hive
    for uuid in above(hive, purse.agent):
        found = budgets.get(uuid, purse.kind, purse.tier)
        name = hive.name(uuid)
        if found is None or name is None or not settled(call, found).free:
            continue
        if covers(hive.spec(name).capabilities, "budget"):
            return name
    return OPERATOR


def note(call: Call, purse: Purse, what: str, text: str) -> None:
    """The event."""
    fields = {
        "of": purse.kind.value, "tier": purse.tier, "left": shown(purse.kind, purse.free),
        "spent": shown(purse.kind, purse.spent), "over": shown(purse.kind, purse.over),
    }  # fmt: skip
    call.ledger.events.append(
        Entry(
            BUDGET, DAEMON, what.replace(" ", "_"), purse.agent, None, "", text, call.hive.commit,
            call.request, call.now, fields,
        )
    )  # fmt: skip
