"""How much of its own limits an agent has left to give to children.

A limit that is set on an agent is also its budget: the limits of its children add up to no more
(memory, processes, CPU). A limit that is not set is the host's default, which every agent gets and
which counts for no budget; more than that only the operator may give.
"""

from __future__ import annotations

from typing import Final

from hive_core.model.agents.agent import AgentSpec, Limits
from hive_core.model.agents.hive import Hive

SUMMED: Final = ("memory_max", "tasks_max", "cpu_quota", "disk", "inodes")
CEILINGS: Final = ("memory_high", "cpu_weight", "io_weight")
LEAST: Final = {
    "memory_max": 16 << 20, "memory_high": 16 << 20, "tasks_max": 8, "disk": 1 << 20, "inodes": 100,
}  # fmt: skip

_EVERYTHING: Final = Limits()


def limit_of(limits: object, field: str) -> int | None:
    value = getattr(limits, field, None)
    return value if isinstance(value, int) else None


def claim(spec: AgentSpec, field: str) -> int | None:
    """What an agent was given: for itself with its descendants, or else for itself."""
    whole = limit_of(spec.subtree, field)
    return limit_of(spec.limits, field) if whole is None else whole


def remainder(hive: Hive, name: str, field: str) -> int | None:
    """What `name` may still give its children; None when no limit is set on it.

    Adopted children may hold more than there was; the remainder is 0 then.
    """
    spec = hive.spec(name)
    budget = claim(spec, field)
    if budget is None:
        return None
    own = limit_of(spec.limits, field) if limit_of(spec.subtree, field) is not None else None
    allotted = sum(claim(hive.spec(kid), field) or 0 for kid in hive.topology.children(name))
    return max(0, budget - allotted - (own or 0))


def ceiling(hive: Hive, name: str, field: str, defaults: Limits = _EVERYTHING) -> int | None:
    """The most that `name` has of this itself; None without a limit."""
    spec = hive.spec(name)
    own = limit_of(spec.limits, field)
    bounds = [bound for bound in (own, limit_of(spec.subtree, field)) if bound is not None]
    return min(bounds) if bounds else limit_of(defaults, field)


def default_limit(
    hive: Hive, creator: str, parent: str, field: str, defaults: Limits
) -> int | None:
    """The limit of a child for which the caller sets none; None keeps the host's default.

    It is at most what the creator has and, of limits that add up, an equal part of what the parent
    has left: the rest divided by the number of children that it may still have.
    """
    bounds = [ceiling(hive, creator, field)]
    rest = remainder(hive, parent, field) if field in SUMMED else None
    if rest is not None:
        free = hive.spec(parent).max_children - len(hive.topology.children(parent))
        bounds.append(rest // max(1, free))
    known = [bound for bound in bounds if bound is not None]
    if not known:
        return None
    usual = limit_of(defaults, field)
    return max(LEAST.get(field, 1), min(known if usual is None else [*known, usual]))
