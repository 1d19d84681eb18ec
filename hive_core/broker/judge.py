"""Whose call on whom: the question that a call puts to the policy, and the refusal as an error."""

from __future__ import annotations

from hive_core.broker.audit import Judged
from hive_core.broker.call import Call
from hive_core.broker.operation import Operation, Params
from hive_core.errors import HiveError, NotAllowed, NotFound
from hive_core.policy.algebra import Decision, Question
from hive_core.policy.decide import decide

_NOBODY: frozenset[str] = frozenset()
_NAMED = 64


def judge(call: Call, operation: Operation, params: Params) -> tuple[Judged, HiveError | None]:
    """What was decided, and the error that says so when it was no."""
    target = _named(operation.target, params)
    if target is None and not call.by_operator:
        target = call.caller
    second = _named(operation.second, params)
    facts = _NOBODY if operation.facts is None else operation.facts(call, params)
    question = Question(call.hive, call.caller, operation.name, target, second, facts)
    decision = decide(operation.allow, question)
    judged = Judged(operation.name, target, decision.rule, decision.reason)
    return judged, None if decision.allowed else _refusal(operation, target, decision)


def _named(field: str | None, params: Params) -> str | None:
    """The agent that a parameter names; an empty name is nobody."""
    return (getattr(params, field) or None) if field else None


def _refusal(operation: Operation, target: str | None, decision: Decision) -> HiveError:
    # The name comes from the caller and can be as long as a frame.
    whom = (operation.preposition, target[:_NAMED]) if target else ()
    words = ("cannot", operation.verb, *whom)
    sentence = f"{' '.join(filter(None, words))}: {decision.reason}"
    if decision.visible:
        return NotAllowed(sentence, rule=decision.rule)
    return NotFound(sentence)
