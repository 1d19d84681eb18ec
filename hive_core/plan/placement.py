"""Where every agent of one snapshot belongs: its node, its slice, and what it sees.

Built once per commit in one walk; an agent that did not change keeps its object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple, Self

from hive_core.model.agents.agent import AgentSpec, SubtreeLimits
from hive_core.model.agents.agent import Limits as SpecLimits
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import NIX_IMAGE, Settings
from hive_core.model.names import slice_unit
from hive_core.plan.actions import UnitLimits
from hive_core.plan.render import STORES

# A unit name holds 255 characters, and each level costs nine.
# https://www.freedesktop.org/software/systemd/man/latest/systemd.unit.html
NESTED_LIMITS = 26
_OF_FILES = {"disk", "inodes"}  # limits that no unit can enforce


class DiskBounds(NamedTuple):
    """Limits for the files of one agent, in bytes and in number; None: no limit."""

    disk: int | None = None
    inodes: int | None = None


@dataclass(frozen=True)
class Placement:
    """One agent of the snapshot.

    `identity` and `view` are hashes: equal hashes mean equal content. `slice` holds the short ids
    of the ancestors, and of the agent itself, that have a limit for their subtree. `carries`: this
    agent has one.
    """

    name: str
    uuid: str
    spec: AgentSpec
    parent: str | None
    children: tuple[str, ...]
    lineage: tuple[str, ...]
    slice: tuple[str, ...]
    slice_unit: str
    carries: bool
    limits: UnitLimits
    disk_bounds: DiskBounds
    image: str
    spec_hash: str
    identity: int
    view: int

    @cached_property
    def config(self) -> str:
        """The commit that the agent sees in `/run/hive/config`; empty: none."""
        return self.spec.config or ""

    @property
    def boots(self) -> bool:
        """Whether an init runs inside the container; an init can mount."""
        return self.spec.boot or self.image == NIX_IMAGE

    @cached_property
    def stores(self) -> frozenset[str]:
        """The repositories of hived that the agent may see: `meta`, `applied`."""
        return frozenset(store for store in STORES if f"{store}.read" in self.spec.capabilities)

    @property
    def document(self) -> dict[str, object]:
        """The content of `/run/hive/identity.json` in the container."""
        return {
            "name": self.name,
            "uuid": self.uuid,
            "parent": self.parent,
            "role": self.spec.role.value,
            "title": self.spec.title,
            "capabilities": list(self.spec.capabilities),
            "children": list(self.children),
        }


def merge_limits(limits: SpecLimits, defaults: SpecLimits) -> UnitLimits:
    """The agent's own limits, with the host's defaults for the others."""
    own = limits.model_dump(exclude_none=True, exclude=_OF_FILES)
    return UnitLimits(**{**defaults.model_dump(exclude_none=True, exclude=_OF_FILES), **own})


def disk_bounds(limits: SpecLimits, defaults: SpecLimits) -> DiskBounds:
    """The limits for the agent's files: its own, with the host's defaults for the others."""
    bounds = (getattr(limits, field) or getattr(defaults, field) for field in ("disk", "inodes"))
    return DiskBounds(*bounds)


def image_label(image: str) -> str:
    """The name of an image; an image that the operator gave as a path is named by its digest."""
    return f"tree-{sha256(image.encode()).hexdigest()[:16]}" if "/" in image else image


def hash_of(spec: AgentSpec, image: str, limits: UnitLimits) -> str:
    """A short digest of everything that a running unit was started with."""
    # Earlier versions called the class `Limits`; another text would report every agent as changed.
    text = repr(limits).replace(UnitLimits.__name__, "Limits", 1)
    parts = [spec.boot, image, list(spec.program), text]
    return sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Placements:
    """All places of a snapshot by UUID, parents before children."""

    hive: Hive
    by_uuid: Mapping[str, Placement]

    @classmethod
    def build(cls, hive: Hive, settings: Settings, before: Self | None = None) -> Self:
        """The place of every agent: path, unit, limits. What did not change is of `before`."""
        return cls(
            hive, _PlacementBuilder(hive, settings, before.by_uuid if before else {}).places()
        )

    def by_name(self, name: str) -> Placement:
        return self.by_uuid[self.hive.specs[name].id]

    def above(self, uuid: str) -> Iterator[Placement]:
        """Ancestors, nearest first."""
        parent = self.by_uuid[uuid].parent
        while parent is not None:
            place = self.by_name(parent)
            yield place
            parent = place.parent

    def links(self, uuid: str) -> Iterator[tuple[str, str]]:
        """The symlinks below `/agents` in the container: name and target."""
        own = self.by_uuid[uuid]
        depth = len(own.lineage)
        for name in self.hive.topology.subtree(own.name):
            below = self.by_name(name).lineage[depth:]
            yield name, "/".join(("/tree", *(f"kids/{short}" for short in below)))


class _PlacementBuilder:
    """One walk over a snapshot."""

    def __init__(self, hive: Hive, settings: Settings, before: Mapping[str, Placement]) -> None:
        self._hive = hive
        self._settings = settings
        self._before = before
        self._views: dict[str, int] = {}

    def places(self) -> dict[str, Placement]:
        topology = self._hive.topology
        order = [name for root in topology.roots for name in topology.subtree(root)]
        ids = {name: uuid for uuid, name in self._hive.names.items()}
        for name in reversed(order):
            kids = (self._views[kid] for kid in topology.children(name))
            self._views[name] = hash((name, ids[name], *kids))
        places: dict[str, Placement] = {}
        for name in order:
            parent = topology.parents[name]
            above = places[ids[parent]] if parent is not None else None
            places[ids[name]] = self._place(name, ids[name], above)
        return places

    def _place(self, name: str, uuid: str, above: Placement | None) -> Placement:
        spec, old = self._hive.specs[name], self._before.get(uuid)
        kids = self._hive.topology.children(name)
        parent = above.name if above else None
        known = (
            old is not None and old.spec is spec and old.name == name and old.parent == parent
            and old.children == kids and old.view == self._views[name]
            and old.lineage[:-1] == (above.lineage if above else ())
            and old.slice[: len(above.slice) if above else 0] == (above.slice if above else ())
        )  # fmt: skip
        if known and old is not None:
            return old
        return self._new(name, uuid, spec, above)

    def _new(self, name: str, uuid: str, spec: AgentSpec, above: Placement | None) -> Placement:
        parent, kids = above.name if above else None, self._hive.topology.children(name)
        path, part = above.slice if above else (), uuid[:8]
        carries = has_subtree_limits(spec) and len(path) < NESTED_LIMITS
        if carries:
            path = (*path, part)
        image = image_label(spec.image)
        limits = merge_limits(spec.limits, self._settings.agent_limits)
        return Placement(
            name=name, uuid=uuid, spec=spec, parent=parent, children=kids,
            lineage=(*(above.lineage if above else ()), part),
            slice=path, slice_unit=slice_unit(path), carries=carries, limits=limits,
            disk_bounds=disk_bounds(spec.limits, self._settings.agent_limits), image=image,
            spec_hash=hash_of(spec, image, limits),
            identity=hash((name, parent, spec.role, spec.title, spec.capabilities, kids)),
            view=self._views[name],
        )  # fmt: skip


def subtree_limits(limits: SubtreeLimits | None) -> UnitLimits:
    """The limits of the slice of a subtree."""
    own = limits or SubtreeLimits()
    return UnitLimits(memory_max=own.memory_max, tasks_max=own.tasks_max, cpu_quota=own.cpu_quota)


def has_subtree_limits(spec: AgentSpec) -> bool:
    """Whether a unit enforces any limit for the subtree of the agent."""
    return spec.subtree is not None and subtree_limits(spec.subtree) != UnitLimits()


def limits_of(limits: UnitLimits) -> dict[str, int]:
    """Limits under the names that `Observed.slices` and `Machine.properties` use."""
    pairs = ((field.name, getattr(limits, field.name)) for field in fields(limits))
    return {key: value for key, value in pairs if value is not None}
