"""The one function that says yes or no, and who sees whom. What does not fit is denied."""

from __future__ import annotations

from typing import Final

from hive_core.model.hive import Hive
from hive_core.model.record import DAEMON, OPERATOR, Relation
from hive_core.model.topology import Topology
from hive_core.policy.algebra import Decision, Question, Rule

UNSEEN: Final = "no such agent"
_PARTIES: Final = {DAEMON: Relation.DAEMON, OPERATOR: Relation.OPERATOR}


def decide(rule: Rule, question: Question) -> Decision:
    """May the caller do this? Denied by default.

    A caller that is not in the tree, or hangs on no root, may nothing. A target that the caller
    cannot see is answered as one that does not exist (attack 41).
    """
    hive, caller = question.hive, question.caller
    if caller != OPERATOR and caller not in hive.topology.numbering:
        return Decision.refused("known caller", "you are no agent of this hive", question)
    target, second = question.target, question.second
    if target is not None and not visible(hive, caller, target) and not _replies(rule, question):
        return Decision.refused("visible", UNSEEN, question, visible=False)
    if second is not None and not visible(hive, caller, second):
        return Decision.refused("visible", f"no such agent as {second}", question, visible=False)
    return rule.judge(question)


def _replies(rule: Rule, question: Question) -> bool:
    """A reply may go to a living sender that the caller cannot see; nothing else may."""
    if not question.facts or question.target not in question.hive.topology.numbering:
        return False
    decision = rule.judge(question)
    return decision.allowed and decision.rule == "reply"


def visible(hive: Hive, caller: str, target: str) -> bool:
    """Whether the caller sees the target.

    It sees itself, its ancestors, siblings and descendants, and whom it is allowed to write to.
    The operator sees all, and is known to all.
    """
    if target == OPERATOR:
        return True
    tree = hive.topology
    if caller == OPERATOR:
        return target in tree.parents
    there, here = tree.numbering.get(target), tree.numbering.get(caller)
    if there is None or here is None:
        return False
    return (
        there.enter <= here.enter <= there.leave
        or here.enter <= there.enter <= here.leave
        or tree.are_siblings(caller, target)
        or listed(hive, caller, target)
    )


def listed(hive: Hive, caller: str, target: str) -> bool:
    """Whether the operator allowed the caller to write to the target.

    The list points one way and holds UUIDs, so a name that is used again is not on it (attack 40).
    """
    spec, other = hive.specs.get(caller), hive.specs.get(target)
    return spec is not None and other is not None and other.uuid in spec.allow


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
    tree = hive.topology
    if tree.is_ancestor(sender, recipient):
        return Relation.PARENT if tree.parent(recipient) == sender else Relation.ANCESTOR
    return _from_beside_or_below(tree, sender, recipient)


def _from_beside_or_below(tree: Topology, sender: str, recipient: str) -> Relation:
    if tree.is_ancestor(recipient, sender):
        return Relation.CHILD if tree.parent(sender) == recipient else Relation.DESCENDANT
    return Relation.SIBLING if tree.are_siblings(sender, recipient) else Relation.ALLOWED
