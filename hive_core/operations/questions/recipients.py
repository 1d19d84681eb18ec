"""The recipients of a question: the parent, an ancestor, or the operator."""

from __future__ import annotations

from typing import Final

from hive_core.errors import NotAllowed, NotFound
from hive_core.model.agents.agent import Role
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.question import QuestionKind
from hive_core.policy.decide import decide, visible_names
from hive_core.policy.relationship import ABOVE, relationship
from hive_core.policy.rules import ROUTE

PARENT: Final = "parent"


def resolve_recipient(hive: Hive, asker: str, to: str, kind: QuestionKind) -> str:
    """The recipient that `to` stands for: the name of an ancestor of the asker, or `operator`."""
    cannot = f"cannot {'ask' if kind is QuestionKind.QUESTION else 'escalate to'} {to[:64]}"
    parent = hive.topology.parent(asker)
    if to in (PARENT, parent, OPERATOR):
        return _nearest_recipient(hive, asker, to, kind)
    if to not in visible_names(hive, asker):
        raise NotFound(f"no such agent: {to[:64]}")
    if relationship(hive, to, asker) not in ABOVE:
        raise NotAllowed(f"{cannot}: it is not your ancestor", rule="ancestor")
    if hive.spec(asker).role is Role.TASK:
        raise NotAllowed(f"{cannot}: an agent of role task may ask its parent only", rule="route")
    return to


def _nearest_recipient(hive: Hive, asker: str, to: str, kind: QuestionKind) -> str:
    """The parent, or the operator if `to` says so and the asker may write to the operator.

    An asker that may not write to the operator asks its parent, which may pass the question on.
    An escalation of a root goes to the operator.
    """
    parent = hive.topology.parent(asker)
    direct = decide(ROUTE, hive, asker, OPERATOR).allowed
    if to == OPERATOR and direct:
        return OPERATOR
    if parent is not None:
        return parent
    if direct or kind is QuestionKind.ESCALATION:
        return OPERATOR
    raise NotAllowed(
        "cannot ask operator: you have neither a parent nor the capability message.operator",
        rule="route",
    )


def party_uuid(hive: Hive, name: str) -> str:
    """The UUID of an agent; `operator` for the operator."""
    return OPERATOR if name == OPERATOR else hive.spec(name).id


def parent_uuid(hive: Hive, uuid: str) -> str:
    """The UUID of the parent; `operator` for a root and for an agent outside the tree."""
    name = hive.name(uuid)
    parent = None if name is None else hive.topology.parent(name)
    return OPERATOR if parent is None else hive.spec(parent).id
