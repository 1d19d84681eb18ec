"""One immutable snapshot of the hive: the tree and every agent's spec at one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType

from hive_core.errors import AlreadyExists, InvalidArgument, NotFound
from hive_core.model.agents.agent import AgentSpec, Profile
from hive_core.model.agents.topology import DEPTH_LIMIT, Parents, Topology
from hive_core.model.names import name_fault, short


@dataclass(frozen=True)
class Hive:
    """Topology and specs have the same names; `validate` refuses anything else.

    `lock`: the contents of flake.lock, so that the inputs of all systems are part of the snapshot.
    """

    commit: str = ""
    topology: Topology = field(default_factory=Topology)
    specs: Mapping[str, AgentSpec] = field(default_factory=lambda: MappingProxyType({}))
    depth_limit: int = DEPTH_LIMIT
    lock: bytes = b""

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Name by UUID text."""
        return {spec.id: name for name, spec in self.specs.items()}

    @cached_property
    def identity_cache(self) -> dict[str, object]:
        """Answers about the agents themselves, computed once for each snapshot."""
        return {}

    @cached_property
    def short_ids(self) -> frozenset[str]:
        """Every short id in use."""
        return frozenset(short(uuid) for uuid in self.names)

    @cached_property
    def lock_hash(self) -> str:
        """The hash that an approval is bound to; empty where no inputs are locked."""
        return sha256(self.lock).hexdigest() if self.lock else ""

    def spec(self, name: str) -> AgentSpec:
        if name not in self.specs:
            raise NotFound(f"no such agent: {name}", agent=name)
        return self.specs[name]

    def name(self, uuid: str) -> str | None:
        return self.names.get(uuid)

    def built_in_agent(self, profile: Profile) -> str | None:
        """The one agent of this host that is the queen, or the maid."""
        names = (name for name, spec in self.specs.items() if spec.profile is profile)
        return next(names, None)

    def path(self, name: str) -> tuple[str, ...]:
        """Short ids from the root down to `name`: its place on disk."""
        chain = (*reversed(self.topology.lineage(name)), name)
        return tuple(self.specs[agent].short for agent in chain)

    def at_commit(self, commit: str) -> Hive:
        """The same hive as it stands in `commit`."""
        return self._hand_on_caches(replace(self, commit=commit), self.names)

    def validate(self) -> Hive:
        """The valid hive, or InvalidArgument that names the first broken rule."""
        if self._is_valid:
            return self
        if self.topology.parents.keys() != self.specs.keys():
            odd = min(self.topology.parents.keys() ^ self.specs.keys())
            reason = f"{odd} is not in both topology.json and agents/"
            raise InvalidArgument(reason, field="topology")
        shorts: dict[str, str] = {}
        for name, spec in self.specs.items():
            if fault := name_fault(name):
                raise InvalidArgument(f"the name {name!r} {fault}", field="name")
            if other := shorts.get(spec.short):
                raise InvalidArgument(f"{name} and {other} share a short id", field="uuid")
            shorts[spec.short] = name
        _check_built_in(self.specs)
        topology = Topology.forest(self.topology.parents, self.depth_limit)
        valid = replace(self, topology=topology)
        valid.__dict__["checked"] = True
        return valid

    @property
    def _is_valid(self) -> bool:
        """Whether it came from a valid hive by the methods below only, which keep it valid."""
        return "checked" in self.__dict__

    def with_agent(self, name: str, parent: str | None, spec: AgentSpec) -> Hive:
        """The hive with a new agent, whose name and short id must be free."""
        if fault := name_fault(name):
            raise InvalidArgument(f"the name {name!r} {fault}", field="name")
        if spec.profile is not None and (other := self.built_in_agent(spec.profile)) is not None:
            raise AlreadyExists(f"a {spec.profile} exists already: {other}", agent=other)
        if name in self.specs:
            raise AlreadyExists(f"the name {name} is taken", agent=name)
        if spec.short in self.short_ids:
            raise InvalidArgument(f"the short id {spec.short} is taken", field="uuid")
        parents = {**self.topology.parents, name: parent}
        names = {**self.names, spec.id: name}
        return self._with(parents, {**self.specs, name: spec}, names)

    def with_spec(self, name: str, spec: AgentSpec) -> Hive:
        """The same tree with another spec for `name`; the UUID may not change."""
        if self.spec(name).uuid != spec.uuid:
            raise InvalidArgument(f"the uuid of {name} cannot change", field="uuid")
        specs = MappingProxyType({**self.specs, name: spec})
        return self._hand_on_caches(replace(self, specs=specs), self.names)

    def with_lock(self, lock: bytes) -> Hive:
        """The same agents with other inputs."""
        return self._hand_on_caches(replace(self, lock=lock), self.names)

    def with_parent(self, name: str, parent: str | None) -> Hive:
        """The hive with `name` and its descendants under `parent` (None makes it a root)."""
        self.spec(name)
        parents = {**self.topology.parents, name: parent}
        topology = Topology.forest(parents, self.depth_limit)
        return self._hand_on_caches(replace(self, topology=topology), self.names)

    def without(self, *names: str) -> Hive:
        """The hive without these agents.

        Their children go to the nearest remaining ancestor (row K9).
        """
        gone = set(names)
        parents = {
            name: self._adopter(name, gone) if parent in gone else parent
            for name, parent in self.topology.parents.items()
            if name not in gone
        }
        specs = {name: spec for name, spec in self.specs.items() if name not in gone}
        remaining = {uuid: name for uuid, name in self.names.items() if name not in gone}
        return self._with(parents, specs, remaining)

    def _adopter(self, name: str, gone: set[str]) -> str | None:
        return next(
            (ancestor for ancestor in self.topology.lineage(name) if ancestor not in gone), None
        )

    def _with(
        self, parents: Parents, specs: Mapping[str, AgentSpec], names: Mapping[str, str]
    ) -> Hive:
        topology = Topology.forest(parents, self.depth_limit)
        return self._hand_on_caches(
            replace(self, topology=topology, specs=MappingProxyType(specs)), names
        )

    def _hand_on_caches(self, hive: Hive, names: Mapping[str, str]) -> Hive:
        """Copy computed values: to compute them again costs more than the change itself."""
        hive.__dict__["names"] = names
        if self._is_valid:
            hive.__dict__["checked"] = True
        return hive


def _check_built_in(specs: Mapping[str, AgentSpec]) -> None:
    """Allow one agent of each profile, also when agents are declared by a manual commit."""
    by_profile: dict[Profile, str] = {}
    for name, spec in specs.items():
        if spec.profile is None:
            continue
        if other := by_profile.get(spec.profile):
            raise InvalidArgument(f"{other} and {name} are both a {spec.profile}", field="profile")
        by_profile[spec.profile] = name


def branch_top(hive: Hive, name: str) -> str:
    """The child of a root that the agent is or hangs below; a root is a branch by itself."""
    chain = (name, *hive.topology.lineage(name))
    return chain[-2] if len(chain) > 1 else name
