"""What a move of an agent brings for others, before it is done. Pure: two snapshots compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hive_core.model.agents.hive import Hive
from hive_core.plan.actions import Limits
from hive_core.plan.placement import NESTED_LIMITS, subtree_limits


@dataclass(frozen=True, slots=True)
class Consequences:
    """`crossing`: units that change their slice, so they are restarted. `lost`: who is above the
    agent no more, the highest first. `losing`: those, and whoever is below them and did not move
    along: nothing shows all that they may still hold, so they are restarted too.
    """

    crossing: tuple[str, ...]
    lost: tuple[str, ...]
    losing: tuple[str, ...]
    gaining: tuple[str, ...]


def consequences(before: Hive, after: Hive, agent: str) -> Consequences:
    """What follows when `agent` hangs in `after` where it does, and not where it did."""
    old, new = before.topology.lineage(agent), after.topology.lineage(agent)
    lost = tuple(name for name in reversed(old) if name not in new)
    crosses = _slices(before, old) != _slices(after, new)
    return Consequences(
        crossing=after.topology.subtree(agent) if crosses else (),
        lost=lost,
        losing=losing(after, lost, agent),
        gaining=tuple(name for name in new if name not in old),
    )


def losing(hive: Hive, lost: Iterable[str], agent: str) -> tuple[str, ...]:
    """Who may hold what these agents had of `agent`: they, and all below them; parents first.

    Whoever is above the agent (again) has not lost it.
    """
    along = {agent, *hive.topology.subtree(agent)}
    if agent in hive.topology:
        along.update(hive.topology.lineage(agent))
    tops = [name for name in lost if name in hive.topology and name not in along]
    found = (each for name in tops for each in hive.topology.subtree(name))
    return tuple(dict.fromkeys(each for each in found if each not in along))


def _slices(hive: Hive, lineage: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the ancestors that carry a limit for their subtree, root first."""
    above = (name for name in reversed(lineage))
    carriers = [name for name in above if subtree_limits(hive.spec(name).subtree) != Limits()]
    return tuple(hive.spec(name).id for name in carriers[:NESTED_LIMITS])
