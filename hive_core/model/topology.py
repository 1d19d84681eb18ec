"""The declared tree: name -> parent or null, and who is whose ancestor.

The numbering answers in constant time at any depth. The guarded walk is its reference; both give
an agent on a cycle, below one, or with an unknown parent no ancestors and no descendants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Self

from hive_core.errors import InvalidArgument

DEPTH_LIMIT = 32
Parents = Mapping[str, str | None]


def walk(parents: Parents, name: str) -> tuple[str, ...] | None:
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


@dataclass(frozen=True, slots=True)
class Interval:
    """Place in a depth-first numbering: descendants have numbers in (enter, leave]."""

    enter: int
    leave: int
    depth: int


@dataclass(frozen=True)
class Topology:
    """One snapshot of the tree. Build it with `Topology.forest`, which refuses non-forests."""

    parents: Parents = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def forest(cls, parents: Parents, depth_limit: int = DEPTH_LIMIT) -> Self:
        """The topology, or InvalidArgument that names the first agent that breaks a rule."""
        found = cls(MappingProxyType(dict(parents)))
        for name, parent in parents.items():
            found._check(name, parent, depth_limit)
        return found

    def _check(self, name: str, parent: str | None, depth_limit: int) -> None:
        if parent == name:
            raise InvalidArgument(f"{name} is its own parent", field="parent")
        if parent is not None and parent not in self.parents:
            raise InvalidArgument(f"parent {parent} of {name} is unknown", field="parent")
        place = self.numbering.get(name)
        if place is None:
            raise InvalidArgument(f"{name} is on or below a cycle", field="parent")
        if place.depth > depth_limit:
            reason = f"{name} would be deeper than {depth_limit} levels"
            raise InvalidArgument(reason, field="parent")

    @cached_property
    def kids(self) -> Mapping[str | None, tuple[str, ...]]:
        """Children by parent (None: the roots), in name order."""
        found: dict[str | None, list[str]] = {}
        for name in sorted(self.parents):
            found.setdefault(self.parents[name], []).append(name)
        return {parent: tuple(names) for parent, names in found.items()}

    @cached_property
    def numbering(self) -> Mapping[str, Interval]:
        """Intervals of every agent that hangs on a root; nobody else has one."""
        places: dict[str, Interval] = {}
        enters: dict[str, tuple[int, int]] = {}
        stack: list[tuple[str, int, bool]] = [(r, 1, False) for r in reversed(self.roots)]
        count = 0
        while stack:
            name, depth, done = stack.pop()
            if done:
                enter, depth = enters[name]
                places[name] = Interval(enter, count, depth)
                continue
            count += 1
            enters[name] = (count, depth)
            stack.append((name, depth, True))
            stack.extend((kid, depth + 1, False) for kid in reversed(self.children(name)))
        return places

    @property
    def roots(self) -> tuple[str, ...]:
        return self.kids.get(None, ())

    def __contains__(self, name: object) -> bool:
        return name in self.parents

    def __iter__(self) -> Iterator[str]:
        return iter(self.parents)

    def __len__(self) -> int:
        return len(self.parents)

    def parent(self, name: str) -> str | None:
        return self.parents[name]

    def children(self, name: str) -> tuple[str, ...]:
        return self.kids.get(name, ())

    def is_ancestor(self, ancestor: str, name: str) -> bool:
        """Strict: nobody is an ancestor of itself."""
        above, below = self.numbering.get(ancestor), self.numbering.get(name)
        return above is not None and below is not None and above.enter < below.enter <= above.leave

    def are_siblings(self, one: str, other: str) -> bool:
        """Two agents under one parent. Roots are not siblings."""
        parent = self.parents.get(one)
        return one != other and parent is not None and parent == self.parents.get(other)

    def lineage(self, name: str) -> tuple[str, ...]:
        """Ancestors of `name`, nearest first; empty for roots and for broken chains."""
        return walk(self.parents, name) or ()

    def size(self, name: str) -> int:
        """How many agents `subtree` gives, in constant time."""
        place = self.numbering.get(name)
        return 0 if place is None else place.leave - place.enter + 1

    def subtree(self, name: str) -> tuple[str, ...]:
        """`name` and all its descendants, parents before children."""
        if name not in self.numbering:
            return ()
        found, stack = [], [name]
        while stack:
            at = stack.pop()
            found.append(at)
            stack.extend(reversed(self.children(at)))
        return tuple(found)
