"""Who may: every rule that an operation can name in its `allow`.

Nobody is allowed anything by position alone but what stands here; `decide` denies the rest.
"""

from __future__ import annotations

from typing import Final

from hive_core.model.agent import Role
from hive_core.model.capability import covers
from hive_core.model.record import OPERATOR as THE_OPERATOR
from hive_core.policy.algebra import Decision, Denial, Is, Named, Question, Rule
from hive_core.policy.decide import listed

__all__ = [
    "ANCESTOR", "ANYONE", "DESCENDANT", "MOVE", "OPERATOR", "PARENT", "ROUTE", "SELF",
    "SIBLING", "SPAWN", "Decision", "Question", "Rule", "holds",
]  # fmt: skip


def _self(question: Question) -> bool:
    return question.target is None or question.target == question.caller


def _parent(question: Question) -> bool:
    target = question.target
    return target is not None and question.hive.topology.parents.get(target) == question.caller


def _child(question: Question) -> bool:
    target = question.target
    return target is not None and question.hive.topology.parents.get(question.caller) == target


def _ancestor(question: Question) -> bool:
    target = question.target
    return target is not None and question.hive.topology.is_ancestor(question.caller, target)


def _descendant(question: Question) -> bool:
    target = question.target
    return target is not None and question.hive.topology.is_ancestor(target, question.caller)


def _sibling(question: Question) -> bool:
    target = question.target
    return target is not None and question.hive.topology.are_siblings(question.caller, target)


def _listed(question: Question) -> bool:
    target = question.target
    return target is not None and listed(question.hive, question.caller, target)


def _not_a_task(question: Question) -> bool:
    spec = question.hive.specs.get(question.caller)
    return spec is not None and spec.role is not Role.TASK


def _under_caller(question: Question) -> bool:
    caller, second = question.caller, question.second
    tree = question.hive.topology
    return second is not None and (second == caller or tree.is_ancestor(caller, second))


def _no_loop(question: Question) -> bool:
    target, second = question.target, question.second
    if target is None or second is None:
        return target is not None
    return target != second and not question.hive.topology.is_ancestor(target, second)


def holds(capability: str) -> Rule:
    """The caller holds the capability; the operator holds every one."""

    def test(question: Question) -> bool:
        if question.caller == THE_OPERATOR:
            return True
        spec = question.hive.specs.get(question.caller)
        return spec is not None and covers(spec.capabilities, capability)

    denial = Denial(8, f"you do not hold the capability {capability}")
    return Is(f"holds({capability})", f"with the capability `{capability}`", test, denial)


SELF: Final = Is("self", "the agent itself", _self, Denial(2, "not yourself"))
PARENT: Final = Is("parent", "its parent", _parent, Denial(3, "not your child"))
ANCESTOR: Final = Is("ancestor", "an ancestor", _ancestor, Denial(4, "not your descendant"))
SIBLING: Final = Is("sibling", "a sibling", _sibling, Denial(2, "not your sibling"))
DESCENDANT: Final = Is("descendant", "a descendant", _descendant, Denial(2, "not your ancestor"))
OPERATOR: Final = Is(
    "operator", "the operator", lambda question: question.caller == THE_OPERATOR,
    Denial(1, "only the operator may"),
)  # fmt: skip
ANYONE: Final = Is("anyone", "anyone", lambda _: True, Denial(0, "nobody may"))

# `target` is the parent of the new agent. What may be created there is for `grants.check_spawn`.
# The operator comes first: it names no parent when it means the root agent.
SPAWN: Final = OPERATOR | (SELF | ANCESTOR) & holds("spawn")

_NOT_A_ROOT: Final = Is(
    "", "", lambda question: question.second is not None,
    Denial(7, "only the operator makes a root"),
)  # fmt: skip
_UNDER_CALLER: Final = Is(
    "under caller", "", _under_caller,
    Denial(7, "the new parent is neither you nor your descendant"),
)  # fmt: skip
_NO_LOOP: Final = Is("", "", _no_loop, Denial(9, "the new parent is the agent itself or below it"))
MOVE: Final = Named(
    "move", "the operator, or an ancestor of the agent that is, or is above, the new parent",
    (OPERATOR | ANCESTOR & _NOT_A_ROOT & _UNDER_CALLER) & _NO_LOOP,
)  # fmt: skip

# Row H12. The guard stands over everything but the own parent and a reply.
_TO_PARENT: Final = Is("parent", "to the parent", _child, Denial(0, "not your parent"))
_REPLY: Final = Is(
    "reply", "to the sender of a message that is answered",
    lambda question: "reply" in question.facts, Denial(0, "not a reply"),
)  # fmt: skip
_NOT_A_TASK: Final = Is("", "", _not_a_task, Denial(9, "a task writes to its parent only"))
_TO_OPERATOR: Final = Is(
    "to operator", "to the operator", lambda question: question.target == THE_OPERATOR,
    Denial(0, "not the operator"),
)  # fmt: skip
_LISTED: Final = Is(
    "allow-list", "to whom the operator allowed", _listed,
    Denial(5, "neither your parent, sibling nor descendant, nor on your allow-list"),
)  # fmt: skip
_NEAR: Final = SELF | SIBLING | ANCESTOR | _TO_OPERATOR & holds("message.operator") | _LISTED
ROUTE: Final = Named(
    "route", "whom the routing rule lets write to the recipient",
    OPERATOR | _TO_PARENT | _REPLY | _NOT_A_TASK & _NEAR,
)  # fmt: skip
