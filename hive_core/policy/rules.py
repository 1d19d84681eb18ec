"""Who may: every rule that an operation can name in its `allow`.

Nobody is allowed anything by position alone but what stands here; `decide` denies the rest.
"""

from __future__ import annotations

from typing import Final

from hive_core.model.agents.agent import Role
from hive_core.model.agents.capability import covers
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.policy.algebra import (
    REPLY,
    AuthzContext,
    Decision,
    Denial,
    NamedRule,
    PredicateRule,
    RelationRule,
    Rule,
    is_target_listed,
)
from hive_core.policy.relationship import (
    ABOVE,
    BELOW,
    CHILD,
    ITSELF,
    OPERATOR_ITSELF,
    OPERATOR_OVER,
    STANDINGS,
    TO_OPERATOR,
    relationship,
)
from hive_core.policy.relationship import (
    PARENT as TO_CHILD,
)
from hive_core.policy.relationship import (
    SIBLING as TO_SIBLING,
)

__all__ = [
    "ANCESTOR",
    "ANYONE",
    "COVERED",
    "DESCENDANT",
    "INPUTS",
    "MOVE",
    "OPERATOR",
    "PARENT",
    "PROPOSE",
    "ROUTE",
    "SELF",
    "SIBLING",
    "SPAWN",
    "AuthzContext",
    "Decision",
    "Rule",
    "fact_rule",
    "holds",
]  # fmt: skip


COVERED: Final = "covered"
_TASK: Final = Role.TASK  # the class is slow to ask for a member


def _is_not_task(hive: Hive, caller: str, _: str | None, __: AuthzContext) -> bool:
    spec = hive.specs.get(caller)
    return spec is not None and spec.role is not _TASK


def _has_second(_: Hive, __: str, ___: str | None, asked: AuthzContext) -> bool:
    return asked.second is not None


def _is_second_under_caller(hive: Hive, caller: str, _: str | None, asked: AuthzContext) -> bool:
    return asked.second is not None and relationship(hive, caller, asked.second) in (ITSELF, *ABOVE)


def _makes_no_loop(hive: Hive, _: str, target: str | None, asked: AuthzContext) -> bool:
    if target is None or asked.second is None:
        return target is not None
    return target != asked.second and relationship(hive, target, asked.second) not in ABOVE


def _is_reply(_: Hive, __: str, ___: str | None, asked: AuthzContext) -> bool:
    return REPLY in asked.facts


def _may_update_inputs(hive: Hive, caller: str, _: str | None, asked: AuthzContext) -> bool:
    """All inputs by one capability, or each that is named by one of its own."""
    spec = hive.specs.get(caller)
    if spec is None:
        return caller == THE_OPERATOR
    return covers(spec.capabilities, "meta.update") or COVERED in asked.facts


def holds(capability: str) -> Rule:
    """The caller holds the capability; the operator holds every one."""

    def test(hive: Hive, caller: str, _: str | None, __: AuthzContext) -> bool:
        if caller == THE_OPERATOR:
            return True
        spec = hive.specs.get(caller)
        return spec is not None and covers(spec.capabilities, capability)

    denial = Denial(8, f"you do not hold the capability {capability}")
    return PredicateRule(
        f"holds({capability})", f"with the capability `{capability}`", test, denial
    )


def fact_rule(fact: str, text: str, denial: str) -> Rule:
    """The operation found this fact in the ledger (`facts`), such as who assigned a task."""

    def test(_: Hive, __: str, ___: str | None, asked: AuthzContext) -> bool:
        return fact in asked.facts

    return PredicateRule(fact, text, test, Denial(6, denial))


_IS_OPERATOR: Final = frozenset({OPERATOR_ITSELF, OPERATOR_OVER})

SELF: Final = RelationRule(
    "self", "the agent itself", frozenset({ITSELF, OPERATOR_ITSELF}), Denial(2, "not yourself")
)
PARENT: Final = RelationRule(
    "parent", "its parent", frozenset({TO_CHILD}), Denial(3, "not your child")
)
ANCESTOR: Final = RelationRule("ancestor", "an ancestor", ABOVE, Denial(4, "not your descendant"))
SIBLING: Final = RelationRule(
    "sibling", "a sibling", frozenset({TO_SIBLING}), Denial(2, "not your sibling")
)
DESCENDANT: Final = RelationRule(
    "descendant", "a descendant", BELOW, Denial(2, "not your ancestor")
)
OPERATOR: Final = RelationRule(
    "operator", "the operator", _IS_OPERATOR, Denial(1, "only the operator may")
)
ANYONE: Final = RelationRule("anyone", "anyone", frozenset(STANDINGS), Denial(0, "nobody may"))

# `target` is the parent of the new agent. What may be created there is for `grants.check_spawn`.
# The operator comes first: it names no parent when it means the root agent.
SPAWN: Final = OPERATOR | (SELF | ANCESTOR) & holds("spawn")

# Row H9. What the agent becomes is decided by the operator, in another call.
PROPOSE: Final = OPERATOR | ANCESTOR | SELF & holds("config.propose")

# Row H13.
INPUTS: Final = PredicateRule(
    "meta inputs",
    "with the capability `meta.update`, or `meta.update:INPUT` for each input",
    _may_update_inputs,
    Denial(8, "you do not hold the capability meta.update for all of these inputs"),
)

_NOT_A_ROOT: Final = PredicateRule(
    "", "", _has_second, Denial(7, "only the operator makes a root"),
)  # fmt: skip
_UNDER_CALLER: Final = PredicateRule(
    "under caller", "", _is_second_under_caller,
    Denial(7, "the new parent is neither you nor your descendant"),
)  # fmt: skip
_NO_LOOP: Final = PredicateRule(
    "", "", _makes_no_loop, Denial(9, "the new parent is the agent itself or below it")
)
MOVE: Final = NamedRule(
    "move", "the operator, or an ancestor of the agent that is, or is above, the new parent",
    (OPERATOR | ANCESTOR & _NOT_A_ROOT & _UNDER_CALLER) & _NO_LOOP,
)  # fmt: skip

# Row H12. The guard stands over everything but the own parent and a reply.
_TO_PARENT: Final = RelationRule(
    "parent", "to the parent", frozenset({CHILD}), Denial(0, "not your parent")
)
_REPLY: Final = PredicateRule(
    REPLY, "to the sender of a message that is answered", _is_reply, Denial(0, "not a reply"),
)  # fmt: skip
_NOT_A_TASK: Final = PredicateRule(
    "", "", _is_not_task, Denial(9, "a task writes to its parent only")
)
_TO_OPERATOR: Final = RelationRule(
    "to operator", "to the operator", frozenset({TO_OPERATOR}), Denial(0, "not the operator")
)
_LISTED: Final = PredicateRule(
    "allow-list", "to whom the operator allowed", is_target_listed,
    Denial(5, "neither your parent, sibling nor descendant, nor on your allow-list"),
)  # fmt: skip
_NEAR: Final = SELF | SIBLING | ANCESTOR | _TO_OPERATOR & holds("message.operator") | _LISTED
ROUTE: Final = NamedRule(
    "route", "whom the routing rule lets write to the recipient",
    OPERATOR | _TO_PARENT | _REPLY | _NOT_A_TASK & _NEAR,
)  # fmt: skip
