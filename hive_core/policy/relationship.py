"""The relationship of a caller to a target, found in constant time at any depth."""

from __future__ import annotations

from typing import Final

from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import EGRESS_CALLER, MODEL_CALLER, OPERATOR

# To whom a call goes, seen from the caller. Numbers, since they index the trees of a rule. A caller
# above STRANGER sees the target; a STRANGER sees it when the operator allowed it to write to the
# target.
(
    NOBODY, UNSEEN, STRANGER, ITSELF, TO_CHILD, TO_FARTHER_DESCENDANT, TO_PARENT,
    TO_FARTHER_ANCESTOR, TO_SIBLING, TO_OPERATOR, OPERATOR_ITSELF, OPERATOR_OVER, FROM_MODEL,
    FROM_EGRESS,
) = RELATIONSHIPS = tuple(range(14))  # fmt: skip

ABOVE: Final = frozenset({TO_CHILD, TO_FARTHER_DESCENDANT})
_SERVICES: Final = {MODEL_CALLER: FROM_MODEL, EGRESS_CALLER: FROM_EGRESS}
BELOW: Final = frozenset({TO_PARENT, TO_FARTHER_ANCESTOR})


def relationship(hive: Hive, caller: str, target: str | None) -> int:
    """The relationship that holds. With target None it is that of the caller to itself.

    FROM_MODEL, FROM_EGRESS: the caller is that service. NOBODY: the caller is not in the tree or
    has no path to a root. UNSEEN: the same of the target.
    """
    places = hive.topology.numbering
    try:
        here, there = places[caller], places[caller if target is None else target]
    except KeyError:
        return _relationship_outside_tree(hive, caller, target)
    if here is there:
        return ITSELF
    enter, leave, _, up = here
    first, last, _, above = there
    if enter < first <= leave:
        result = TO_CHILD if above == enter else TO_FARTHER_DESCENDANT
    elif first < enter <= last:
        result = TO_PARENT if up == first else TO_FARTHER_ANCESTOR
    else:  # roots have no parent, and are not siblings
        result = TO_SIBLING if up == above and up else STRANGER
    return result


def _relationship_outside_tree(hive: Hive, caller: str, target: str | None) -> int:
    """One of them has no place. All know the operator, which sees all, broken chains included."""
    if caller in hive.topology.numbering:
        return TO_OPERATOR if target == OPERATOR else UNSEEN
    if caller != OPERATOR:
        return _SERVICES.get(caller, NOBODY)
    if target is None or target == OPERATOR:
        return OPERATOR_ITSELF
    return OPERATOR_OVER if target in hive.topology.parents else UNSEEN


def is_on_allow_list(hive: Hive, caller: str, target: str) -> bool:
    """Whether the operator allowed the caller to write to the target.

    The list is one-way and holds UUIDs, so an agent that reuses a name is not on it (attack 40).
    """
    spec, other = hive.specs.get(caller), hive.specs.get(target)
    return spec is not None and other is not None and other.uuid in spec.allow


def upward_path(hive: Hive, caller: str, target: str | None) -> tuple[str, ...]:
    """Names from the target upwards until the caller or a root.

    For the operator only: it may name agents that the caller cannot see.
    """
    if caller == OPERATOR or target in (None, caller):
        return (caller,)
    if target not in hive.topology:
        return ()
    walked = (target, *hive.topology.lineage(target))
    met = caller in walked
    return walked[: walked.index(caller) + 1] if met else walked


def is_visible(hive: Hive, caller: str, target: str) -> bool:
    """Whether the caller sees the target.

    An agent sees itself, its ancestors, siblings and descendants, and the agents on its allow-list.
    The operator sees all agents, and all agents know the operator.
    """
    relation = relationship(hive, caller, target)
    return relation > STRANGER or (relation == STRANGER and is_on_allow_list(hive, caller, target))
