"""The actions of a role: a guard around the rule of every operation."""

from __future__ import annotations

from typing import Final

from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import ACTIONS, CONNECT, METER, ROLE_DEFAULTS, Action
from hive_core.model.wire.record import EGRESS_CALLER, MODEL_CALLER, OPERATOR
from hive_core.policy.algebra import AuthzContext, Denial, NamedRule, PredicateRule, Rule, Test

_WORDS: Final[dict[Action, str]] = {
    "spawn": "create agents",
    "start": "start agents",
    "stop": "stop agents",
    "destroy": "destroy agents",
    "move": "move agents",
    "assign": "assign tasks",
    "work": "work on tasks",
    "send": "send messages",
    "receive": "receive messages",
    "escalate": "ask or escalate",
    "schedule": "schedule work",
    "configure": "configure agents",
    "read": "read about agents",
    "read_artifact": "read artifacts",
    "write_artifact": "write artifacts",
    "administer": "administer the hive",
    "meter": "account for calls of models",
    "connect": "connect agents to the internet",
}
_SERVICES: Final = {METER: MODEL_CALLER, CONNECT: EGRESS_CALLER}


def _has_action(action: Action) -> Test:
    alone = _SERVICES.get(action, OPERATOR)
    roles = frozenset(role for role, habit in ROLE_DEFAULTS.items() if action in habit.actions)

    def test(hive: Hive, caller: str, _: str | None, __: AuthzContext) -> bool:
        spec = hive.specs.get(caller)
        return caller == alone if spec is None else spec.role in roles

    return test


# One test for each action, so that a compiled rule makes it once.
_GUARDS: Final = {
    action: PredicateRule(
        "", "", _has_action(action), Denial(10, f"your role may not {_WORDS[action]}")
    )
    for action in ACTIONS
}


def guard_by_role(action: Action, rule: Rule) -> Rule:
    """The rule of an operation of this action; a role without the action is refused first."""
    if all(action in habit.actions for habit in ROLE_DEFAULTS.values()):
        return rule
    return NamedRule(rule.name, rule.text, rule & _GUARDS[action])
