"""Questions, decisions, and the algebra that rules are written in.

A rule says who the *caller* is to the *target*. `|` and `&` join rules; nothing else decides.
Rules are values: they have a name for the record, a sentence for the docs, and no effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from typing_extensions import override

from hive_core.model.hive import Hive
from hive_core.model.record import OPERATOR as THE_OPERATOR


@dataclass(frozen=True, slots=True)
class Question:
    """May `caller` do `operation` to `target` in this snapshot?

    Without a target the operation is about the caller itself. `second` is the new parent of a
    move (None: make it a root). `facts` come from the ledger: {"reply"} when the caller answers a
    message that the target sent to it.
    """

    hive: Hive
    caller: str
    operation: str
    target: str | None = None
    second: str | None = None
    facts: frozenset[str] = frozenset()

    @property
    def chain(self) -> tuple[str, ...]:
        """Names walked from the target upwards until the caller or a root is met."""
        if self.caller == THE_OPERATOR or self.target in (None, self.caller):
            return (self.caller,)
        if self.target not in self.hive.topology:
            return ()
        walked = (self.target, *self.hive.topology.lineage(self.target))
        met = self.caller in walked
        return walked[: walked.index(self.caller) + 1] if met else walked


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, the rule that gave it and why. `visible` False goes out as NotFound."""

    allowed: bool
    rule: str
    reason: str
    visible: bool = True
    question: Question | None = field(default=None, repr=False, compare=False)

    @classmethod
    def granted(cls, grant: Grant, question: Question) -> Decision:
        return cls(allowed=True, rule=grant.name, reason=grant.text, question=question)

    @classmethod
    def refused(
        cls, rule: str, reason: str, question: Question, *, visible: bool = True
    ) -> Decision:
        return cls(allowed=False, rule=rule, reason=reason, visible=visible, question=question)

    @property
    def chain(self) -> tuple[str, ...]:
        """The chain that was walked, worked out when asked, since it grows with the depth.

        For the operator's eyes: it may name agents that the caller cannot see.
        """
        return self.question.chain if self.question else ()


class Grant(NamedTuple):
    """The part of a rule that allows."""

    name: str
    text: str


class Denial(NamedTuple):
    """Why a part does not allow. Of several, the one with the highest weight is told."""

    weight: int
    reason: str


class Rule(ABC):
    """Who may. `name` is for the record, `text` ends the sentence "allowed to ..."."""

    name: str
    text: str

    @abstractmethod
    def ask(self, question: Question) -> Grant | Denial:
        """The part that allows, or why none does."""

    def judge(self, question: Question) -> Decision:
        """The rule's own answer. `decide` asks first who the caller is and what it may see."""
        answer = self.ask(question)
        if isinstance(answer, Grant):
            return Decision.granted(answer, question)
        return Decision.refused(self.name, answer.reason, question)

    def __or__(self, other: Rule) -> Rule:
        return Either(self, other)

    def __and__(self, other: Rule) -> Rule:
        return Both(self, other)


class Is(Rule):
    """One fact about caller and target. A guard limits others and has no name in the record."""

    def __init__(
        self, name: str, text: str, test: Callable[[Question], bool], denial: Denial
    ) -> None:
        self.name, self.text = name, text
        self._test, self._denial, self._grant = test, denial, Grant(name, text)

    @override
    def ask(self, question: Question) -> Grant | Denial:
        return self._grant if self._test(question) else self._denial


class Either(Rule):
    """The first that allows."""

    def __init__(self, *rules: Rule) -> None:
        parts = (rule.rules if isinstance(rule, Either) else (rule,) for rule in rules)
        self.rules: tuple[Rule, ...] = tuple(chain.from_iterable(parts))
        self.name = " | ".join(rule.name for rule in self.rules)
        *first, last = (rule.text for rule in self.rules)
        self.text = f"{', '.join(first)} or {last}" if first else last

    @override
    def ask(self, question: Question) -> Grant | Denial:
        told = _SILENT
        for rule in self.rules:
            answer = rule.ask(question)
            if isinstance(answer, Grant):
                return answer
            if answer.weight > told.weight:
                told = answer
        return told


class Both(Rule):
    """Every one has to allow; told is the first that does not."""

    def __init__(self, *rules: Rule) -> None:
        parts = (rule.rules if isinstance(rule, Both) else (rule,) for rule in rules)
        self.rules: tuple[Rule, ...] = tuple(chain.from_iterable(parts))
        self.name = " & ".join(_inner(rule, rule.name) for rule in self.rules if rule.name)
        self.text = " ".join(_inner(rule, rule.text) for rule in self.rules if rule.text)

    @override
    def ask(self, question: Question) -> Grant | Denial:
        grants = []
        for rule in self.rules:
            answer = rule.ask(question)
            if isinstance(answer, Denial):
                return answer
            grants.append(answer)
        return _joined(*grants)


class Named(Rule):
    """A rule of several parts under one name and one sentence."""

    def __init__(self, name: str, text: str, rule: Rule) -> None:
        self.name, self.text, self._rule = name, text, rule

    @override
    def ask(self, question: Question) -> Grant | Denial:
        return self._rule.ask(question)


_SILENT: Final = Denial(-1, "nobody may")


@lru_cache(maxsize=256)
def _joined(*grants: Grant) -> Grant:
    names = " & ".join(grant.name for grant in grants if grant.name)
    return Grant(names, " ".join(grant.text for grant in grants if grant.text))


def _inner(rule: Rule, text: str) -> str:
    return f"({text})" if isinstance(rule, Either) else text
