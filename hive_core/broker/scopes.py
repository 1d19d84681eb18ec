"""What a login on login.sock may call: each operation is in exactly one class.

The class is derived from the declaration of the operation, so that a new one is in a class too.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.login_rule import Level
from hive_core.broker.operation import Operation, Params
from hive_core.model.agents.roles import Action
from hive_core.model.operator.account import Scope
from hive_core.policy.algebra import Decision, DecisionTree, Rule
from hive_core.policy.relationship import OPERATOR_OVER

RULE: Final = "scope"
# Reads of other actions are about the caller itself: they receive, or are part of its work.
_READ_ACTIONS: Final = frozenset[Action]({"read", "read_artifact", "administer"})


class OperationClass(StrEnum):
    """Which logins an operation is served to."""

    LOCAL = "local"  # none: only on the operator's own socket
    AGENT = "agent"  # none: it is about an agent itself
    ANY_LOGIN = "any login"  # needs no login, or only the caller's own
    VIEWER = "viewer"
    NOTIFIER = "notifier"
    OPERATOR = "operator"
    APPROVER = "approver"
    BY_PARAMS = "operator or approver"  # approver where its params ask for a confirmation


_SCOPES: Final = {
    OperationClass.VIEWER: Scope.VIEWER,
    OperationClass.NOTIFIER: Scope.NOTIFIER,
    OperationClass.OPERATOR: Scope.OPERATOR,
    OperationClass.APPROVER: Scope.APPROVER,
}
_BY_SCOPE: Final = {scope: class_ for class_, scope in _SCOPES.items()}
_NO_LOGIN: Final = Decision.denial("login", "the connection has no login")
_NEVER: Final = {
    OperationClass.LOCAL: Decision.denial(RULE, "only on the operator's own socket"),
    OperationClass.AGENT: Decision.denial(RULE, "only the agent itself does this"),
}


def class_of(operation: Operation) -> OperationClass:
    """The one class of an operation."""
    login = operation.login
    if login.local or login.any_login:
        return OperationClass.LOCAL if login.local else OperationClass.ANY_LOGIN
    if login.scope is not None:
        return _BY_SCOPE[login.scope]
    if operation.mutates:
        return _class_of_mutation(operation)
    is_read = operation.action in _READ_ACTIONS and not operation.writes
    return OperationClass.VIEWER if is_read else OperationClass.AGENT


def _class_of_mutation(operation: Operation) -> OperationClass:
    if not _serves_operator_over_agents(operation.allow):
        return OperationClass.AGENT
    confirm = operation.login.confirm
    if confirm is None:
        return OperationClass.OPERATOR
    return OperationClass.BY_PARAMS if callable(confirm) else OperationClass.APPROVER


@cache
def _serves_operator_over_agents(rule: Rule) -> bool:
    """Whether the rule can allow something to the operator that is about an agent."""
    return _may_allow(rule.compile()[OPERATOR_OVER])


def _may_allow(tree: DecisionTree) -> bool:
    if isinstance(tree, tuple):
        _, yes, no = tree
        return _may_allow(yes) or _may_allow(no)
    return tree.allowed


def level_of(call: Call, operation: Operation, params: Params) -> Level | None:
    """Which confirmation the call needs; a dry run needs none."""
    confirm = operation.login.confirm
    if confirm is None or getattr(params, "dry_run", False):
        return None
    return confirm(call, params) if callable(confirm) else confirm


def scope_denial(call: Call, operation: Operation, params: Params) -> Decision | None:
    """The refusal of a call on login.sock by the scope of its login; None: the scope has it."""
    class_ = class_of(operation)
    login = call.login
    if class_ is OperationClass.ANY_LOGIN:
        return None
    if login is None or class_ in _NEVER:
        return _NEVER.get(class_, _NO_LOGIN)
    if class_ is OperationClass.BY_PARAMS:
        has_confirm = level_of(call, operation, params) is not None
        class_ = OperationClass.APPROVER if has_confirm else OperationClass.OPERATOR
    scope = _SCOPES[class_]
    reason = f"the login of {login.account} lacks the scope {scope.value}"
    return None if login.has(scope) else Decision.denial(RULE, reason)
