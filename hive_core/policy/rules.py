"""Every rule that an operation can name in its `allow`.

Position alone allows nothing but what is listed here; `decide` denies the rest.
"""

from __future__ import annotations

from typing import Final

from hive_core.model.agents.agent import Profile, Role
from hive_core.model.agents.capability import covers
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.policy.algebra import (
    EGRESS_RULE,
    MODEL_RULE,
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
    FROM_EGRESS,
    FROM_MODEL,
    ITSELF,
    OPERATOR_ITSELF,
    OPERATOR_OVER,
    RELATIONSHIPS,
    TO_CHILD,
    TO_OPERATOR,
    TO_PARENT,
    TO_SIBLING,
    relationship,
)

__all__ = [
    "ANCESTOR",
    "ANYONE",
    "COVERED",
    "DESCENDANT",
    "EGRESS",
    "INPUTS",
    "MODEL",
    "MOVE",
    "OPERATOR",
    "PARENT",
    "PROPOSE",
    "QUEEN",
    "QUEEN_OR_ROOT",
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
_TASK: Final = Role.TASK  # access to an enum member is slow


def _is_not_task(hive: Hive, caller: str, _: str | None, __: AuthzContext) -> bool:
    spec = hive.specs.get(caller)
    return spec is not None and spec.role is not _TASK


def _has_second(_: Hive, __: str, ___: str | None, context: AuthzContext) -> bool:
    return context.second is not None


def _is_second_under_caller(hive: Hive, caller: str, _: str | None, context: AuthzContext) -> bool:
    return context.second is not None and relationship(hive, caller, context.second) in (
        ITSELF,
        *ABOVE,
    )


def _makes_no_loop(hive: Hive, _: str, target: str | None, context: AuthzContext) -> bool:
    if target is None or context.second is None:
        return target is not None
    return target != context.second and relationship(hive, target, context.second) not in ABOVE


def _is_reply(_: Hive, __: str, ___: str | None, context: AuthzContext) -> bool:
    return REPLY in context.facts


def _may_update_inputs(hive: Hive, caller: str, _: str | None, context: AuthzContext) -> bool:
    """One capability covers all inputs, or one capability for each named input."""
    spec = hive.specs.get(caller)
    if spec is None:
        return caller == THE_OPERATOR
    return covers(spec.capabilities, "meta.update") or COVERED in context.facts


def _is_queen(hive: Hive, caller: str, _: str | None, __: AuthzContext) -> bool:
    spec = hive.specs.get(caller)
    return spec is not None and spec.profile is Profile.QUEEN


def _is_queen_or_root(
    hive: Hive, caller: str, target: str | None, context: AuthzContext
) -> bool:  # fmt: skip
    is_root = caller in hive.topology and hive.topology.parent(caller) is None
    return is_root or _is_queen(hive, caller, target, context)


def holds(capability: str) -> Rule:
    """The caller holds the capability; the operator holds all."""

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
    """The operation found this fact in the ledger (`facts`), such as the assigner of a task."""

    def test(_: Hive, __: str, ___: str | None, context: AuthzContext) -> bool:
        return fact in context.facts

    return PredicateRule(fact, text, test, Denial(6, denial))


_IS_OPERATOR: Final = frozenset({OPERATOR_ITSELF, OPERATOR_OVER})

SELF: Final = RelationRule(
    "self",
    "the agent itself",
    frozenset({ITSELF, OPERATOR_ITSELF}),
    Denial(2, "only the agent itself may do this"),
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
    "operator", "the operator", _IS_OPERATOR, Denial(1, "only the operator may do this")
)
ANYONE: Final = RelationRule(
    "anyone", "anyone", frozenset(RELATIONSHIPS), Denial(0, "no rule allows it")
)

MODEL: Final = RelationRule(
    MODEL_RULE,
    "hive-model, the service that calls models for agents",
    frozenset({FROM_MODEL}),
    Denial(1, "only hive-model may do this"),
)

EGRESS: Final = RelationRule(
    EGRESS_RULE,
    "hive-egress, the service that connects agents to the internet",
    frozenset({FROM_EGRESS}),
    Denial(1, "only hive-egress may do this"),
)

# `target` is the parent of the new agent. `grants.check_spawn` checks what may be created there.
# The operator comes first: it names no parent when it means the root agent.
SPAWN: Final = OPERATOR | (SELF | ANCESTOR) & holds("spawn")

# Rows Q1 and Q2: an agent with phases moves itself.
QUEEN: Final = PredicateRule(
    "queen", "that is the queen", _is_queen, Denial(8, "only the queen may do this")
)
# Row Q31: of all agents these alone speak to the user by themselves.
QUEEN_OR_ROOT: Final = PredicateRule(
    "queen or root", "that is the queen or a root", _is_queen_or_root,
    Denial(8, "only the queen and a root may ask the user; ask your parent"),
)  # fmt: skip

# Row H9. The operator decides in another call whether the agent gets the configuration.
PROPOSE: Final = OPERATOR | ANCESTOR | SELF & holds("config.propose")

# Row H13.
INPUTS: Final = PredicateRule(
    "meta inputs",
    "with the capability `meta.update`, or `meta.update:INPUT` for each input",
    _may_update_inputs,
    Denial(8, "you do not hold the capability meta.update for all of these inputs"),
)

_NOT_A_ROOT: Final = PredicateRule(
    "", "", _has_second, Denial(7, "only the operator may make a root"),
)  # fmt: skip
_UNDER_CALLER: Final = PredicateRule(
    "under caller", "", _is_second_under_caller,
    Denial(7, "the new parent is neither you nor your descendant"),
)  # fmt: skip
_NO_LOOP: Final = PredicateRule(
    "", "", _makes_no_loop, Denial(9, "the new parent is the agent itself or its descendant")
)
MOVE: Final = NamedRule(
    "move", "the operator, or an ancestor of the agent that is also the new parent or its ancestor",
    (OPERATOR | ANCESTOR & _NOT_A_ROOT & _UNDER_CALLER) & _NO_LOOP,
)  # fmt: skip

# Row H12. The guard applies to all but messages to the own parent and replies.
_TO_PARENT: Final = RelationRule(
    "parent", "a child, to its parent", frozenset({TO_PARENT}), Denial(0, "not your parent")
)
_REPLY: Final = PredicateRule(
    REPLY, "the recipient of a message, to its sender", _is_reply, Denial(0, "not a reply"),
)  # fmt: skip
_NOT_A_TASK: Final = PredicateRule(
    "", "", _is_not_task, Denial(9, "an agent of role task may write to its parent only")
)
_TO_OPERATOR: Final = RelationRule(
    "to operator",
    "an agent, to the operator",
    frozenset({TO_OPERATOR}),
    Denial(0, "not the operator"),
)
_LISTED: Final = PredicateRule(
    "allow-list", "an agent that has the recipient on its allow-list", is_target_listed,
    Denial(5, "not your parent, sibling or descendant, and not on your allow-list"),
)  # fmt: skip
_NEAR: Final = SELF | SIBLING | ANCESTOR | _TO_OPERATOR & holds("message.operator") | _LISTED
ROUTE: Final = NamedRule(
    "route", "an agent that the routing rule lets write to the recipient",
    OPERATOR | _TO_PARENT | _REPLY | _NOT_A_TASK & _NEAR,
)  # fmt: skip
