"""Attack 38, row R14: what was asked before a move or a destroy is judged by the tree after it.

Requests wait in a queue and are served in any order, between spawns, moves and destroys by the
operator. A second, naive hive of plain dictionaries is carried along; nothing may happen in one
that does not happen in the other, and nothing that the naive rules forbid at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import pytest
from fixtures.topologies import Closure, forests, spec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from long import figure, times
from policy.naive import Answer, Naive, Question, decide

from hive_core.model.agents.hive import Hive
from hive_core.policy.rules import ANCESTOR, MOVE, OPERATOR, ROUTE, SPAWN

NAMES = tuple("abcdefgh")  # few, so that they are used again soon (attack 40)
FEWEST = 5  # agents that the operator leaves alive
WAITING = 4  # requests at a time: of a longer queue most callers are dead before their turn
T = TypeVar("T")
RULES = {
    "stop": (ANCESTOR | OPERATOR, "above"),
    "destroy": (ANCESTOR | OPERATOR, "above"),
    "send": (ROUTE, "route"),
    "move": (MOVE, "move"),
    "spawn": (SPAWN, "spawn"),
}


@dataclass(frozen=True)
class Request:
    """As it is queued: the caller by UUID, as the socket knows it; the others by name."""

    caller: str
    operation: str
    target: str
    second: str | None
    allowed_then: bool


places = st.integers(0, 1000)


def pick(among: Sequence[T], place: int) -> T:
    """One of them. Drawing a number, hypothesis can shrink without knowing the state."""
    return among[place % len(among)]


class Races(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hive = Hive()
        self.parents: dict[str, str | None] = {}
        self.uuids: dict[str, str] = {}
        self.born = self.overtaken = 0
        self.queue: list[Request] = []
        self.happened: list[tuple[Hive, Request]] = []

    @initialize(parents=forests(3))
    def there_is_a_tree(self, parents: dict[str, str | None]) -> None:
        for name, parent in parents.items():
            self.spawn(name, parent)

    @rule(name=st.sampled_from(NAMES), place=places)
    def the_operator_spawns(self, name: str, place: int) -> None:
        if name not in self.parents:
            self.spawn(name, pick([*self.parents, None], place))

    @precondition(lambda self: self.parents)
    @rule(one=places, other=places)
    def the_operator_moves(self, one: int, other: int) -> None:
        name, parent = pick([*self.parents], one), pick([*self.parents, None], other)
        if name not in (parent, *Closure(self.parents).above.get(parent or "", ())):
            self.move(name, parent)

    @precondition(lambda self: len(self.parents) > FEWEST)
    @rule(place=places)
    def the_operator_destroys(self, place: int) -> None:
        self.destroy(pick([*self.parents], place))

    @precondition(lambda self: self.parents)
    @rule(one=places, other=places)
    def the_operator_allows(self, one: int, other: int) -> None:
        name, new = pick([*self.parents], one), self.hive.spec(pick([*self.parents], other))
        old = self.hive.spec(name)
        allowing = old.model_copy(update={"allow": (*old.allow, new.uuid)})
        self.hive = self.hive.with_spec(name, allowing)

    @precondition(lambda self: self.parents and len(self.queue) < WAITING)
    @rule(operation=st.sampled_from(sorted(RULES)), one=places, near=places, second=places)
    def an_agent_asks(self, operation: str, one: int, near: int, second: int) -> None:
        """Call as an agent that is usually above the target and has the right at this moment."""
        target = pick([*self.parents], one)
        above = self.hive.topology.lineage(target)
        caller = pick([*above, *above, *above, *self.parents], near)
        new = pick([*self.parents], second) if operation == "move" else None
        then = decide(RULES[operation][0], Question(self.hive, caller, operation, target, new))
        request = Request(self.uuids[caller], operation, target, new, then.allowed)
        self.queue.append(request)

    @precondition(lambda self: self.queue)
    @rule(place=places)
    def a_request_is_served(self, place: int) -> None:
        request = self.queue.pop(place % len(self.queue))
        caller = self.hive.name(request.caller)
        asked = Question(self.hive, caller or "", request.operation, request.target, request.second)
        allow, naive = RULES[request.operation]
        decision = decide(allow, asked)
        assert decision.allowed == (Naive(self.hive).answer(naive, asked) is Answer.ALLOWED)
        if decision.allowed:
            assert caller in self.parents
            assert self.uuids[caller or ""] == request.caller
            self.happened.append((self.hive, request))
            self.act(request)
        self.overtaken += request.allowed_then and not decision.allowed

    def act(self, request: Request) -> None:
        if request.operation == "destroy":
            self.destroy(request.target)
        if request.operation == "move":
            self.move(request.target, request.second)
        unused = [name for name in NAMES if name not in self.parents]
        if request.operation == "spawn" and unused:
            self.spawn(unused[0], request.target)

    def spawn(self, name: str, parent: str | None) -> None:
        self.born += 1
        new = spec(self.born)
        self.hive = self.hive.with_agent(name, parent, new)
        self.parents[name], self.uuids[name] = parent, new.id

    def move(self, name: str, parent: str | None) -> None:
        self.hive = self.hive.with_parent(name, parent)
        self.parents[name] = parent

    def destroy(self, name: str) -> None:
        self.hive = self.hive.without(name)
        heir = self.parents.pop(name)
        del self.uuids[name]
        for value, parent in self.parents.items():
            self.parents[value] = heir if parent == name else parent

    @invariant()
    def both_hives_are_the_same_and_valid(self) -> None:
        assert self.hive.validate().topology.parents == self.parents
        assert self.hive.names == {uuid: name for name, uuid in self.uuids.items()}

    @invariant()
    def every_effect_was_allowed_in_the_snapshot_it_happened_in(self) -> None:
        """Said once more from the outside, with nothing but parent pointers."""
        for before, request in self.happened[-1:]:
            caller = before.name(request.caller)
            above = Closure(before.topology.parents).ancestors(request.target)
            if request.operation in ("stop", "destroy", "move"):
                assert caller in above
            if request.operation == "spawn":
                assert caller in {*above, request.target}


SCHEDULES = times(1_000, 100_000)
STEPS = 20

Races.TestCase.settings = settings(
    max_examples=times(50, 2_000), stateful_step_count=60, deadline=None
)
TestRaces = pytest.mark.sized(Races.TestCase)


@pytest.mark.sized
def test_many_schedules_in_which_requests_are_overtaken_by_a_change() -> None:
    """Row R14: the same machine on seeded schedules, so that it is known what was reached."""
    happened = overtaken = 0
    for number in range(SCHEDULES):
        race = Races()
        race.there_is_a_tree({"a": None, "b": "a", "c": "b", "d": "b", "e": "a"})
        _play(race, Random(number))  # noqa: S311 - the same schedules every time
        happened += len(race.happened)
        overtaken += race.overtaken
    figure("R14 schedules", schedules=SCHEDULES, effects=happened, overtaken=overtaken)
    assert happened > 2 * SCHEDULES
    assert overtaken > SCHEDULES // 10


def _play(race: Races, random: Random) -> None:
    def number() -> int:
        return random.randint(0, 1000)

    for _ in range(STEPS):
        kind = random.randint(0, 9)
        if kind == 0:
            race.the_operator_spawns(random.choice(NAMES), number())
        elif kind == 1:
            race.the_operator_moves(number(), number())
        elif kind == 2 and len(race.parents) > FEWEST:
            race.the_operator_destroys(number())
        elif kind <= 6 and len(race.queue) < WAITING:
            race.an_agent_asks(random.choice(sorted(RULES)), number(), number(), number())
        elif race.queue:
            race.a_request_is_served(number())
        race.both_hives_are_the_same_and_valid()
        race.every_effect_was_allowed_in_the_snapshot_it_happened_in()
