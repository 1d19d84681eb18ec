"""Rules, decisions, and the operators that combine rules.

A rule states which relationship or property the *caller* must have. `|` and `&` combine rules;
nothing else decides. A rule is a value: it has a name for the audit log, a sentence for the docs,
and no side effect.

A rule is not evaluated at each request. At the first request it is compiled, for every relationship
and for both outcomes of each test that it makes, into trees whose leaves are finished decisions
(`Rule.trees`). A request then only follows the branches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, TypeAlias, final

from typing_extensions import override

from hive_core.model.agents.hive import Hive
from hive_core.policy.relationship import (
    FROM_EGRESS,
    FROM_MODEL,
    NOBODY,
    RELATIONSHIPS,
    STRANGER,
    UNSEEN,
    is_on_allow_list,
)


class AuthzContext(NamedTuple):
    """What some requests need beside the caller and the target.

    `second` is the new parent of a move (None: make the agent a root). `facts` come from the
    ledger: {"reply"} when the caller answers a message that the target sent to it.
    """

    second: str | None = None
    facts: frozenset[str] = frozenset()


NO_CONTEXT: Final = AuthzContext()
# A test of the hive, the caller, the target and the context.
Test: TypeAlias = Callable[[Hive, str, str | None, AuthzContext], bool]


@final
@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, the rule that gave it, and the reason. `visible=False` is sent as NotFound."""

    allowed: bool
    rule: str
    reason: str
    visible: bool = True

    @classmethod
    def denial(cls, rule: str, reason: str, *, visible: bool = True) -> Decision:
        return cls(allowed=False, rule=rule, reason=reason, visible=visible)


# A decision, or a test with the tree to follow when it is true and the one when it is false.
# Plain tuples: the interpreter unpacks them faster than named ones.
Branch: TypeAlias = "tuple[Test, DecisionTree, DecisionTree]"
DecisionTree: TypeAlias = "Decision | Branch"


class Permit(NamedTuple):
    """The part of a rule that allows the request."""

    name: str
    text: str


class Denial(NamedTuple):
    """Why a part does not allow the request. Of several, the heaviest one is reported."""

    weight: int
    reason: str


class Assumptions(NamedTuple):
    """What a rule is compiled for: the relationship, and the results of some tests."""

    relationship: int
    results: Mapping[Test, bool]

    def result_of(self, test: Test) -> bool:
        if test not in self.results:
            raise Untested(test)
        return self.results[test]

    def with_result(self, test: Test, *, gave: bool) -> Assumptions:
        return Assumptions(self.relationship, {**self.results, test: gave})


class Untested(Exception):
    """The answer depends on a test whose result is not assumed yet."""

    def __init__(self, test: Test) -> None:
        super().__init__()
        self.test = test


_NO_DENIAL: Final = Denial(-1, "no rule allows it")
UNKNOWN_CALLER: Final = Decision.denial("known caller", "the caller is not an agent of this hive")
HIDDEN: Final = Decision.denial("visible", "no such agent", visible=False)
_BEFORE_ANY_RULE: Final = {NOBODY: UNKNOWN_CALLER, UNSEEN: HIDDEN}
REPLY: Final = "reply"
MODEL_RULE: Final = "model"
EGRESS_RULE: Final = "egress"
# No other rule allows these services anything: the rule, and why others do not.
_OF_SERVICES: Final = {
    FROM_MODEL: (MODEL_RULE, "hive-model may only account for calls of models"),
    FROM_EGRESS: (EGRESS_RULE, "hive-egress may only ask about connections and report them"),
}
_EVERY_RULE: Final = ("", "")


def is_target_listed(hive: Hive, caller: str, target: str | None, _: AuthzContext) -> bool:
    return target is not None and is_on_allow_list(hive, caller, target)


def _is_open_to(relationship: int, answer: Permit) -> bool:
    only, _ = _OF_SERVICES.get(relationship, _EVERY_RULE)
    return not only or answer.name == only


