"""What a role may do at all: a guard around the rule of every operation that is an action."""

from __future__ import annotations

from typing import Final

from hive_core.model.hive import Hive
from hive_core.model.record import OPERATOR
from hive_core.model.roles import ACTION_OF, HABITS, Action
from hive_core.policy.algebra import Asked, Denial, Named, Passes, Rule, Test

_WORDS: Final = {
    Action.SPAWN: "create agents",
    Action.KILL: "start or end agents",
    Action.ASSIGN: "assign tasks",
    Action.SEND: "send",
    Action.READ: "read about agents",
    Action.READ_ARTIFACT: "read artifacts",
    Action.WRITE_ARTIFACT: "write artifacts",
    Action.ESCALATE: "ask or escalate",
}


def _acts(action: Action) -> Test:
    roles = frozenset(role for role, habit in HABITS.items() if action in habit.actions)

    def test(hive: Hive, caller: str, _: str | None, __: Asked) -> bool:
        spec = hive.specs.get(caller)
        return caller == OPERATOR if spec is None else spec.role in roles

    return test


# One test for each action, so that a rule that is worked out asks it once.
_GUARDS: Final = {
    action: Passes("", "", _acts(action), Denial(10, f"your role may not {_WORDS[action]}"))
    for action in Action
}


def bounded(operation: str, rule: Rule) -> Rule:
    """The rule as it holds for this operation; what it refuses by itself it refuses first."""
    action = ACTION_OF.get(operation)
    if action is None or all(action in habit.actions for habit in HABITS.values()):
        return rule
    return Named(rule.name, rule.text, rule & _GUARDS[action])
