"""Who a caller is to a target: one of twelve standings, found in constant time at any depth."""

from __future__ import annotations

from typing import Final

from hive_core.model.hive import Hive
from hive_core.model.record import OPERATOR

# Numbers, since they are the places of the answers of a rule. Whoever stands above STRANGER sees
# the target; a STRANGER does when the operator allowed it to write to the target.
(
    NOBODY, UNSEEN, STRANGER, ITSELF, PARENT, ANCESTOR, CHILD, DESCENDANT, SIBLING, TO_OPERATOR,
    OPERATOR_ITSELF, OPERATOR_OVER,
) = STANDINGS = tuple(range(12))  # fmt: skip

ABOVE: Final = frozenset({PARENT, ANCESTOR})
BELOW: Final = frozenset({CHILD, DESCENDANT})


def stand(hive: Hive, caller: str, target: str | None) -> int:
    """The one standing that holds. None as a target is the caller itself.

    NOBODY is a caller that is not in the tree or hangs on no root, UNSEEN a target like that.
    """
    places = hive.topology.numbering
    here = places.get(caller)
    if here is None:
        return _operator(hive, target) if caller == OPERATOR else NOBODY
    if target is None or target == caller:
        return ITSELF
    there = places.get(target)
    if there is None:
        return TO_OPERATOR if target == OPERATOR else UNSEEN
    enter, leave, _, up = here
    first, last, _, above = there
    if enter < first <= leave:
        found = PARENT if above == enter else ANCESTOR
    elif first < enter <= last:
        found = CHILD if up == first else DESCENDANT
    else:  # roots have nobody above them, and are no siblings
        found = SIBLING if up == above and up else STRANGER
    return found


def _operator(hive: Hive, target: str | None) -> int:
    """The operator is known to all and sees all, also what hangs on no root."""
    if target is None or target == OPERATOR:
        return OPERATOR_ITSELF
    return OPERATOR_OVER if target in hive.topology.parents else UNSEEN


def listed(hive: Hive, caller: str, target: str) -> bool:
    """Whether the operator allowed the caller to write to the target.

    The list points one way and holds UUIDs, so a name that is used again is not on it (attack 40).
    """
    spec, other = hive.specs.get(caller), hive.specs.get(target)
    return spec is not None and other is not None and other.uuid in spec.allow


def visible(hive: Hive, caller: str, target: str) -> bool:
    """Whether the caller sees the target.

    It sees itself, its ancestors, siblings and descendants, and whom it is allowed to write to.
    The operator sees all, and is known to all.
    """
    standing = stand(hive, caller, target)
    return standing > STRANGER or (standing == STRANGER and listed(hive, caller, target))