class Rule(ABC):
    """A rule of authorization. The audit log has its `name`, the reference pages its `text`."""

    # The decision tree for each relationship; absent until `compile` ran. It is not a cached
    # property: the lookup of one costs more than the decision itself.
    trees: tuple[DecisionTree, ...]

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def compile(self) -> tuple[DecisionTree, ...]:
        """Make the trees. It is done on first use, since most rules are only parts of others."""
        self.trees = tuple(self._tree(Assumptions(relation, {})) for relation in RELATIONSHIPS)
        return self.trees

    @abstractmethod
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        """The part that allows, or why none does. Raises Untested if a test result is missing."""

    def _tree(self, known: Assumptions) -> DecisionTree:
        try:
            return self._decision(known)
        except Untested as fork:
            yes, no = (
                self._tree(known.with_result(fork.test, gave=gave)) for gave in (True, False)
            )
            return yes if yes == no else (fork.test, yes, no)

    def _decision(self, known: Assumptions) -> Decision:
        if known.relationship in _BEFORE_ANY_RULE:
            return _BEFORE_ANY_RULE[known.relationship]
        answer = self.evaluate(known)
        # A reply may reach a living sender that the caller cannot see; no other request may.
        replies = isinstance(answer, Permit) and answer.name == REPLY
        if known.relationship == STRANGER and not replies and not known.result_of(is_target_listed):
            return HIDDEN
        if isinstance(answer, Permit) and _is_open_to(known.relationship, answer):
            return Decision(allowed=True, rule=answer.name, reason=answer.text)
        _, other = _OF_SERVICES.get(known.relationship, _EVERY_RULE)
        reason = answer.reason if isinstance(answer, Denial) else other
        return Decision.denial(self.name, reason)

    def __or__(self, other: Rule) -> Rule:
        return Either(self, other)

    def __and__(self, other: Rule) -> Rule:
        return Both(self, other)


class RelationRule(Rule):
    """The caller has one of these relationships to the target."""

    def __init__(self, name: str, text: str, among: frozenset[int], denial: Denial) -> None:
        self._among, self._denial, self._grant = among, denial, Permit(name, text)
        super().__init__(name, text)

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        return self._grant if known.relationship in self._among else self._denial


class PredicateRule(Rule):
    """A test of the request. A guard restricts other rules and has no name in the audit log."""

    def __init__(self, name: str, text: str, test: Test, denial: Denial) -> None:
        self._test, self._denial, self._grant = test, denial, Permit(name, text)
        super().__init__(name, text)

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        return self._grant if known.result_of(self._test) else self._denial


class Either(Rule):
    """At least one of the rules allows. The first one that does is recorded."""

    def __init__(self, *rules: Rule) -> None:
        parts = (rule.rules if isinstance(rule, Either) else (rule,) for rule in rules)
        self.rules: tuple[Rule, ...] = tuple(chain.from_iterable(parts))
        *first, last = (rule.text for rule in self.rules)
        super().__init__(
            " | ".join(rule.name for rule in self.rules),
            f"{', '.join(first)} or {last}" if first else last,
        )

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        denial = _NO_DENIAL
        for rule in self.rules:
            answer = rule.evaluate(known)
            if isinstance(answer, Permit):
                return answer
            if answer.weight > denial.weight:
                denial = answer
        return denial


class Both(Rule):
    """All of the rules allow. The first one that does not is reported."""

    def __init__(self, *rules: Rule) -> None:
        parts = (rule.rules if isinstance(rule, Both) else (rule,) for rule in rules)
        self.rules: tuple[Rule, ...] = tuple(chain.from_iterable(parts))
        super().__init__(
            " & ".join(_in_parentheses(rule, rule.name) for rule in self.rules if rule.name),
            " ".join(_in_parentheses(rule, rule.text) for rule in self.rules if rule.text),
        )

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        grants = []
        for rule in self.rules:
            answer = rule.evaluate(known)
            if isinstance(answer, Denial):
                return answer
            grants.append(answer)
        names = " & ".join(grant.name for grant in grants if grant.name)
        return Permit(names, " ".join(grant.text for grant in grants if grant.text))


class NamedRule(Rule):
    """A rule of several parts with one name and one sentence."""

    def __init__(self, name: str, text: str, rule: Rule) -> None:
        self._rule = rule
        super().__init__(name, text)

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        return self._rule.evaluate(known)


def _in_parentheses(rule: Rule, text: str) -> str:
    return f"({text})" if isinstance(rule, Either) else text
