"""The rules once more, in the most literal way there is, over the naive closure."""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import NamedTuple

from fixtures.topologies import Closure, hive_of, random_parents, spec, uuid

from hive_core.model.agents.agent import AgentSpec, Role
from hive_core.model.agents.hive import Hive
from hive_core.policy import decide as policy
from hive_core.policy.rules import AuthzContext, Decision, Rule

OPERATOR = "operator"


class Answer(Enum):
    ALLOWED = "allowed"
    DENIED = "denied"
    UNSEEN = "not found"


class Question(NamedTuple):
    """May `caller` do `operation` to `target` in this snapshot?"""

    hive: Hive
    caller: str
    operation: str
    target: str | None = None
    second: str | None = None
    facts: frozenset[str] = frozenset()


def decide(rule: Rule, question: Question) -> Decision:
    """The policy's answer to it."""
    asked = AuthzContext(question.second, question.facts)
    return policy.decide(rule, question.hive, question.caller, question.target, asked)


class Naive:
    """Answers questions about one snapshot, pair by pair, from the closure alone."""

    def __init__(self, hive: Hive) -> None:
        self.hive = hive
        self.tree = Closure(hive.topology.parents)

    def answer(self, rule: str, question: Question) -> Answer:
        caller, target = question.caller, question.target
        if caller != OPERATOR and not self.tree.sound(caller):
            return Answer.DENIED
        reply = rule == "route" and "reply" in question.facts and self.tree.sound(target or "")
        hidden = [
            entry for entry in (target, question.second) if entry and not self.sees(caller, entry)
        ]
        if hidden and not (reply and hidden == [target] and target != question.second):
            return Answer.UNSEEN
        test = getattr(self, rule)
        return Answer.ALLOWED if test(question) else Answer.DENIED

    def sees(self, caller: str, target: str) -> bool:
        if target == OPERATOR:
            return True
        if caller == OPERATOR:
            return target in self.hive.topology
        if not (self.tree.sound(caller) and self.tree.sound(target)):
            return False
        near = self.near(caller, target) or target in self.tree.ancestors(caller)
        return near or self.is_listed(caller, target)

    def near(self, caller: str, target: str) -> bool:
        return (
            caller == target
            or target in self.tree.siblings(caller)
            or caller in self.tree.ancestors(target)
        )

    def is_listed(self, caller: str, target: str) -> bool:
        specs = self.hive.specs
        return target in specs and specs[target].uuid in specs[caller].allow

    def itself(self, question: Question) -> bool:
        return question.target in (None, question.caller)

    def above(self, question: Question) -> bool:
        target = question.target or ""
        return question.caller == OPERATOR or question.caller in self.tree.ancestors(target)

    def parent(self, question: Question) -> bool:
        target = question.target
        return target is not None and self.hive.topology.parents.get(target) == question.caller

    def below(self, question: Question) -> bool:
        return question.target in self.tree.ancestors(question.caller)

    def beside(self, question: Question) -> bool:
        return question.target in self.tree.siblings(question.caller)

    def anyone(self, question: Question) -> bool:
        return question.operation != ""

    def spawn(self, question: Question) -> bool:
        if question.caller == OPERATOR:
            return True
        here = self.itself(question) or self.above(question)
        return here and "spawn" in self.hive.spec(question.caller).capabilities

    def propose(self, question: Question) -> bool:
        """Row H9."""
        if question.caller == OPERATOR or self.above(question):
            return True
        held = self.hive.spec(question.caller).capabilities
        return self.itself(question) and "config.propose" in held

    def inputs(self, question: Question) -> bool:
        """Row H13."""
        if question.caller == OPERATOR:
            return True
        held = self.hive.spec(question.caller).capabilities
        return "meta.update" in held or "covered" in question.facts

    def move(self, question: Question) -> bool:
        caller, target, new = question.caller, question.target, question.second
        if target is None or target == new or target in self.tree.ancestors(new or ""):
            return False
        if caller == OPERATOR:
            return True
        reaches = new is not None and (caller == new or caller in self.tree.ancestors(new))
        return caller in self.tree.ancestors(target) and reaches

    def route(self, question: Question) -> bool:
        """Row H12, word by word."""
        caller, target = question.caller, question.target or question.caller
        parent = self.hive.topology.parents.get(caller)
        if caller == OPERATOR or target == parent or "reply" in question.facts:
            return True
        sender = self.hive.spec(caller)
        if sender.role is Role.TASK:
            return False
        if target == OPERATOR:
            return "message.operator" in sender.capabilities
        return self.near(caller, target) or self.is_listed(caller, target)


def random_spec(random: Random, number: int, size: int) -> AgentSpec:
    role = random.choice([Role.AGENT, Role.AGENT, Role.WORKER, Role.ARCHITECT, Role.TASK])
    allow = [uuid(random.randint(1, size)) for _ in range(random.choice((0, 0, 2)))]
    return spec(number, role, allow=allow)


def random_hive(random: Random) -> Hive:
    """Any graph with any roles and allow-lists, two of three times with something broken in it."""
    parents = random_parents(random)
    specs = (random_spec(random, number, len(parents)) for number in range(1, len(parents) + 1))
    return hive_of(parents, dict(zip(parents, specs, strict=True)))


def random_question(random: Random, hive: Hive) -> Question:
    names = [*hive.topology, "ghost", OPERATOR]
    return Question(
        hive,
        caller=random.choice(names),
        operation="do",
        target=random.choice([*names, None]),
        second=random.choice([*names, None, None]),
        facts=frozenset(random.choice([(), (), ("reply",), ("covered",)])),
    )
