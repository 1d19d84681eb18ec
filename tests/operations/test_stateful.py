"""The real broker against a simple model, call after call in any order."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from typing import cast

import pytest
from fixtures.hive_model import OPERATOR, TAKEN, Letter, Model
from fixtures.world import World, names, rows, world
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from long import times
from typing_extensions import override

from hive_core.model.config.settings import HostLimits, Settings

NAMES = tuple("abcdefg")
CHILDREN, ATTEMPTS, LEASE = 3, 3, 60.0
DATA = st.data()


class Hives(RuleBasedStateMachine):
    """Effects and refusals must be the model's; what lasts must agree with it after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        bounds = HostLimits(children=CHILDREN, attempts=ATTEMPTS)
        self.world: World = self.stack.enter_context(world(Settings(limits=bounds)))
        self.model = Model(CHILDREN)
        self.model.spawn("root", None, self.world.uuid("root"))
        self.model.boxes[OPERATOR] = []
        self.serial = count(1)
        # What changes with a commit only is looked at once for each.
        self.read_back = set[str]()
        self.shown = ""

    @override
    def teardown(self) -> None:
        assert self.world.ledger.events.verify() is None
        self.stack.close()

    @initialize(parents=st.lists(st.sampled_from(("root", *NAMES)), min_size=7, max_size=7))
    def grow(self, parents: list[str]) -> None:
        """Begin with a tree, not with a root alone."""
        for name, parent in zip(NAMES, parents, strict=True):
            if parent in self.model.parents:
                self.make(OPERATOR, parent, name)

    def agent(self, data: st.DataObject, label: str) -> str:
        return data.draw(st.sampled_from(sorted(self.model.parents)), label)

    def anybody(self, data: st.DataObject, label: str) -> str:
        return data.draw(st.sampled_from([*sorted(self.model.parents), OPERATOR]), label)

    def party(self, name: str) -> str:
        return OPERATOR if name == OPERATOR else self.model.uuids[name]

    @rule(data=DATA, name=st.sampled_from(NAMES))
    def spawn(self, data: st.DataObject, name: str) -> None:
        self.make(self.anybody(data, "caller"), self.agent(data, "parent"), name)

    def make(self, caller: str, parent: str, name: str) -> None:
        expected = self.model.may_spawn(caller, parent, name)
        assert self.world.fault(caller, "spawn", name=name, parent=parent) == expected
        if not expected:
            uuid = self.world.uuid(name)
            assert uuid not in self.model.archives
            self.model.spawn(name, parent, uuid)

    @rule(data=DATA)
    def move(self, data: st.DataObject) -> None:
        caller, name = self.anybody(data, "caller"), self.agent(data, "agent")
        parent = self.agent(data, "parent")
        expected = self.model.may_move(caller, name, parent)
        assert self.world.fault(caller, "move", agent=name, parent=parent) == expected
        if not expected:
            self.model.parents[name] = parent

    @rule(data=DATA, recursive=st.booleans())
    def destroy(self, data: st.DataObject, recursive: bool) -> None:  # noqa: FBT001
        caller, name = self.anybody(data, "caller"), self.agent(data, "agent")
        if name == "root":
            return
        expected = self.model.may_rule(caller, name)
        assert self.world.fault(caller, "destroy", agent=name, recursive=recursive) == expected
        if not expected:
            self.model.destroy(name, recursive=recursive)

    @precondition(lambda self: self.model.archives)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        # By age, not by UUID: those are drawn by nobody and differ from run to run.
        number = data.draw(st.integers(0, len(self.model.archives) - 1), "archive")
        uuid = list(self.model.archives)[number]
        name = self.model.archives[uuid][0]
        expected = TAKEN if name in self.model.parents else ""
        assert self.world.fault(OPERATOR, "restore", id=uuid) == expected
        if not expected:
            self.model.restore(uuid, "root")

    @rule(data=DATA, verb=st.sampled_from(("start", "stop", "kill", "restart")))
    def rule_over(self, data: st.DataObject, verb: str) -> None:
        caller, name = self.anybody(data, "caller"), self.agent(data, "agent")
        expected = self.model.may_rule(caller, name)
        assert self.world.fault(caller, verb, agent=name) == expected

    @rule(data=DATA, word=st.sampled_from(("allow", "allow", "disallow")))
    def list_or_not(self, data: st.DataObject, word: str) -> None:
        name, other = self.agent(data, "agent"), self.agent(data, "other")
        if name == other:
            return
        self.world.call(OPERATOR, word, agent=name, other=other)
        pair = (self.model.uuids[name], self.model.uuids[other])
        (self.model.allowed.add if word == "allow" else self.model.allowed.discard)(pair)

    @rule(data=DATA)
    def send(self, data: st.DataObject) -> None:
        sender, to = self.anybody(data, "sender"), self.anybody(data, "to")
        body = f"letter {next(self.serial)}"
        expected = self.model.may_send(sender, to)
        if expected:
            assert self.world.fault(sender, "send", to=to, body=body) == expected
            return
        reply = self.world.call(sender, "send", to=to, body=body)
        letter = Letter(str(reply["id"]), self.party(sender), body)
        self.model.boxes[self.party(to)].append(letter)

    @rule(data=DATA, most=st.integers(0, 3))
    def receive(self, data: st.DataObject, most: int) -> None:
        """Letters of the daemon come between; each is given with one more attempt."""
        name = self.with_mail(data)
        now = self.world.clock.now()
        ready = self.model.ready(self.party(name), now)
        result = rows(self.world.call(name, "recv", max=100)["messages"])
        answer = [row for row in result if row["from_uuid"] != "daemon"]
        assert [row["body"] for row in answer] == [letter.body for letter in ready]
        for letter, row in zip(ready, answer, strict=True):
            letter.attempts += 1
            letter.ends = now + LEASE
            assert (row["attempt"], row["from_uuid"]) == (letter.attempts, letter.sender)
        done = [str(row["id"]) for row in result if row["from_uuid"] == "daemon"]
        self.finish(name, [*done, *(letter.id for letter in ready[:most])])

    def finish(self, name: str, ids: list[str]) -> None:
        if ids:
            assert self.world.call(name, "ack", ids=ids) == {"acked": len(ids)}
        box = self.model.boxes[self.party(name)]
        box[:] = [letter for letter in box if letter.id not in ids]

    def with_mail(self, data: st.DataObject) -> str:
        """An agent that has mail, while there is one."""
        result = [
            name for name in (*sorted(self.model.parents), OPERATOR)
            if self.model.boxes[self.party(name)]
        ]  # fmt: skip
        return data.draw(st.sampled_from(result or ["root"]), "reader")

    @rule(data=DATA)
    def give_back(self, data: st.DataObject) -> None:
        """A message that was delivered three times is dead now; the others are ready again."""
        name = self.with_mail(data)
        box = self.model.boxes[self.party(name)]
        leased = [letter for letter in box if letter.ends > self.world.clock.now()]
        if not leased:
            return
        reply = self.world.call(name, "nack", ids=[letter.id for letter in leased])
        dead = [letter.id for letter in leased if letter.attempts >= ATTEMPTS]
        assert reply["dead"] == dead
        for letter in leased:
            letter.ends = 0.0
        box[:] = [letter for letter in box if letter.id not in dead]

    @rule()
    def let_leases_end(self) -> None:
        """With the sweep that the daemon's timer does."""
        self.world.advance(LEASE + 1)
        now = self.world.clock.now()
        with self.world.ledger.transaction():
            self.world.ledger.messages.expire(now)
        for box in self.model.boxes.values():
            box[:] = [
                letter for letter in box if letter.attempts < ATTEMPTS or letter.ends == 0.0
            ]  # fmt: skip
            for letter in box:
                letter.ends = 0.0

    @invariant()
    def the_tree_is_the_same_everywhere(self) -> None:
        hive = self.world.hive
        assert dict(hive.topology.parents) == self.model.parents
        assert {name: spec.id for name, spec in hive.specs.items()} == self.model.uuids
        assert self.world.ledger.head == hive.commit == self.world.repo.head()

    @invariant()
    def what_git_holds_can_be_read_back(self) -> None:
        if self.world.hive.commit in self.read_back:
            return
        self.read_back.add(self.world.hive.commit)
        stored = self.world.repo.read(self.world.hive.commit)
        assert (stored.topology, dict(stored.specs)) == (
            self.world.hive.topology, dict(self.world.hive.specs),
        )  # fmt: skip

    @invariant()
    def nothing_is_lost_and_nothing_comes_twice(self) -> None:
        for name in (OPERATOR, *self.model.parents):
            result = [row for row in self.world.mail(name) if row["from_uuid"] != "daemon"]
            expected = self.model.boxes[self.party(name)]
            assert [row["id"] for row in result] == [letter.id for letter in expected]

    @invariant()
    def everybody_sees_what_the_model_lets_it_see(self) -> None:
        if self.shown == self.world.hive.commit:
            return
        self.shown = self.world.hive.commit
        for name in self.model.parents:
            result = names(self.world.call(name, "list_agents")["agents"])
            assert set(result) == {
                parent for parent in self.model.parents if self.model.sees(name, parent)
            }

    @invariant()
    def everybody_that_lives_has_a_run_and_a_range(self) -> None:
        runs, ranges = self.world.ledger.runs.all(), self.world.ledger.ranges.all()
        assert set(self.model.uuids.values()) <= runs.keys() & ranges.keys()
        assert len(set(ranges.values())) == len(ranges)


pytestmark = pytest.mark.sized
TestHives = cast("type[RuleBasedStateMachine]", Hives).TestCase
TestHives.settings = settings(
    max_examples=times(12, 60), stateful_step_count=50, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
