"""Authorization: the request of a call to the policy, and the refusal as an error."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.operation import Operation, Params
from hive_core.broker.quarantine import quarantine_denial
from hive_core.broker.scopes import scope_denial
from hive_core.broker.subagents import subagent_decision
from hive_core.errors import HiveError, NotAllowed, NotFound
from hive_core.model.agents.agent import Profile
from hive_core.model.wire.record import OPERATOR
from hive_core.policy.algebra import HIDDEN, NO_CONTEXT, AuthzContext, Decision
from hive_core.policy.decide import decide
from hive_core.policy.phase_guard import phase_denial

_NAMED = 64
_QUEEN = Profile.QUEEN  # access to an enum member is slow
NO_SUCH_THING: Final = Decision.denial("visible", "there is no such thing", visible=False)


def judge(
    call: Call, operation: Operation, params: Params, *, in_phase: bool = True
) -> tuple[str | None, Decision]:
    """The target of the call, a name that may not exist, and the decision.

    `in_phase`: the phase of a queen bounds her own calls (row Q4). What the daemon goes on with for
    her was judged when she began it.
    """
    if call.seat is not None and (denied := scope_denial(call, operation, params)) is not None:
        return None, denied
    if operation.whose is not None:
        target = operation.whose.find(call, params)
        if target is None:
            return None, NO_SUCH_THING
    else:
        # An empty name names no agent.
        target = operation.target_of(params) or None
        if target is None and call.uuid != OPERATOR:
            target = call.caller
    facts = operation.facts(call, params) if operation.facts is not None else None
    second = getattr(params, operation.second) if operation.second is not None else None
    context = NO_CONTEXT
    if facts or second:
        context = AuthzContext(second or None, facts or NO_CONTEXT.facts)
    seldom = call.sub is not None or (target is not None and "/" in target)
    decision = subagent_decision(call, operation, target) if seldom else None
    decision = decision or decide(operation.allow, call.hive, call.caller, target, context)
    if decision.allowed and call.ledger.quarantines.agents:  # seldom
        decision = quarantine_denial(call, operation) or decision
    specs = call.hive.specs  # no method is called here: this runs for each call
    spec = specs[call.caller] if in_phase and call.caller in specs else None
    if spec is not None and spec.profile is _QUEEN and spec.has_phases and decision.allowed:
        phase = call.ledger.phases.get(call.uuid).phase
        decision = phase_denial(phase, operation.name, operation.action) or decision
    return target, decision


def refusal(
    operation: Operation, params: Params, target: str | None, decision: Decision
) -> HiveError:
    """The error for a caller without the permission."""
    thing = operation.whose
    if (
        thing is not None and not decision.visible
    ):  # it exists, but the caller may not see it: the same error
        return NotFound(f"no {thing.noun} {str(getattr(params, thing.param))[:_NAMED]}")
    if not decision.visible:
        return NotFound(_unseen(target or "", decision))
    # The name comes from the caller and can be as long as a frame.
    whom = (operation.preposition, target[:_NAMED]) if target else ()
    if thing is not None:
        whom = (operation.preposition or "of", *whom[1:]) if whom else ()
    words = ("cannot", operation.verb, *whom)
    sentence = f"{' '.join(filter(None, words))}: {decision.reason}"
    return NotAllowed(sentence, rule=decision.rule)


def _unseen(target: str, decision: Decision) -> str:
    """The same error for an agent that does not exist and for one that the caller may not see.

    It names the agent, since a call may be about two agents.
    """
    whole = decision.reason != HIDDEN.reason
    return decision.reason if whole else f"{HIDDEN.reason}: {target[:_NAMED]}"
