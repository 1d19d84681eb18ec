"""What a move or a restore does to other agents: restarts, and access gained or lost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hive_core.model.agents.hive import Hive
from hive_core.model.agents.revocation import PENDING, Revocation, RevocationState
from hive_core.plan.placement import NESTED_LIMITS, Placements, has_subtree_limits


@dataclass(frozen=True, slots=True)
class Consequences:
    """What one move does to other agents.

    `crossing`: agents whose unit changes its slice, so they are restarted. `lost`: agents that are
    no longer above the moved agent, the highest first. `losing`: those, and all agents below them
    that did not move along. They may still hold open handles of the moved agent's files, and the
    kernel cannot list all of these, so they are restarted too.
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
    above = [hive.spec(name) for name in reversed(lineage)]
    carriers = [spec.id for spec in above if has_subtree_limits(spec)]
    return tuple(carriers[:NESTED_LIMITS])


def agents_losing_access(revocation: Revocation, places: Placements) -> frozenset[str]:
    """The agents that may hold files of a revocation's agent.

    These are the agents that were told to restart, and all agents below those that lost access. An
    agent that moved below them since is included: another may have passed it an open handle. So is
    an agent that moved away from below them, unless it is below one that has regained access.
    """
    hive = places.hive
    agent = hive.name(revocation.agent)
    lost = [name for uuid in revocation.lost if (name := hive.name(uuid)) is not None]
    below = {hive.spec(name).id for name in losing(hive, lost, agent or "")}
    noted = revocation.nonces.keys() - revocation.notified - below
    return frozenset({*below, *revocation.notified, *_may_hold(noted, hive, agent, lost)})


def _may_hold(
    noted: Iterable[str], hive: Hive, agent: str | None, lost: Sequence[str]
) -> Iterator[str]:
    """Those that are neither above nor below the agent, nor below one that regained access."""
    own = {agent, *hive.topology.subtree(agent), *hive.topology.lineage(agent)} if agent else set()
    again = own & {*lost}
    for uuid in noted:
        name = hive.name(uuid)
        if name is None or not (name in own or again.intersection(hive.topology.lineage(name))):
            yield uuid


def agents_left_running(revocation: Revocation, places: Placements) -> frozenset[str]:
    """The agents that keep running and were not restarted; destroyed agents are left out."""
    if revocation.state is not RevocationState.LEFT:
        return frozenset()
    return frozenset(revocation.nonces.keys() & places.by_uuid.keys())


def agents_held_down(revocation: Revocation, places: Placements) -> frozenset[str]:
    """The agents that may not start before the revocation is done."""
    own = {revocation.agent} if revocation.came_back and revocation.state in PENDING else set()
    if revocation.state in (RevocationState.RESTARTING, RevocationState.CLOSING):
        return agents_losing_access(revocation, places) | own
    return frozenset(own)
