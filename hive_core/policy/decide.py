"""The function that decides about every request, and visibility. The default is to deny."""

from __future__ import annotations

from typing import Final

from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON, OPERATOR, Relation
from hive_core.policy.algebra import (
    HIDDEN,
    NO_CONTEXT,
    UNKNOWN_CALLER,
    AuthzContext,
    Decision,
    Rule,
)
from hive_core.policy.relationship import (
    RELATIONSHIPS,
    TO_CHILD,
    TO_FARTHER_ANCESTOR,
    TO_FARTHER_DESCENDANT,
    TO_PARENT,
    TO_SIBLING,
    is_visible,
    relationship,
)

_NAMED: Final = 64  # the caller chose the name, which can be as long as a frame
_PARTIES: Final = {DAEMON: Relation.DAEMON, OPERATOR: Relation.OPERATOR}
# What the caller is to the target.
_KIN: Final = {
    TO_CHILD: Relation.PARENT,
    TO_FARTHER_DESCENDANT: Relation.ANCESTOR,
    TO_PARENT: Relation.CHILD,
    TO_FARTHER_ANCESTOR: Relation.DESCENDANT,
    TO_SIBLING: Relation.SIBLING,
}
# By relationship; a stranger may only write when it is allowed to.
_RELATIONS: Final = tuple(_KIN.get(number, Relation.ALLOWED) for number in RELATIONSHIPS)


def decide(
    rule: Rule,
    hive: Hive,
    caller: str,
    target: str | None = None,
    context: AuthzContext = NO_CONTEXT,
) -> Decision:
    """Whether the caller may do this. The default is to deny.

    A caller that is not in the tree, or has no path to a root, may do nothing. A target that the
    caller cannot see is answered like one that does not exist (attack 41). Without a target the
    request is about the caller itself.
    """
    try:
        trees = rule.trees
    except AttributeError:  # the first request of this rule
        trees = rule.compile()
    tree = trees[relationship(hive, caller, target)]
    while type(tree) is not Decision:
        test, yes, no = tree
        tree = yes if test(hive, caller, target, context) else no
    if context is NO_CONTEXT or context.second is None:
        return tree
    if tree is UNKNOWN_CALLER or not tree.visible or is_visible(hive, caller, context.second):
        return tree
    return Decision.denial("visible", f"{HIDDEN.reason}: {context.second[:_NAMED]}", visible=False)


def visible_names(hive: Hive, caller: str) -> tuple[str, ...]:
    """All agents that `is_visible` shows, without a look at the others; parents before children."""
    tree = hive.topology
    if caller == OPERATOR:
        return tuple(tree.parents)
    if caller not in tree.numbering:
        return ()
    parent = tree.parent(caller)
    siblings = () if parent is None else tree.children(parent)
    near = (*reversed(tree.lineage(caller)), *siblings, *tree.subtree(caller))
    allowed = (hive.name(str(uuid)) for uuid in hive.spec(caller).allow)
    living = (name for name in allowed if name is not None and name in tree.numbering)
    return tuple(dict.fromkeys((*near, *living)))


def relation(hive: Hive, sender: str, recipient: str) -> Relation:
    """What the sender is to the recipient: the label that the daemon writes on a message."""
    if sender in _PARTIES:
        return _PARTIES[sender]
    if sender == recipient:
        return Relation.SELF
    return _RELATIONS[relationship(hive, sender, recipient)]
