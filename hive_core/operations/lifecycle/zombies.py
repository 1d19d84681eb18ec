"""Zombies: one-shot agents that have ended. They do not count towards `max_children` (row K4)."""

from __future__ import annotations

from hive_core.broker.call import Call
from hive_core.policy.grants import check_child_quota


def revive(call: Call, uuid: str) -> None:
    """Make a zombie a living child again.

    LimitReached when its parent has `max_children` children.
    """
    zombies = call.ledger.lives.zombies()
    name = call.hive.name(uuid)
    if uuid not in zombies or name is None:
        return
    parent = call.hive.topology.parent(name)
    if parent is not None and not call.by_operator:
        check_child_quota(call.hive, parent, besides=living_names(call, zombies))
    call.ledger.lives.settle_ends(uuid, call.now)


def living_names(call: Call, uuids: frozenset[str]) -> frozenset[str]:
    """The names of those of the agents that are in the tree."""
    return frozenset(name for uuid in uuids if (name := call.hive.name(uuid)) is not None)
