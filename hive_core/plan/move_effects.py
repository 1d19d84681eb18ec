"""What a move or a restore does to other agents: restarts, and access gained or lost. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hive_core.model.agents.hive import Hive
from hive_core.plan.actions import UnitLimits
from hive_core.plan.placement import NESTED_LIMITS, subtree_limits


@dataclass(frozen=True, slots=True)
class Consequences:
    """What one move does to other agents.

    `crossing`: agents whose unit changes its slice, so they are restarted. `lost`: agents that are
    not above the moved agent any more, the highest first. `losing`: those, and all agents below
    them that did not move along. They may still hold open handles of the moved agent's files, and
    the kernel cannot list all of these, so they are restarted too.
    """

    crossing: tuple[str, ...]
    lost: tuple[str, ...]
    losing: tuple[str, ...]
    gaining: tuple[str, ...]


def consequences(before: Hive, after: Hive, agent: str) -> Consequences:
    """Compare the place of `agent` in two snapshots."""
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
    """The agents that may hold files of `agent`: those in `lost`, and all below them.

    Parents come first. An agent that is above `agent` (again) has not lost access.
    """
    along = {agent, *hive.topology.subtree(agent)}
    if agent in hive.topology:
        along.update(hive.topology.lineage(agent))
    tops = [name for name in lost if name in hive.topology and name not in along]
    names = (name for top in tops for name in hive.topology.subtree(top))
    return tuple(dict.fromkeys(name for name in names if name not in along))


def _slices(hive: Hive, lineage: tuple[str, ...]) -> tuple[str, ...]:
    """The ancestors that have a limit for their subtree, root first."""
    above = (name for name in reversed(lineage))
    carriers = [name for name in above if subtree_limits(hive.spec(name).subtree) != UnitLimits()]
    return tuple(hive.spec(name).id for name in carriers[:NESTED_LIMITS])
