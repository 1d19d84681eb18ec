"""What is asked, what is decided, and the algebra that rules are written in.

A rule says who the *caller* is to the *target*. `|` and `&` join rules; nothing else decides.
Rules are values: they have a name for the record, a sentence for the docs, and no effect.

A rule is not run when a question comes. It is worked out once, at the first one, for every standing
and for both outcomes of each test that it makes, into decisions that stand ready (`Rule.answers`).
A question then only follows the branches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from typing_extensions import override

from hive_core.model.agents.hive import Hive
from hive_core.policy.relationship import NOBODY, STANDINGS, STRANGER, UNSEEN, is_on_allow_list


class AuthzContext(NamedTuple):
    """What a few questions are about beside the caller and the target.

    `second` is the new parent of a move (None: make it a root). `facts` come from the ledger:
    {"reply"} when the caller answers a message that the target sent to it.
    """

    second: str | None = None
    facts: frozenset[str] = frozenset()


NO_CONTEXT: Final = AuthzContext()
# Of the hive, the caller, the target and the rest of what is asked.
Test: TypeAlias = Callable[[Hive, str, str | None, AuthzContext], bool]


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, the rule that gave it and why. `visible` False goes out as NotFound."""

    allowed: bool
    rule: str
    reason: str
    visible: bool = True

    @classmethod
    def denial(cls, rule: str, reason: str, *, visible: bool = True) -> Decision:
        return cls(allowed=False, rule=rule, reason=reason, visible=visible)


# The decision, or something to look at first: the test, and what follows when it is true or not.
# A plain tuple, which the interpreter takes apart in a shorter way than one with names.
Branch: TypeAlias = "tuple[Test, Answer, Answer]"
Answer: TypeAlias = "Decision | Branch"


class Permit(NamedTuple):
    """The part of a rule that allows."""

    name: str
    text: str


class Denial(NamedTuple):
    """Why a part does not allow. Of several, the one with the highest weight is told."""

    weight: int
    reason: str


class Assumptions(NamedTuple):
    """What is known while a rule is worked out: the standing, and what some tests gave."""

    relationship: int
    results: Mapping[Test, bool]

    def result_of(self, test: Test) -> bool:
        if test not in self.results:
            raise Untested(test)
        return self.results[test]

    def with_result(self, test: Test, *, gave: bool) -> Assumptions:
        return Assumptions(self.relationship, {**self.results, test: gave})


class Untested(Exception):
    """The answer hangs on a test that was not made yet."""

    def __init__(self, test: Test) -> None:
        super().__init__()
        self.test = test


_NO_DENIAL: Final = Denial(-1, "nobody may")
UNKNOWN_CALLER: Final = Decision.denial("known caller", "you are no agent of this hive")
HIDDEN: Final = Decision.denial("visible", "no such agent", visible=False)
_BEFORE_ANY_RULE: Final = {NOBODY: UNKNOWN_CALLER, UNSEEN: HIDDEN}
REPLY: Final = "reply"


def is_target_listed(hive: Hive, caller: str, target: str | None, _: AuthzContext) -> bool:
    return target is not None and is_on_allow_list(hive, caller, target)


class Rule(ABC):
    """Who may. `name` is for the record, `text` ends the sentence "allowed to ..."."""

    # By standing, the decision or the way to it; not there before it was worked out. No cached
    # property, which would cost a question more than its answer does.
    trees: tuple[Answer, ...]

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def compile(self) -> tuple[Answer, ...]:
        """Have the answers. Most rules are parts of others, and nobody ever asks them."""
        self.trees = tuple(self._tree(Assumptions(standing, {})) for standing in STANDINGS)
        return self.trees

    @abstractmethod
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        """The part that allows, or why none does; Untested when it hangs on more."""

    def _tree(self, known: Assumptions) -> Answer:
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
        # A reply may go to a living sender that the caller cannot see; nothing else may.
        replies = isinstance(answer, Permit) and answer.name == REPLY
        if known.relationship == STRANGER and not replies and not known.result_of(is_target_listed):
            return HIDDEN
        if isinstance(answer, Permit):
            return Decision(allowed=True, rule=answer.name, reason=answer.text)
        return Decision.denial(self.name, answer.reason)

    def __or__(self, other: Rule) -> Rule:
        return Either(self, other)

    def __and__(self, other: Rule) -> Rule:
        return Both(self, other)


class RelationRule(Rule):
    """The caller has one of these standings to the target."""

    def __init__(self, name: str, text: str, among: frozenset[int], denial: Denial) -> None:
        self._among, self._denial, self._grant = among, denial, Permit(name, text)
        super().__init__(name, text)

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        return self._grant if known.relationship in self._among else self._denial


class PredicateRule(Rule):
    """A test of what is asked. A guard limits others and has no name in the record."""

    def __init__(self, name: str, text: str, test: Test, denial: Denial) -> None:
        self._test, self._denial, self._grant = test, denial, Permit(name, text)
        super().__init__(name, text)

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        return self._grant if known.result_of(self._test) else self._denial


class Either(Rule):
    """The first that allows."""

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
        told = _NO_DENIAL
        for rule in self.rules:
            answer = rule.evaluate(known)
            if isinstance(answer, Permit):
                return answer
            if answer.weight > told.weight:
                told = answer
        return told


class Both(Rule):
    """Every one has to allow; told is the first that does not."""

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
    """A rule of several parts under one name and one sentence."""

    def __init__(self, name: str, text: str, rule: Rule) -> None:
        self._rule = rule
        super().__init__(name, text)

    @override
    def evaluate(self, known: Assumptions) -> Permit | Denial:
        return self._rule.evaluate(known)


def _in_parentheses(rule: Rule, text: str) -> str:
    return f"({text})" if isinstance(rule, Either) else text
