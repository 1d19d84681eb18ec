"""One immutable snapshot of the hive: the tree and every agent's spec at one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from hive_core.errors import AlreadyExists, InvalidArgument, NotFound
from hive_core.model.agent import AgentSpec
from hive_core.model.topology import DEPTH_LIMIT, Topology


@dataclass(frozen=True)
class Hive:
    """Topology and specs have the same names; `validated` refuses anything else."""

    commit: str = ""
    topology: Topology = field(default_factory=Topology)
    specs: Mapping[str, AgentSpec] = field(default_factory=lambda: MappingProxyType({}))
    depth_limit: int = DEPTH_LIMIT

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Name by UUID text."""
        return {spec.id: name for name, spec in self.specs.items()}

    def spec(self, name: str) -> AgentSpec:
        if name not in self.specs:
            raise NotFound(f"no agent {name}", agent=name)
        return self.specs[name]

    def name(self, uuid: str) -> str | None:
        return self.names.get(uuid)

    def path(self, name: str) -> tuple[str, ...]:
        """Short ids from the root down to `name`: its place on disk."""
        chain = (*reversed(self.topology.lineage(name)), name)
        return tuple(self.specs[each].short for each in chain)

    def validated(self) -> Hive:
        """Itself, or InvalidArgument that names the first broken rule."""
        if self.topology.parents.keys() != self.specs.keys():
            odd = sorted(self.topology.parents.keys() ^ self.specs.keys())[0]
            reason = f"{odd} is not in both topology.json and agents/"
            raise InvalidArgument(reason, field="topology")
        topology = Topology.forest(self.topology.parents, self.depth_limit)
        shorts: dict[str, str] = {}
        for name, spec in self.specs.items():
            if other := shorts.get(spec.short):
                raise InvalidArgument(f"{name} and {other} share a short id", field="uuid")
            shorts[spec.short] = name
        return replace(self, topology=topology)

    def with_agent(self, name: str, parent: str | None, spec: AgentSpec) -> Hive:
        """A new agent; its name must be free."""
        if name in self.specs:
            raise AlreadyExists(f"the name {name} is taken", agent=name)
        return self._with({**self.topology.parents, name: parent}, {**self.specs, name: spec})

    def with_spec(self, name: str, spec: AgentSpec) -> Hive:
        """The same tree with another spec for `name`; the UUID may not change."""
        if self.spec(name).uuid != spec.uuid:
            raise InvalidArgument(f"the uuid of {name} cannot change", field="uuid")
        return replace(self, specs=MappingProxyType({**self.specs, name: spec}))

    def moved(self, name: str, parent: str | None) -> Hive:
        """`name` and its descendants under `parent` (None makes it a root)."""
        return self._with({**self.topology.parents, name: parent}, dict(self.specs))

    def without(self, *names: str) -> Hive:
        """The agents gone; children that stay go to the nearest ancestor that stays."""
        gone = set(names)
        parents = {}
        for name, parent in self.topology.parents.items():
            if name in gone:
                continue
            heirs = (each for each in self.topology.lineage(name) if each not in gone)
            parents[name] = next(heirs, None) if parent in gone else parent
        return self._with(parents, {n: s for n, s in self.specs.items() if n not in gone})

    def _with(self, parents: Mapping[str, str | None], specs: dict[str, AgentSpec]) -> Hive:
        topology = Topology.forest(parents, self.depth_limit)
        return replace(self, topology=topology, specs=MappingProxyType(specs))
