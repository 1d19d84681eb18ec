"""The policy's answer to a request, without carrying it out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import REGISTRY, Operation, Params, Result, operation
from hive_core.errors import InvalidArgument
from hive_core.model.wire.record import DAEMON
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.operations.fields import Agent
from hive_core.policy.algebra import AuthzContext
from hive_core.policy.decide import decide
from hive_core.policy.relationship import upward_path
from hive_core.policy.rules import OPERATOR


class WhyParams(Params):
    caller: Agent = Field(description="The caller: an agent, or `operator`.")
    operation: str = Field(max_length=64, description="Name of an operation.")
    target: Agent | None = Field(None, description="The target; absent: the caller itself.")
    second: Agent | None = Field(
        None,
        description="The other agent of the request: for a move the new parent, empty for a root.",
    )


class Explanation(Result):
    allowed: bool = Field(description="Whether the rule allows it.")
    action: str = Field(
        description="The action of the operation, which the caller's role must have."
    )
    rule: str = Field(description="The part of the rule that decided.")
    reason: str = Field(description="The reason, in words.")
    chain: list[str] = Field(description="Names from the target upwards to the caller or a root.")
    commit: str = Field(description="The commit of the tree that was used.")


@operation(action="administer", allow=OPERATOR)
def why(call: Call, params: WhyParams) -> Explanation:
    """Explain whether an operation would be allowed, and by which rule, without doing it.

    It only checks authorization. Quotas, limits and full inboxes are not checked.
    """
    operation_ = _find_operation(params.operation)
    target = params.target or None
    if target is None and params.caller != THE_OPERATOR:
        target = params.caller
    about = operation_.target or operation_.whose
    if about is None and target not in (None, params.caller):
        raise InvalidArgument(
            f"{operation_.name} has no target: it concerns the caller alone", field="target"
        )
    second = params.second or None
    _check_agents_exist(call, (params.caller, target, second if operation_.second else None))
    context = AuthzContext(second if operation_.second else None)
    decision = decide(operation_.allow, call.hive, params.caller, target, context)
    return Explanation(
        allowed=decision.allowed,
        action=operation_.action,
        rule=decision.rule,
        reason=decision.reason,
        chain=list(upward_path(call.hive, params.caller, target)),
        commit=call.hive.commit,
    )


def _check_agents_exist(call: Call, names: Iterable[str | None]) -> None:
    """Refuse a question about an agent that does not exist: it is probably a typing error."""
    for name in names:
        if name is not None and name not in (THE_OPERATOR, DAEMON):
            call.hive.spec(name)


def _find_operation(name: str) -> Operation:
    for operation_ in REGISTRY.values():
        if name in (operation_.name, *operation_.aliases):
            return operation_
    near = get_close_matches(name, REGISTRY, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidArgument(f"no operation {name}{hint}", field="operation")
