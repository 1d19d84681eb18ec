"""The steps that make the tree on disk match the topology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hive_core.model.agents.machine import Machine
from hive_core.plan.actions import Action, MakeNode, MoveNode, RestoreNode
from hive_core.plan.desired import Desired, ReconcileStep
from hive_core.plan.placement import Placement


class Forest:
    """The nodes on disk as they will be after the steps so far: short id -> parent or None."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self._parents: dict[str, str | None] = {}
        for machine in machines:
            self.put(machine.node)

    def put(self, node: tuple[str, ...]) -> None:
        if node:
            self._parents[node[-1]] = node[-2] if len(node) > 1 else None

    def lineage(self, short: str) -> tuple[str, ...]:
        """The lineage of a node at this point; it ends below a node that belongs to no agent."""
        lineage = [short]
        parent = self._parents.get(short)
        while parent is not None and parent not in lineage:
            lineage.append(parent)
            parent = self._parents.get(parent)
        return tuple(reversed(lineage))


def storage_steps(
    desired: Desired, machines: Mapping[str, Machine], dirty: Iterable[str]
) -> Iterator[ReconcileStep]:
    """Make, restore and move nodes, parents first: a target's parent always exists by then."""
    forest: Forest | None = None
    for uuid in dirty:
        place = desired.places.by_uuid.get(uuid)
        machine = machines.get(uuid)
        if place is None or (machine is not None and machine.node == place.lineage):
            continue
        if machine is not None and machine.node:
            if _under(machine.node) == _under(place.lineage) and forest is None:
                continue  # moves along with an ancestor
            forest = forest or Forest(machines.values())
            source = forest.lineage(place.lineage[-1])
            forest.put(place.lineage)
            if source != place.lineage:
                yield _step(place, MoveNode(source, place.lineage), "its parent changed")
        elif machine is not None and machine.archived:
            yield _step(place, RestoreNode(uuid, place.lineage), "it was restored")
        else:
            yield _step(place, MakeNode(place.lineage), "it is new")


def _under(lineage: tuple[str, ...]) -> tuple[str, ...]:
    return lineage[-2:-1]


def _step(place: Placement, action: Action, why: str) -> ReconcileStep:
    return ReconcileStep(place.uuid, place.name, action, why)
