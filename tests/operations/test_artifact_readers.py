"""Readers of artifacts, under any course of spawns, moves, ends and stores, against an oracle.

The oracle keeps for each agent the set of those that it is or was below and that are gone: it goes
down the tree, where the ledger goes up.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from fixtures.world import World, names, world
from long import figure, seed, times

VISIBILITIES = ("private", "subtree", "user")
_MOST = 9


@dataclass
class Kept:
    """An artifact as the oracle remembers it."""

    owner: str
    visibility: str
    then: tuple[str, ...]  # who was above the owner


@dataclass
class Oracle:
    """Agents by UUID. `ghosts`: the destroyed former ancestors of each."""

    parents: dict[str, str | None] = field(default_factory=dict)
    ghosts: dict[str, set[str]] = field(default_factory=dict)
    artifacts: dict[str, Kept] = field(default_factory=dict)

    def line(self, uuid: str) -> list[str]:
        """It, its parent, and so on."""
        rows, at = [], str(uuid)
        while at:
            rows.append(at)
            at = self.parents[at] or ""
        return rows

    def spawn(self, uuid: str, parent: str | None) -> None:
        self.parents[uuid], self.ghosts[uuid] = parent, set()

    def destroy(self, uuid: str) -> None:
        above = self.parents.pop(uuid)
        left = self.ghosts.pop(uuid) | {uuid}
        for child, parent in self.parents.items():
            if parent == uuid:
                self.parents[child] = above
                self.ghosts[child] |= left

    def store(self, id_: str, owner: str, visibility: str) -> None:
        self.artifacts[id_] = Kept(owner, visibility, tuple(self.line(owner)[1:]))

    def reads(self, uuid: str) -> set[str]:
        line = self.line(uuid)
        under = set(line).union(*(self.ghosts[item] for item in line))
        rows = set()
        for id_, value in self.artifacts.items():
            root = value.then[-1] if value.then else value.owner
            seen = {
                "private": False,
                "subtree": uuid in value.then or value.owner in under,
                "user": root in under,
            }[value.visibility]
            if seen or uuid == value.owner:
                rows.add(id_)
        return rows


@dataclass
class Course:
    """Random steps, done to both."""

    hive: World
    chance: random.Random
    oracle: Oracle = field(default_factory=Oracle)
    count: int = 0

    def agents(self) -> list[str]:
        return [item for item in self.hive.hive.topology.order if item != "root"]

    def spawn(self) -> None:
        if len(self.agents()) >= _MOST:
            return
        self.count += 1
        name = f"a{self.count}"
        parent = self.chance.choice(["", "root", *self.agents()])
        self.hive.call("operator", "spawn", name=name, parent=parent)
        self.oracle.spawn(self.hive.uuid(name), self.hive.uuid(parent) if parent else None)

    def move(self) -> None:
        name = self.chance.choice(self.agents())
        parent = self.chance.choice(["", "root", *self.agents()])
        if self.hive.fault("operator", "move", agent=name, parent=parent) == "":
            above = self.hive.uuid(parent) if parent else None
            self.oracle.parents[self.hive.uuid(name)] = above

    def destroy(self) -> None:
        name = self.chance.choice(self.agents())
        uuid = self.hive.uuid(name)
        self.hive.call("operator", "destroy", agent=name)
        self.oracle.destroy(uuid)

    def store(self) -> None:
        name = self.chance.choice(["root", *self.agents()])
        visibility = self.chance.choice(VISIBILITIES)
        self.count += 1
        stored = self.hive.call(
            name, "store_artifact", name=f"n{self.count}", text="x", visibility=visibility
        )  # fmt: skip
        self.oracle.store(str(stored["id"]), self.hive.uuid(name), visibility)

    def step(self) -> None:
        doing = self.chance.choice((self.spawn, self.store, self.store, self.move, self.destroy))
        if self.agents() or doing in (self.spawn, self.store):
            doing()

    def check(self) -> None:
        for name in ("root", *self.agents()):
            page = self.hive.call(name, "list_artifacts", limit=1000)
            result = {str(name) for name in names(page["artifacts"], "id")}
            assert result == self.oracle.reads(self.hive.uuid(name)), name


@pytest.mark.sized
def test_readers_are_those_of_an_oracle() -> None:
    number, cases = seed(), times(6, 120)
    for case in range(cases):
        with world() as hive:
            course = Course(hive, random.Random(number + case))  # noqa: S311 - no secret
            course.oracle.spawn(hive.uuid("root"), None)
            for _ in range(4):
                course.spawn()
            for _ in range(10):
                for _ in range(3):
                    course.step()
                course.check()
    figure("readers of artifacts", cases=cases, seed=number)
