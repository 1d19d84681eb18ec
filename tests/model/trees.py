"""Random trees and broken trees, and the naive closure that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from uuid import UUID

from hypothesis import strategies as st

from hive_core.model.agents.agent import AgentSpec, Role
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import default_capabilities
from hive_core.model.agents.topology import Topology

Parents = Mapping[str, str | None]
NAMES = tuple("abcdefghijkl")


class Closure:
    """Who is above whom, by adding parents of parents until nothing is added any more."""

    def __init__(self, parents: Parents) -> None:
        self.parents = parents
        self.above = {name: set() if up is None else {up} for name, up in parents.items()}
        while sum(map(self._grow, parents)):
            pass

    def _grow(self, name: str) -> bool:
        before = len(self.above[name])
        for entry in tuple(self.above[name]):
            self.above[name] |= self.above.get(entry, set())
        return len(self.above[name]) > before

    def sound(self, name: str) -> bool:
        """Known, and neither on a cycle, nor below one, nor below somebody unknown."""
        chain = {name, *self.above.get(name, ())}
        return chain <= self.parents.keys() and all(
            entry not in self.above[entry] for entry in chain
        )

    def ancestors(self, name: str) -> set[str]:
        return self.above[name] if self.sound(name) else set()

    def below(self, name: str) -> set[str]:
        return {parent for parent in self.parents if name in self.ancestors(parent)}

    def siblings(self, name: str) -> set[str]:
        parent = self.parents.get(name)
        if parent is None or not self.sound(name):
            return set()
        return {value for value, up in self.parents.items() if up == parent} - {name}


def random_parents(random: Random, names: tuple[str, ...] = NAMES) -> dict[str, str | None]:
    """A forest in shuffled order; in two of three cases something in it is then broken."""
    size = random.randint(1, len(names))
    chosen = random.sample(names, size)
    parents: dict[str, str | None] = {}
    for name in chosen:
        parents[name] = random.choice([None, *parents]) if parents else None
    for _ in range(random.choice((0, 1, 3))):
        parents[random.choice(chosen)] = random.choice([*chosen, "ghost", None])
    return dict(random.sample(sorted(parents.items()), size))


@st.composite
def forests(draw: st.DrawFn, least: int = 1) -> dict[str, str | None]:
    """Valid trees, names in the order in which they were added."""
    parents: dict[str, str | None] = {}
    for name in NAMES[: draw(st.integers(least, len(NAMES)))]:
        parents[name] = draw(st.sampled_from([None, *parents]))
    return parents


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, str | None]:
    """Any map from names to names, unknown ones or None."""
    names = NAMES[: draw(st.integers(0, len(NAMES)))]
    ups = st.sampled_from([None, "ghost", *names])
    return {name: draw(ups) for name in draw(st.permutations(names))}


def uuid(number: int) -> UUID:
    """A UUID whose short id is the number."""
    return UUID(int=number << 96)


def spec(number: int, role: Role = Role.AGENT, **fields: object) -> AgentSpec:
    """A spec with its role's default capabilities, unless told otherwise."""
    usual = {"role": role, "capabilities": default_capabilities(role)}
    return AgentSpec.model_validate({"uuid": uuid(number), **usual, **fields})


def hive_of(parents: Parents, specs: Mapping[str, AgentSpec] | None = None) -> Hive:
    """A snapshot of any graph, unchecked: also of one that could never be committed."""
    usual = {name: spec(number) for number, name in enumerate(parents, 1)}
    return Hive("c0ffee", Topology(dict(parents)), {**usual, **(specs or {})}, 10_000)
