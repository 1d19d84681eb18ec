"""What a move of an agent brings for others, before it is done. Pure: two snapshots compared."""

from __future__ import annotations

from dataclasses import dataclass

from hive_core.model.agent import Revoke
from hive_core.model.hive import Hive
from hive_core.plan.actions import Limits
from hive_core.plan.place import NESTED_LIMITS, subtree_limits


@dataclass(frozen=True, slots=True)
class Consequences:
    """`crossing`: units that change their slice, so they are restarted. Of those who lose what
    moved out of their subtree, `restarted` can have it mounted, `scanned` only hold it open.
    """

    crossing: tuple[str, ...]
    restarted: tuple[str, ...]
    scanned: tuple[str, ...]
    gaining: tuple[str, ...]


def consequences(before: Hive, after: Hive, agent: str) -> Consequences:
    """What follows when `agent` hangs in `after` where it does, and not where it did."""
    old, new = before.topology.lineage(agent), after.topology.lineage(agent)
    losing = tuple(name for name in old if name not in new)
    mounting = frozenset(name for name in losing if _can_mount(before, name))
    crosses = _slices(before, old) != _slices(after, new)
    return Consequences(
        crossing=after.topology.subtree(agent) if crosses else (),
        restarted=tuple(name for name in losing if name in mounting),
        scanned=tuple(name for name in losing if name not in mounting),
        gaining=tuple(name for name in new if name not in old),
    )


def _can_mount(hive: Hive, name: str) -> bool:
    """Who can mount cannot be scanned for what it holds."""
    spec = hive.spec(name)
    return spec.boots or spec.revoke is Revoke.RESTART


def _slices(hive: Hive, lineage: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the ancestors that carry a limit for their subtree, root first."""
    above = (name for name in reversed(lineage))
    carriers = [name for name in above if subtree_limits(hive.spec(name).subtree) != Limits()]
    return tuple(hive.spec(name).id for name in carriers[:NESTED_LIMITS])
