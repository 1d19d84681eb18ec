"""How much of its own limits an agent has left to give.

A limit that is set on an agent is also its budget: what its children are given adds up to no more
(memory, processes, CPU). A limit that is not set is the host's default, which everybody gets and
which nobody has to pay for; more than that is the operator's to give.
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
    """What `name` may still give its children; None when nothing was set on it.

    Adopted children may have brought more than there was: then it is 0.
    """
    spec = hive.spec(name)
    purse = claim(spec, field)
    if purse is None:
        return None
    own = limit_of(spec.limits, field) if limit_of(spec.subtree, field) is not None else None
    given = sum(claim(hive.spec(kid), field) or 0 for kid in hive.topology.children(name))
    return max(0, purse - given - (own or 0))


def ceiling(hive: Hive, name: str, field: str, defaults: Limits = _EVERYTHING) -> int | None:
    """The most that `name` has of this itself; None when there is no bound."""
    spec = hive.spec(name)
    own = limit_of(spec.limits, field)
    bounds = [each for each in (own, limit_of(spec.subtree, field)) if each is not None]
    return min(bounds) if bounds else limit_of(defaults, field)


def default_limit(
    hive: Hive, creator: str, parent: str, field: str, defaults: Limits
) -> int | None:
    """What a child gets that asks for nothing; None leaves it with the host's default.

    It is no more than the creator has and, of what adds up, an equal part of what the parent has
    left: the rest divided by its free seats.
    """
    bounds = [ceiling(hive, creator, field)]
    rest = remainder(hive, parent, field) if field in SUMMED else None
    if rest is not None:
        free = hive.spec(parent).max_children - len(hive.topology.children(parent))
        bounds.append(rest // max(1, free))
    known = [each for each in bounds if each is not None]
    if not known:
        return None
    usual = limit_of(defaults, field)
    return max(LEAST.get(field, 1), min(known if usual is None else [*known, usual]))
