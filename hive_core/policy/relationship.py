"""Who a caller is to a target: one of twelve standings, found in constant time at any depth."""

from __future__ import annotations

from typing import Final

from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import OPERATOR

# Numbers, since they are the places of the answers of a rule. Whoever stands above STRANGER sees
# the target; a STRANGER does when the operator allowed it to write to the target.
(
    NOBODY, UNSEEN, STRANGER, ITSELF, PARENT, ANCESTOR, CHILD, DESCENDANT, SIBLING, TO_OPERATOR,
    OPERATOR_ITSELF, OPERATOR_OVER,
) = STANDINGS = tuple(range(12))  # fmt: skip

ABOVE: Final = frozenset({PARENT, ANCESTOR})
BELOW: Final = frozenset({CHILD, DESCENDANT})


def relationship(hive: Hive, caller: str, target: str | None) -> int:
    """The one standing that holds. None as a target is the caller itself.

    NOBODY is a caller that is not in the tree or hangs on no root, UNSEEN a target like that.
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
        found = PARENT if above == enter else ANCESTOR
    elif first < enter <= last:
        found = CHILD if up == first else DESCENDANT
    else:  # roots have nobody above them, and are no siblings
        found = SIBLING if up == above and up else STRANGER
    return found


def _relationship_outside_tree(hive: Hive, caller: str, target: str | None) -> int:
    """One of them has no place. The operator is known to all and sees all, also a broken chain."""
    if caller in hive.topology.numbering:
        return TO_OPERATOR if target == OPERATOR else UNSEEN
    if caller != OPERATOR:
        return NOBODY
    if target is None or target == OPERATOR:
        return OPERATOR_ITSELF
    return OPERATOR_OVER if target in hive.topology.parents else UNSEEN


def is_on_allow_list(hive: Hive, caller: str, target: str) -> bool:
    """Whether the operator allowed the caller to write to the target.

    The list points one way and holds UUIDs, so a name that is used again is not on it (attack 40).
    """
    spec, other = hive.specs.get(caller), hive.specs.get(target)
    return spec is not None and other is not None and other.uuid in spec.allow


def upward_path(hive: Hive, caller: str, target: str | None) -> tuple[str, ...]:
    """Names walked from the target upwards until the caller or a root is met.

    For the operator's eyes: it may name agents that the caller cannot see.
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

    It sees itself, its ancestors, siblings and descendants, and whom it is allowed to write to.
    The operator sees all, and is known to all.
    """
    standing = relationship(hive, caller, target)
    return standing > STRANGER or (standing == STRANGER and is_on_allow_list(hive, caller, target))
