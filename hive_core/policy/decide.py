"""The one function that says yes or no, and who sees whom. What does not fit is denied."""

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
    ANCESTOR,
    CHILD,
    DESCENDANT,
    PARENT,
    SIBLING,
    is_visible,
    relationship,
)

_NAMED: Final = 64  # the name comes from the caller, and can be as long as a frame
_PARTIES: Final = {DAEMON: Relation.DAEMON, OPERATOR: Relation.OPERATOR}
_RELATIONS: Final = {
    PARENT: Relation.PARENT,
    ANCESTOR: Relation.ANCESTOR,
    CHILD: Relation.CHILD,
    DESCENDANT: Relation.DESCENDANT,
    SIBLING: Relation.SIBLING,
}


def decide(
    rule: Rule, hive: Hive, caller: str, target: str | None = None, asked: AuthzContext = NO_CONTEXT
) -> Decision:
    """May the caller do this? Denied by default.

    A caller that is not in the tree, or hangs on no root, may nothing. A target that the caller
    cannot see is answered as one that does not exist (attack 41). Without a target it is about the
    caller itself.
    """
    try:
        answers = rule.trees
    except AttributeError:  # nobody has asked before
        answers = rule.compile()
    found = answers[relationship(hive, caller, target)]
    while isinstance(found, tuple):
        test, yes, no = found
        found = yes if test(hive, caller, target, asked) else no
    if asked is NO_CONTEXT or asked.second is None:
        return found
    if found is UNKNOWN_CALLER or not found.visible or is_visible(hive, caller, asked.second):
        return found
    return Decision.denial("visible", f"{HIDDEN.reason}: {asked.second[:_NAMED]}", visible=False)


def visible_names(hive: Hive, caller: str) -> tuple[str, ...]:
    """Everyone whom `visible` shows, without looking at the others. Parents before children."""
    tree = hive.topology
    if caller == OPERATOR:
        return tuple(tree.parents)
    if caller not in tree.numbering:
        return ()
    parent = tree.parent(caller)
    siblings = () if parent is None else tree.children(parent)
    near = (*reversed(tree.lineage(caller)), *siblings, *tree.subtree(caller))
    allowed = (hive.name(str(each)) for each in hive.spec(caller).allow)
    living = (name for name in allowed if name is not None and name in tree.numbering)
    return tuple(dict.fromkeys((*near, *living)))


def relation(hive: Hive, sender: str, recipient: str) -> Relation:
    """What the sender is to the recipient, for the label that the daemon writes on a message."""
    if sender in _PARTIES:
        return _PARTIES[sender]
    if sender == recipient:
        return Relation.SELF
    return _RELATIONS.get(relationship(hive, sender, recipient), Relation.ALLOWED)
