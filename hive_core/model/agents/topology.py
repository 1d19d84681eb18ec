"""The declared tree: name -> parent or null, and which agents are ancestors of which.

The numbering answers in constant time at any depth. The guarded walk is its reference; with both,
an agent on a cycle, below one, or with an unknown parent has no ancestors and no descendants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Self, TypeAlias

from hive_core.errors import InvalidArgument

DEPTH_LIMIT = 32
Parents = Mapping[str, str | None]


def guarded_ancestors(parents: Parents, name: str) -> tuple[str, ...] | None:
    """Ancestors of `name`, nearest first; None when the chain does not end at a root."""
    chain: list[str] = []
    visited = {name}
    at = parents.get(name, name)
    while at is not None:
        if at in visited or at not in parents:
            return None
        visited.add(at)
        chain.append(at)
        at = parents[at]
    return tuple(chain)


# Place in a depth-first numbering: enter, leave, level, and the enter of the parent (0 for a root).
# An agent and its descendants are `enter` to `leave`. A plain tuple: every decision unpacks it, and
# the interpreter unpacks plain tuples faster than named ones.
Interval: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True)
class Topology:
    """One snapshot of the tree. `Topology.forest` makes it and refuses what is not a forest."""

    parents: Parents = field(default_factory=lambda: MappingProxyType({}))
    # Of every agent with a path to a root, and of no other. Made at once and not a property, which
    # would cost a decision more than the lookup itself.
    numbering: Mapping[str, Interval] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbering", self._make_numbering())

    @classmethod
    def forest(cls, parents: Parents, depth_limit: int = DEPTH_LIMIT) -> Self:
        """The topology, or InvalidArgument that names the first agent that breaks a rule."""
        topology = cls(MappingProxyType(dict(parents)))
        fault = topology._structure_fault() or topology._depth_fault(depth_limit)
        if fault:
            raise InvalidArgument(fault, field="parent")
        return topology

    def _structure_fault(self) -> str:
        if len(self.order) == len(self.parents):
            return ""
        for name, parent in self.parents.items():
            if parent == name:
                return f"{name} is its own parent"
            if parent is not None and parent not in self.parents:
                return f"parent {parent} of {name} is unknown"
        lost = next(name for name in self.parents if name not in self.numbering)
        return f"{lost} is on or below a cycle"

    def _depth_fault(self, limit: int) -> str:
        if self.depth <= limit:
            return ""
        deep = next(name for name in self.order if self.level(name) > limit)
        return f"{deep} would be deeper than {limit} levels"

    @cached_property
    def children_by_parent(self) -> Mapping[str | None, tuple[str, ...]]:
        """Children by parent (None: the roots), in name order."""
        children: dict[str | None, list[str]] = {}
        for name in sorted(self.parents):
            children.setdefault(self.parents[name], []).append(name)
        return {parent: tuple(names) for parent, names in children.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All agents with a path to a root: depth first, siblings by name."""
        kids, order, stack = self.children_by_parent, [], list(reversed(self.roots))
        while stack:
            name = stack.pop()
            order.append(name)
            if below := kids.get(name):
                stack.extend(reversed(below))
        return tuple(order)

    def _make_numbering(self) -> Mapping[str, Interval]:
        parents, order = self.parents, self.order
        # One object for each number, allocated together: a decision in a big tree waits for memory.
        numbers = list(range(len(order) + 1))
        enters: dict[str | None, int] = {None: 0, **dict(zip(order, numbers[1:], strict=True))}
        sizes, levels = dict.fromkeys(order, 1), dict.fromkeys(order, 1)
        for name in order:
            if (parent := parents[name]) is not None:
                levels[name] = levels[parent] + 1
        for name in reversed(order):
            if (parent := parents[name]) is not None:
                sizes[parent] += sizes[name]
        return {
            name: (enter, numbers[enter + sizes[name] - 1], levels[name], enters[parents[name]])
            for name, enter in zip(order, numbers[1:], strict=True)
        }

    @property
    def depth(self) -> int:
        """Levels of the deepest tree."""
        return max([level for _, _, level, _ in self.numbering.values()], default=0)

    def level(self, name: str) -> int:
        """1 for a root, 2 for its children; 0 for an agent without a path to a root."""
        place = self.numbering.get(name)
        return 0 if place is None else place[2]

    @property
    def roots(self) -> tuple[str, ...]:
        return self.children_by_parent.get(None, ())

    def __contains__(self, name: object) -> bool:
        return name in self.parents

    def __iter__(self) -> Iterator[str]:
        return iter(self.parents)

    def __len__(self) -> int:
        return len(self.parents)

    def parent(self, name: str) -> str | None:
        return self.parents[name]

    def children(self, name: str) -> tuple[str, ...]:
        return self.children_by_parent.get(name, ())

    def is_ancestor(self, ancestor: str, name: str) -> bool:
        """Strict: no agent is an ancestor of itself."""
        above, below = self.numbering.get(ancestor), self.numbering.get(name)
        return above is not None and below is not None and above[0] < below[0] <= above[1]

    def lineage(self, name: str) -> tuple[str, ...]:
        """Ancestors of `name`, nearest first; empty for roots and for broken chains."""
        return guarded_ancestors(self.parents, name) or ()

    def size(self, name: str) -> int:
        """How many agents `subtree` gives, in constant time."""
        place = self.numbering.get(name)
        return 0 if place is None else place[1] - place[0] + 1

    def subtree(self, name: str) -> tuple[str, ...]:
        """`name` and all its descendants, parents before children."""
        place = self.numbering.get(name)
        return () if place is None else self.order[place[0] - 1 : place[1]]
