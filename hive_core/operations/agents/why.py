"""The policy's answer to a question, without doing anything."""

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
    caller: Agent = Field(description="Who would ask: an agent, or `operator`.")
    operation: str = Field(max_length=64, description="Name of an operation.")
    target: Agent | None = Field(None, description="On whom; the caller itself when absent.")
    second: Agent | None = Field(
        None, description="The other agent in question: of a move the new parent, empty for a root."
    )


class Explanation(Result):
    allowed: bool = Field(description="Whether the rule lets the caller.")
    action: str = Field(description="What the operation does: the caller's role has to have it.")
    rule: str = Field(description="The part of the rule that decided.")
    reason: str = Field(description="Why, in words.")
    chain: list[str] = Field(description="Names walked, from the target upwards.")
    commit: str = Field(description="The state of the tree that this was judged by.")


@operation(action="administer", allow=OPERATOR)
def why(call: Call, params: WhyParams) -> Explanation:
    """Explain whether an operation would be allowed, and by which rule, without doing it.

    It answers who may do this to whom. Whether there is room for it (quotas, limits, a full inbox)
    is not part of the question.
    """
    found = _find_operation(params.operation)
    target = params.target or None
    if target is None and params.caller != THE_OPERATOR:
        target = params.caller
    about = found.target or found.whose
    if about is None and target not in (None, params.caller):
        raise InvalidArgument(f"{found.name} is about the caller alone", field="target")
    second = params.second or None
    _check_agents_exist(call, (params.caller, target, second if found.second else None))
    asked = AuthzContext(second if found.second else None)
    decision = decide(found.allow, call.hive, params.caller, target, asked)
    return Explanation(
        allowed=decision.allowed, action=found.action, rule=decision.rule, reason=decision.reason,
        chain=list(upward_path(call.hive, params.caller, target)), commit=call.hive.commit,
    )  # fmt: skip


def _check_agents_exist(call: Call, names: Iterable[str | None]) -> None:
    """Refuse a question about an agent that does not exist: that is a slip of the pen."""
    for name in names:
        if name is not None and name not in (THE_OPERATOR, DAEMON):
            call.hive.spec(name)


def _find_operation(name: str) -> Operation:
    for each in REGISTRY.values():
        if name in (each.name, *each.aliases):
            return each
    near = get_close_matches(name, REGISTRY, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidArgument(f"no operation {name}{hint}", field="operation")
