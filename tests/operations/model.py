"""The simplest thing that could be a hive: names, parents, letters. Nothing is fast or durable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

OPERATOR = "operator"
NOT_ALLOWED, NOT_FOUND, INVALID = "NotAllowed", "NotFound", "InvalidArgument"
FULL, TAKEN = "LimitReached", "AlreadyExists"


@dataclass
class Letter:
    """`attempts` counts how often it was given; `ends` is the end of its lease."""

    id: str
    sender: str
    body: str
    attempts: int = 0
    ends: float = 0.0


@dataclass
class Model:
    """Agents by name; everything that lasts is kept by UUID."""

    children: int
    parents: dict[str, str | None] = field(default_factory=dict)
    uuids: dict[str, str] = field(default_factory=dict)
    boxes: dict[str, list[Letter]] = field(default_factory=dict)
    allowed: set[tuple[str, str]] = field(default_factory=set)
    archives: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def above(self, name: str) -> Iterator[str]:
        parent = self.parents[name]
        while parent is not None:
            yield parent
            parent = self.parents[parent]

    def is_above(self, caller: str, target: str) -> bool:
        return caller in self.above(target)

    def below(self, name: str) -> set[str]:
        return {parent for parent in self.parents if self.is_above(name, parent)}

    def siblings(self, one: str, other: str) -> bool:
        parent = self.parents[one]
        return one != other and parent is not None and parent == self.parents[other]

    def sees(self, caller: str, target: str) -> bool:
        if OPERATOR in (caller, target):
            return True
        return (
            caller == target or self.is_above(caller, target) or self.is_above(target, caller)
            or self.siblings(caller, target)
            or (self.uuids[caller], self.uuids[target]) in self.allowed
        )  # fmt: skip

    def may_rule(self, caller: str, target: str) -> str:
        """start, stop, destroy: a strict ancestor or the operator."""
        if not self.sees(caller, target):
            return NOT_FOUND
        return "" if caller == OPERATOR or self.is_above(caller, target) else NOT_ALLOWED

    def may_spawn(self, caller: str, parent: str, name: str) -> str:
        if not self.sees(caller, parent):
            return NOT_FOUND
        if caller not in (OPERATOR, parent) and not self.is_above(caller, parent):
            return NOT_ALLOWED
        if name in self.parents:
            return TAKEN
        return FULL if caller != OPERATOR and self.is_full(parent) else ""

    def may_move(self, caller: str, name: str, parent: str) -> str:  # noqa: PLR0911 - a list
        if not (self.sees(caller, name) and self.sees(caller, parent)):
            return NOT_FOUND
        if name == parent or self.is_above(name, parent):
            return NOT_ALLOWED
        if caller == OPERATOR:
            return ""
        over_both = caller == parent or self.is_above(caller, parent)
        if not (self.is_above(caller, name) and over_both):
            return NOT_ALLOWED
        return FULL if self.parents[name] != parent and self.is_full(parent) else ""

    def may_send(self, caller: str, to: str) -> str:
        if not self.sees(caller, to):
            return NOT_FOUND
        if OPERATOR in (caller, to) or to == caller or self.parents[caller] == to:
            return ""
        near = self.is_above(caller, to) or self.siblings(caller, to)
        listed = (self.uuids[caller], self.uuids[to]) in self.allowed
        return "" if near or listed else NOT_ALLOWED

    def is_full(self, parent: str) -> bool:
        return list(self.parents.values()).count(parent) >= self.children

    def spawn(self, name: str, parent: str | None, uuid: str) -> None:
        self.parents[name] = parent
        self.uuids[name] = uuid
        self.boxes[uuid] = []

    def destroy(self, name: str, *, recursive: bool) -> set[str]:
        gone = {name, *self.below(name)} if recursive else {name}
        heir = self.parents[name]
        for item in gone:
            parent = self.parents[item]
            uuid = self.uuids[item]
            self.archives[uuid] = (item, None if parent is None else self.uuids[parent])
        for agent, parent in list(self.parents.items()):
            if agent not in gone and parent in gone:
                self.parents[agent] = heir
        for item_ in gone:
            del self.parents[item_], self.boxes[self.uuids.pop(item_)]
        return gone

    def restore(self, uuid: str, root: str) -> str:
        name, above = self.archives.pop(uuid)
        names = {known: agent for agent, known in self.uuids.items()}
        self.spawn(name, None if above is None else names.get(above, root), uuid)
        return name

    def ready(self, uuid: str, now: float) -> list[Letter]:
        return [letter for letter in self.boxes[uuid] if letter.ends <= now]
